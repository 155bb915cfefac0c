package superpeer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
	"github.com/hashicorp/memberlist"
)

func level(int, int) time.Duration { return 20 * time.Millisecond }

// killAll ends members and lets memberlist's goroutines end.
func killAll(all []*Member) {
	for _, m := range all {
		m.Kill()
	}
	time.Sleep(time.Minute)
}

// TestNewsOfARivalReplacesItsEarlier: a node that announces a token which is not its own has one announcement waiting.
func TestNewsOfARivalReplacesItsEarlier(t *testing.T) {
	b := newBook()
	b.learn(told(1, 5, 10), 0)
	for seq := range uint32(10_000) {
		n := told(1, 4, 11)
		n.seq = seq + 1
		b.learn(n, 1)
		n = told(70, 1, 12)
		n.seq = seq + 1
		b.surplus(n, 1)
	}
	if len(b.hot) > 3 {
		t.Errorf("%d announcements of three holders wait to be passed on", len(b.hot))
	}
}

// TestAStalledRegistrarGrantsNothing: the process of a registrar stops for some rounds, and the holders' renewals wait
// in its queue. It must not grant their tokens again.
func TestAStalledRegistrarGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := together(t, superpeertest.NewNetwork(level), 8, Config{Fraction: 0.5, Method: rules.Random})
		defer killAll(all)
		within(t, 60, "settle", func() error { return wrong(all, 0) })
		time.Sleep(20 * time.Second)
		versions := func() (v [4]uint32) {
			for _, m := range all {
				if s := m.Status(); s.SuperPeer {
					v[*s.Token] = s.Version
				}
			}
			return v
		}
		for _, m := range all {
			if m.IsSuperPeer() {
				continue // its own token is granted again
			}
			before := versions()
			_ = m.call(t.Context(), func(*driver) { time.Sleep(6 * time.Second) })
			time.Sleep(10 * time.Second)
			if after := versions(); after != before {
				t.Errorf("%s stopped for 6 rounds: the tokens' versions were %v, and are %v", m.ID(), before, after)
			}
		}
	})
}

// silentTransport reaches no node: a dial ends after its time.
type silentTransport struct {
	*superpeertest.Transport
}

func (silentTransport) DialAddressTimeout(_ memberlist.Address, timeout time.Duration) (net.Conn, error) {
	time.Sleep(timeout)
	return nil, context.DeadlineExceeded
}

// TestJoinEndsWithItsContext joins through addresses that swallow what is sent there.
func TestJoinEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		c := Config{Transport: silentTransport{superpeertest.NewNetwork(level).Transport(0)}, Round: 10 * time.Second}
		for i := range 5 {
			c.Join = append(c.Join, superpeertest.Address(i+1))
		}
		if _, err := Join(ctx, c); err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v after its context had ended", took-2*time.Second)
		}
		time.Sleep(10 * time.Minute)
	})
}

// TestPartsThatNeverMetBecomeOne: an overlay starts while the network is partitioned, with the same addresses to
// join through at all nodes.
func TestPartsThatNeverMetBecomeOne(t *testing.T) {
	for _, membership := range []Membership{MembershipFull, MembershipCore} {
		t.Run(string(membership), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := superpeertest.NewNetwork(level)
				net.Cut(func(a, b int) bool { return a%2 != b%2 })
				var all []*Member
				for i := range 8 {
					c := Config{Fraction: 0.5, Membership: membership, ID: fmt.Sprint(i), Seed: uint64(i) + 1, Transport: net.Transport(i)}
					c.Join = []string{superpeertest.Address(i % 2), superpeertest.Address(1 - i%2)}
					if i < 2 {
						c.Join = c.Join[:1] // itself: it creates its part
					}
					m, err := Join(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, m)
				}
				defer killAll(all)
				time.Sleep(time.Minute)
				net.Cut(nil)
				within(t, 300, "be one overlay", func() error {
					for _, m := range all {
						if n := m.Status().Nodes; n != 8 {
							return fmt.Errorf("%s counts %d nodes", m.ID(), n)
						}
					}
					return nil
				})
			})
		})
	}
}

// TestMapsAtATime asks for several maps at a time, as several pages do.
func TestMapsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := together(t, superpeertest.NewNetwork(level), 8, Config{Fraction: 0.5, Method: rules.Random})
		defer killAll(all)
		within(t, 60, "settle", func() error { return wrong(all, 0) })
		time.Sleep(20 * time.Second)
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() {
				groups, err := all[0].Map(t.Context())
				for _, g := range groups {
					if !g.Answers {
						t.Errorf("%s did not answer", g.ID)
					}
				}
				if err != nil || len(groups) != 4 {
					t.Errorf("%d groups, %v", len(groups), err)
				}
			})
		}
		asking.Wait()
		for _, m := range all[1:] {
			m.Kill()
		}
		_, _ = all[0].Map(t.Context())
		time.Sleep(2 * time.Minute)
		_ = all[0].call(t.Context(), func(d *driver) {
			if len(d.asked) > 0 {
				t.Errorf("it still waits for %d nodes that are gone", len(d.asked))
			}
		})
	})
}

