package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/superpeer/lab"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/superpeer"
)

func init() { fulltest.MostlyComputes() }

// synthetic are the round trips between 20 hosts in three places, drawn by a program.
func synthetic(t testing.TB) *lab.Matrix {
	t.Helper()
	f, err := os.Open("testdata/rtt20.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := lab.ReadMatrix(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// inVirtualTime plays o: how busy the machine is changes nothing, and a minute takes as
// long as it takes to compute.
func inVirtualTime(t *testing.T, o Options) (r *Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // for memberlist to notice
	})
	if r == nil {
		t.FailNow()
	}
	return r
}

func shown(x *int) string {
	if x == nil {
		return "never"
	}
	return fmt.Sprint(*x)
}

func shownMean(x *float64) string {
	if x == nil {
		return "none"
	}
	return fmt.Sprintf("%.2f", *x)
}

// unserved is how many nodes were not served in the best of the last five rounds: the clients of a token that has just
// moved look for a super peer for a round or two.
func unserved(r *Report) int {
	last := r.Samples[len(r.Samples)-5:]
	return slices.MinFunc(last, func(a, b Sample) int { return a.Unserved - b.Unserved }).Unserved
}

// TestALiveOverlayKeepsItsPromises plays a calm time, the crash of a super peer three times, and that of
// a tenth of all nodes, with memberlist and the network's delays. What it asks is less than
// what docs/reports/2026-11-25-superpeers.md measures: few nodes vary more, so that a single crash
// may take twice as long as most do.
func TestALiveOverlayKeepsItsPromises(t *testing.T) {
	const nodes, rounds = 40, 126
	const capacity = 2 * 20 // twice the mean load
	r := inVirtualTime(t, Options{
		RTT: synthetic(t), Nodes: nodes, Fraction: 0.05, Capacity: capacity, Rounds: rounds,
		Kills: []Kill{{At: rounds - 96, Supers: 1}, {At: rounds - 78, Supers: 1}, {At: rounds - 60, Supers: 1}, {At: rounds - 45, Share: 0.1}},
	})
	if r.CapOver != 0 {
		t.Errorf("%d times a super peer served more than %d", r.CapOver, capacity)
	}
	slow := 0
	if r.Exact == nil || *r.Exact > r.Recovery[0].Round {
		t.Errorf("the number of super peers was right from round %s, want it before round %d", shown(r.Exact), r.Recovery[0].Round)
	}
	for i, one := range r.Recovery[:3] {
		if one.Served == nil || *one.Served > 8 || one.Exact == nil {
			if i == 0 || r.Recovery[i-1].Exact != nil { // else this one served nearly all nodes
				slow++
			}
			t.Logf("a super peer died: 99 %% of its %d clients were served after %s rounds, and there was another after %s", one.Orphans, shown(one.Served), shown(one.Exact))
		}
		if one.Served == nil || *one.Served > 16 {
			t.Errorf("a super peer died: 99 %% of its %d clients were served after %s rounds, want at most 16", one.Orphans, shown(one.Served))
		}
	}
	// One death in 40 is like that by chance: a holder that is its own token's registrar. Its record ends with it, and the
	// next registrar begins once memberlist has detected the death. With it in 5 of 360 deaths, and with none other, the
	// number was right after 17 rounds or later.
	if slow > 2 {
		t.Errorf("all three super peers that died were replaced slowly: their clients served after more than 8 rounds, or no other before the next died")
	}
	if tenth := r.Recovery[3]; tenth.Exact == nil || *tenth.Exact > 40 {
		t.Errorf("a tenth died: the number was right after %s rounds, want at most 40", shown(tenth.Exact))
	}
	if r.LabMean == nil || *r.LabMean <= 0 {
		t.Errorf("the laboratory's mean is %v, want one", r.LabMean)
	}
	if r.Bytes > 2000 {
		t.Errorf("a node sends %.0f bytes a second, want at most 2000", r.Bytes)
	}
	if unserved(r) > nodes/50 {
		t.Errorf("%d nodes are not served at the end", unserved(r))
	}
	t.Logf("%d nodes: exact from round %s; served %s, exact %s; a tenth: %s; mean %.2f ms, the laboratory's %s; %.0f bytes a node and second; refused %d",
		nodes, shown(r.Exact), shown(r.Recovery[0].Served), shown(r.Recovery[0].Exact), shown(r.Recovery[3].Exact), r.Mean, shownMean(r.LabMean), r.Bytes, r.Refused)
}

// TestFiveHundredNodesInOneProcess is a crowd; without BATUTA_TEST_FULL=1 a small one.
func TestFiveHundredNodesInOneProcess(t *testing.T) {
	nodes := fulltest.Size(60, 500)
	r := inVirtualTime(t, Options{RTT: synthetic(t), Nodes: nodes, Fraction: 0.05, Capacity: 30, Rounds: 30, Quick: true})
	if r.CapOver != 0 {
		t.Errorf("%d times a super peer served more than 30", r.CapOver)
	}
	if r.Exact == nil || unserved(r) > nodes/50 {
		t.Errorf("after 30 rounds %d super peers live, %d are wanted, and %d nodes are not served", r.Last.Live, r.Last.Wanted, unserved(r))
	}
	t.Logf("%d nodes: exact from round %s, %d not served, %.0f bytes a node and second", nodes, shown(r.Exact), unserved(r), r.Bytes)
}

