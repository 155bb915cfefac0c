package ring_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

func init() { fulltest.MostlyComputes() }

// ascending is the ring 1, 2, … n.
func ascending(n int) []election.ID {
	ids := make([]election.ID, n)
	for i := range ids {
		ids[i] = election.ID(strconv.Itoa(i + 1))
	}
	return ids
}

func descending(n int) []election.ID {
	ids := ascending(n)
	slices.Reverse(ids)
	return ids
}

// The closed forms of the sources, for sizes from 4 to 200: every one in full. The highest
// leads, lives and wins again.
func TestClosedForms(t *testing.T) {
	all := ascending
	lowest := func(int) []election.ID { return []election.ID{"1"} }
	one := func(n int) int { return n }
	step := fulltest.Size(7, 1)
	cases := []struct {
		name, algorithm  string
		order, starts    func(n int) []election.ID
		contest, outcome election.MessageKind
		contests         func(n int) int
	}{
		{"Chang-Roberts, all start, ascending", "chang-roberts", ascending, all, election.Election, election.Elected, func(n int) int { return 2*n - 1 }},
		{"Chang-Roberts, all start, descending", "chang-roberts", descending, all, election.Election, election.Elected, func(n int) int { return n * (n + 1) / 2 }},
		{"Chang-Roberts, one starts, worst place", "chang-roberts", ascending, lowest, election.Election, election.Elected, func(n int) int { return 2*n - 1 }},
		{"list, one starts", "ring", ascending, lowest, election.Election, election.Coordinator, one},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := 4; n <= 200; n += step {
				got := count(t, c.algorithm, n, c.order(n), c.starts(n))
				if got[c.contest] != c.contests(n) || got[c.outcome] != n || len(got) != 2 {
					t.Errorf("n=%d: %v, the closed form gives %d %s and %d %s", n, got, c.contests(n), c.contest, n, c.outcome)
				}
			}
		})
	}
}

func count(t *testing.T, algorithm string, n int, order, starts []election.ID) map[election.MessageKind]int {
	t.Helper()
	r, err := sim.Count(inOrder(order), sim.CountConfig{Algorithm: algorithm, Nodes: n, Start: starts})
	if err != nil {
		t.Fatalf("n=%d: %v", n, err)
	}
	if leader := election.ID(strconv.Itoa(n)); r.Leader != leader {
		t.Fatalf("n=%d: %s leads, not %s", n, r.Leader, leader)
	}
	return r.Messages
}

// On a ring in random order n·H_n messages are to be expected when all start.
func TestRandomOrder(t *testing.T) {
	const n = 12
	runs := fulltest.Size(2000, 10_000)
	random := rand.New(rand.NewPCG(1, 2))
	order, total := ascending(n), 0
	for range runs {
		random.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		got := count(t, "chang-roberts", n, order, ascending(n))
		if got[election.Elected] != n {
			t.Fatalf("order %v: %d ELECTED, want %d", order, got[election.Elected], n)
		}
		total += got[election.Election]
	}
	want := 0.0
	for k := 1; k <= n; k++ {
		want += float64(n) / float64(k)
	}
	mean := float64(total) / float64(runs)
	if math.Abs(mean/want-1) > 0.02 {
		t.Errorf("%.2f ELECTION on average, n·H_n is %.2f", mean, want)
	}
	t.Logf("%.2f ELECTION on average over %d runs, n·H_n is %.2f", mean, runs, want)
}

// A contest goes round even when nothing changes, and that takes time; who sends to a
// dead member finds out, and then another leads.
func TestCountTakesTimeAndSkipsTheDead(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		crashed   []election.ID
		leader    election.ID
		units     int
		contest   int // ELECTION messages
	}{
		{"ring", nil, "6", 12, 6},                     // twice round
		{"ring", []election.ID{"6"}, "5", 15, 10},     // to the dead one; round again; told
		{"ring", []election.ID{"5", "6"}, "4", 13, 9}, // one more is found dead
		{"chang-roberts", nil, "6", 17, 11},           // to the highest, then once round, then told
		{"chang-roberts", []election.ID{"6"}, "5", 15, 10},
	} {
		r, err := sim.Count(maker, sim.CountConfig{Algorithm: c.algorithm, Nodes: 6, Crashed: c.crashed})
		if err != nil {
			t.Errorf("%s, %v crashed: %v", c.algorithm, c.crashed, err)
			continue
		}
		if r.Leader != c.leader || r.Units != c.units || r.Messages[election.Election] != c.contest {
			t.Errorf("%s, %v crashed: %s leads after %d units and %d ELECTION, want %s after %d and %d", c.algorithm, c.crashed, r.Leader, r.Units, r.Messages[election.Election], c.leader, c.units, c.contest)
		}
	}
}