// TestPingsOfTwoProcessesDiffer: the answer to a ping that was recorded answers no ping of another process.
func TestPingsOfTwoProcessesDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := two(t, superpeertest.NewNetwork(level))
		a, b := members[0].pings.last, members[1].pings.last
		if a < 1<<20 || b < 1<<20 || max(a, b)-min(a, b) < 1<<20 {
			t.Errorf("the last nonces of two processes are %d and %d", a, b)
		}
	})
}

// TestAnyOverlayHasASuperPeer has fractions of which a part of a node is less than a rounding error.
func TestAnyOverlayHasASuperPeer(t *testing.T) {
	for _, fraction := range []float64{1e-6, 1e-9, 1e-12, 1e-300, math.SmallestNonzeroFloat64} {
		c := Config{Fraction: fraction, Membership: MembershipCore}
		if c.Validate() != nil {
			continue
		}
		n := c.node(rules.NewRing(nil))
		if got := n.Count(5); got != 1 {
			t.Errorf("fraction %v: %d super peers for 5 nodes, want 1", fraction, got)
		}
		if most := maxMet(fraction, 0); most < baseMet {
			t.Errorf("fraction %v: %d nodes may be known from messages", fraction, most)
		}
		if most := int32(unlikely / fraction); most <= 0 {
			t.Errorf("fraction %v: a super peer may have %d clients", fraction, most)
		}
	}
}

// TestAForgedNumberSilencesNoNode: a malicious node sends a message in another's name with the last number
// that there is.
func TestAForgedNumberSilencesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := together(t, superpeertest.NewNetwork(level), 8, Config{Fraction: 0.25})
		defer killAll(all)
		within(t, 60, "settle", func() error { return wrong(all, 0) })
		liar := all[7]
		for range 3 {
			for _, from := range all[:7] {
				for _, to := range all[:7] {
					w := message{Kind: rules.Detach, From: from.peers.self, To: to.peers.self, Number: math.MaxUint64}
					raw, _ := encoder.Marshal(&w)
					post(liar, to, append([]byte{tagMessage}, raw...))
				}
			}
			time.Sleep(time.Second)
		}
		liar.Kill()
		within(t, 120, "be well again", func() error { return wrong(all[:7], 0) })
		time.Sleep(30 * time.Second)
		if err := wrong(all[:7], 0); err != nil {
			t.Error(err)
		}
	})
}

// TestAMapHasWhatCameInTime: the rounds are long, and one super peer is dead.
func TestAMapHasWhatCameInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := together(t, superpeertest.NewNetwork(level), 4, Config{Fraction: 0.5, Method: rules.Random, Round: 10 * time.Second})
		defer killAll(all)
		within(t, 600, "settle", func() error { return wrong(all, 0) })
		time.Sleep(5 * time.Minute)
		dead := ""
		for _, m := range all[1:] {
			if m.IsSuperPeer() && dead == "" {
				dead = m.ID()
				m.Kill()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		groups, err := all[0].Map(ctx)
		if err != nil || len(groups) != 2 {
			t.Fatalf("%d groups, %v", len(groups), err)
		}
		for _, g := range groups {
			if g.Answers == (g.ID == dead) {
				t.Errorf("%s: answers is %v", g.ID, g.Answers)
			}
		}
	})
}

// TestTextsDoNotSteerTerminals has ids that terminals read as commands.
func TestTextsDoNotSteerTerminals(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "ñ 1": true, "": true, "a\x1b[2J": false, "a\u009b2J": false, "a\u202eb": false, "\xff": false, "a\tb": false} {
		m := meta{method: rules.Tokens, fraction: 0.5, round: DefaultRound, id: text}
		if _, err := decodeMeta(m.encode()); (err == nil) != want {
			t.Errorf("%q as an id: %v", text, err)
		}
	}
}

// TestANumberIsTakenOnce: a message that is replayed has no effect, in whatever order the numbers of its sender arrive.
func TestANumberIsTakenOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		n, taken := newNumbers(), map[uint64]bool{}
		at := uint64(1000)
		for range 200 {
			switch r.IntN(4) {
			case 0:
				at += r.Uint64N(130)
			case 1:
				at -= min(r.Uint64N(130), at-1)
			default:
				at++
			}
			if fresh := n.fresh(1, at); fresh && taken[at] && len(n.received[1]) < maxSeries {
				t.Fatalf("%d is taken twice: %v", at, n.received[1])
			} else if fresh {
				taken[at] = true
			}
		}
	}
}