// TestACoreGrowsServesAndMends is the same with super peers that alone know each other: a small crowd
// without BATUTA_TEST_FULL=1.
func TestACoreGrowsServesAndMends(t *testing.T) {
	nodes := fulltest.Size(60, 245)
	const rounds = 200
	r := inVirtualTime(t, Options{
		RTT: synthetic(t), Nodes: nodes, Fraction: 0.05, Capacity: 40, Rounds: rounds, Membership: superpeer.MembershipCore,
		Kills: []Kill{{At: 100, Supers: 1}, {At: 130, Share: 0.1}}, Quick: true,
	})
	if r.CapOver != 0 {
		t.Errorf("%d times a super peer served more than 40", r.CapOver)
	}
	if r.Exact == nil && r.Recovery[0].Exact == nil && r.Recovery[1].Exact == nil {
		t.Error("the number was never right")
	}
	if one := r.Recovery[0]; one.Served == nil || *one.Served > 12 {
		t.Errorf("a super peer died: 99 %% of its %d clients were served after %s rounds, want at most 12", one.Orphans, shown(one.Served))
	}
	// The number follows what super peers say they serve, and wavers with it.
	margin := max(1, r.Last.Wanted/10)
	if off := r.Last.Live - r.Last.Wanted; off > margin || off < -margin {
		t.Errorf("%d super peers live at the end, %d are wanted, give or take %d", r.Last.Live, r.Last.Wanted, margin)
	}
	if unserved(r) > nodes/20 {
		t.Errorf("%d nodes are not served at the end", unserved(r))
	}
	if r.Bytes > 2000 {
		t.Errorf("a node sends %.0f bytes a second, want at most 2000", r.Bytes)
	}
	t.Logf("%d nodes: exact from round %s; served %s, exact %s; a tenth: %s; %.0f bytes a node and second, %.0f kB; refused %d",
		nodes, shown(r.Exact), shown(r.Recovery[0].Served), shown(r.Recovery[0].Exact), shown(r.Recovery[1].Exact), r.Bytes, r.Memory/1000, r.Refused)
}

// TestLossCostsLittle bounds what a node sends while the network loses packets. A probe whose direct ping is lost
// must leave the indirect ones their time, else each lost packet makes a living node suspect, and that is news to all.
func TestLossCostsLittle(t *testing.T) {
	for loss, most := range map[float64]float64{0.02: 1200, 0.05: 1500} {
		r := inVirtualTime(t, Options{RTT: synthetic(t), Nodes: 60, Fraction: 0.1, Rounds: 60, Loss: loss, Quick: true})
		if r.Bytes > most {
			t.Errorf("with a loss of %v a node sends %.0f bytes a second, want at most %.0f", loss, r.Bytes, most)
		}
		if off := r.Last.Live - r.Last.Wanted; off > 1 || off < -1 || unserved(r) > 1 {
			t.Errorf("with a loss of %v there are %d super peers at the end, %d are wanted, and %d nodes are not served", loss, r.Last.Live, r.Last.Wanted, unserved(r))
		}
		t.Logf("loss %v: %.0f bytes a node and second, right from round %s", loss, r.Bytes, shown(r.Exact))
	}
}

func TestARunCanBeEnded(t *testing.T) {
	for nodes, when := range map[int]string{0: "it plays", 500: "nodes join"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			began := time.Now()
			if _, err := Run(ctx, Options{RTT: synthetic(t), Nodes: nodes, Rounds: 1000}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 6*time.Second {
				t.Errorf("while %s: it ends %v after its start: %v", when, time.Since(began), err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestALiveOverlayComesCloseToKMedoids plays the overlay of TestALiveOverlayKeepsItsPromises with the same crashes.
func TestALiveOverlayComesCloseToKMedoids(t *testing.T) {
	const rounds = 90
	const best = 34.683 // ms, of k-medoids: TestKMedoidsOfTheLiveOverlay of internal/superpeer/lab computes it
	r := inVirtualTime(t, Options{
		RTT: synthetic(t), Nodes: 40, Fraction: 0.05, Capacity: 40, Rounds: rounds, Seed: 1, Quick: true,
		Kills: []Kill{{At: rounds - 60, Supers: 1}, {At: rounds - 45, Share: 0.1}},
	})
	t.Logf("the mean round trip is %.1f ms, %.2f × k-medoids", r.Mean, r.Mean/best)
	if r.Mean > 1.7*best {
		t.Errorf("the mean round trip is %.1f ms, want at most 1.7 × k-medoids, which has %.1f", r.Mean, best)
	}
}
