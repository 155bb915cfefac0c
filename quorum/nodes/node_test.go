// Package nodes_test runs nodes of a quorum, with goroutines, connections and real processes; package quorum
// itself only computes.
package nodes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/testkit/nodetest"
	"github.com/batuta-dev/batuta/quorum"
)

// t0 is T at the default times.
const t0 = 600 * time.Millisecond

func newQuorum() batuta.Algorithm { return quorum.New() }

// The tests of package nodetest with a quorum. The root package has them with Bully.

func TestAcquire(t *testing.T)                      { nodetest.Acquire(t, newQuorum) }
func TestAcquireLost(t *testing.T)                  { nodetest.AcquireLost(t, newQuorum) }
func TestAcquireOfOneThatCloses(t *testing.T)       { nodetest.AcquireOfOneThatCloses(t, newQuorum) }
func TestAcquireWithAnEndedContext(t *testing.T)    { nodetest.AcquireWithAnEndedContext(t, newQuorum) }
func TestHold(t *testing.T)                         { nodetest.Hold(t, newQuorum) }
func TestHoldOfOneThatCloses(t *testing.T)          { nodetest.HoldOfOneThatCloses(t, newQuorum) }
func TestHoldEndsWithItsWork(t *testing.T)          { nodetest.HoldEndsWithItsWork(t, newQuorum) }
func TestTryAcquire(t *testing.T)                   { nodetest.TryAcquire(t, newQuorum) }
func TestAFenceIsThereWhereItIsOne(t *testing.T)    { nodetest.Fence(t, newQuorum, true) }
func TestLease(t *testing.T)                        { nodetest.Lease(t, newQuorum, batuta.GuaranteeOneLeader, true) }
func TestWhoHasNoWorkLeadsNoMore(t *testing.T)      { nodetest.NoWork(t, newQuorum) }
func TestAPauseWhileLeadershipMoves(t *testing.T)   { nodetest.Pause(t, newQuorum) }
func TestMeta(t *testing.T)                         { nodetest.Meta(t, newQuorum) }
func TestMembersAreAskedForTheirViews(t *testing.T) { nodetest.Views(t, newQuorum) }
func TestStates(t *testing.T)                       { nodetest.States(t, newQuorum) }
func TestMembersMoveWithTheirDisks(t *testing.T)    { nodetest.Move(t, newQuorum, false) }
func TestAShortFreezeIsBorne(t *testing.T)          { nodetest.ShortFreeze(t, newQuorum) }

// Two of three members elect no leader at their first start, and their status has the reason.
func TestTheFirstStartWaitsForAllThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := t.TempDir()
		c := batutatest.New(t, 3, func(cfg *batuta.Config) {
			cfg.DataDir, cfg.Algorithm = filepath.Join(disk, string(cfg.ID)), newQuorum()
		})
		two := []*batuta.Node{c.Start("1"), c.Start("2")}
		time.Sleep(10 * t0)
		for _, n := range two {
			s, err := n.Status(t.Context())
			if err != nil || s.Standing != batuta.StandingFew || !strings.Contains(s.StandingWhy, "of three members all must be up") {
				t.Errorf("member %s is %s: %s; %v", n.ID(), s.Standing, s.StandingWhy, err)
			}
		}
		c.Start("3")
		c.Agree("3")
	})
}

// A quorum's Config makes many nodes; with a guard it makes one.
func TestAConfigIsUsedAgain(t *testing.T) {
	twice := func(c batuta.Config) error {
		for range 2 {
			c.DataDir = t.TempDir()
			n, err := batuta.New(c)
			if err != nil {
				return err
			}
			t.Cleanup(func() { n.Close() })
		}
		return nil
	}
	c := batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: quorum.New()}
	if err := twice(c); err != nil {
		t.Error(err)
	}
	c.Algorithm = quorum.New(quorum.WithGuard(&heldOath{}))
	if err := twice(c); !errors.Is(err, batuta.ErrConfig) {
		t.Errorf("two nodes with one guard: %v", err)
	}
}

func TestConfigsThatCannotBe(t *testing.T) {
	one := batuta.Peer{ID: "1", Addr: "127.0.0.1:7400"}
	for want, c := range map[string]batuta.Config{
		"quorum creates a cluster only from its list of members": {ID: "1", Expect: 3, DataDir: "data", Peers: []batuta.Peer{one}},
		"algorithm quorum creates":                               {Bootstrap: true, DataDir: "data", Join: []string{"127.0.0.1:7402"}},
		"no leader without a majority":                           {ID: "1", MinMembers: 2, Peers: []batuta.Peer{{ID: "2", Addr: "127.0.0.1:7402"}}},
	} {
		c.Algorithm = quorum.New()
		if err := c.Validate(); !errors.Is(err, batuta.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// brokenStore is a disk that can be read, and not written.
type brokenStore struct{ err error }

func (brokenStore) Load() (election.State, error) { return election.State{}, nil }
func (s brokenStore) Save(election.State) error {
	return &os.PathError{Op: "write", Path: "state", Err: s.err}
}

// The first save fails: the algorithm does not start, and does not take that for its configuration.
func TestADiskThatFailsIsRefusedAtStart(t *testing.T) {
	broken := syscall.EIO
	_, err := batuta.Start(t.Context(), batuta.Config{ID: "5", Listen: "127.0.0.1:0", DataDir: t.TempDir(), Store: brokenStore{broken}, Algorithm: quorum.New()})
	if !errors.Is(err, broken) || errors.Is(err, batuta.ErrConfig) {
		t.Errorf("got %v, want %v, and no %v", err, broken, batuta.ErrConfig)
	}
}

// A watcher that receives its own leadership may be scheduled at once: IsLeader is true by then.
func TestALeadershipLastsWhenItIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := batutatest.New(t, 1, func(cfg *batuta.Config) { cfg.Algorithm = quorum.New() }).Start("1")
		led := 0
		for v := range n.Watch(t.Context()) {
			if !v.Defined() {
				continue
			}
			if !n.IsLeader() || n.Leader().Token != v.Token {
				t.Errorf("%v is published: IsLeader is %v, Leader %+v", v.Token, n.IsLeader(), n.Leader())
			}
			if led++; led == 20 {
				break
			}
			if err := n.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Members 4 and 5 join while 2 is away, and 1 has ended when it comes back: 5, which leads, is
// on no list that 2 has, and 2 lets it in all the same, for what it has in its log.
func TestAVoterThatWasAwayFollowsANewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := t.TempDir()
		c := batutatest.New(t, 5, func(cfg *batuta.Config) {
			cfg.Algorithm, cfg.DataDir = quorum.New(), filepath.Join(disk, string(cfg.ID))
			if first := cfg.Peers[:3]; cfg.ID <= "3" {
				cfg.Peers = first
			} else {
				cfg.Peers, cfg.Join = nil, []string{first[0].Addr, first[2].Addr}
			}
		})
		for _, id := range []batuta.ID{"1", "2", "3"} {
			c.Start(id)
		}
		c.Agree("3")
		c.Stop("2")
		for _, id := range []batuta.ID{"4", "5"} {
			c.Start(id)
			c.Agree(id) // it votes, and outranks the leader so far
		}
		c.Kill("1")
		c.Start("2")
		c.Agree("5")
		s, err := c.Node("2").Status(t.Context())
		if err != nil || len(s.Members) != 5 {
			t.Errorf("2 lists %v, %v", s.Members, err)
		}
		for _, m := range s.Members {
			if m.Address == "" {
				t.Errorf("2 has no address of %s", m.ID)
			}
		}
	})
}

// A quorum needs no directory by hand, and keeps what it has stored over a kill.
func TestAKilledMemberHasItsDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Algorithm = quorum.New() })
		c.StartAll()
		var first batuta.Token
		for v := range c.Node("1").Watch(t.Context()) {
			if first = v.Token; first.Defined() {
				break
			}
		}
		killed := first.Leader.ID
		c.Kill(killed)
		time.Sleep(time.Minute)
		c.Start(killed)
		time.Sleep(time.Minute)
		now := c.Agree(c.Node(killed).Leader().Token.Leader.ID)
		if !now.Above(first) {
			t.Errorf("%v leads after %v", now, first)
		}
		n := c.Join()
		if n.ID() != "4" {
			t.Errorf("the newcomer is %s", n.ID())
		}
		c.Agree(now.Leader.ID)
	})
}

// Under a quorum a frozen leader is past its lease before the next one leads, whatever its loop does,
// and its fence is the lower one. Its work is cancelled only by the thaw.
func TestTheLeaseOfAFrozenLeaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Algorithm = quorum.New() })
		c.StartAll()
		held := make(chan *batuta.Held, 3)
		for _, id := range []batuta.ID{"1", "2", "3"} {
			go func() {
				if h, err := batuta.Acquire(t.Context(), c.Node(id)); err == nil {
					held <- h
				}
			}()
		}
		old := <-held
		id := old.Token.Leader.ID
		began := time.Now()
		c.Freeze(id)
		for old.Valid() {
			time.Sleep(time.Millisecond)
		}
		if len(held) > 0 {
			t.Error("two members lead at the same time")
		}
		if took := time.Since(began); took > t0 {
			t.Errorf("the lease lasted for %v, more than %v", took, t0)
		}
		next := <-held
		if took := time.Since(began); took > 3*t0 {
			t.Errorf("the next member led after %v", took)
		}
		time.Sleep(5 * time.Second)
		if old.Context().Err() != nil {
			t.Error("a frozen loop cancelled its work")
		}
		oldFence, _ := old.Fence()
		if fence, ok := next.Fence(); !ok || fence <= oldFence {
			t.Errorf("fence %d, %v follows %d", fence, ok, oldFence)
		}
		c.Thaw(id)
		<-old.Context().Done()
		if lost := new(batuta.LostError); !errors.As(context.Cause(old.Context()), &lost) {
			t.Errorf("its work ends by %v", context.Cause(old.Context()))
		}
		if now := c.Agree(next.Token.Leader.ID); now != next.Token {
			t.Errorf("%v leads, want %v", now, next.Token)
		}
		old.Release()
		next.Release()
	})
}

// A second process of a live member ends. Once the member is dead, a process with its id and an
// empty disk is refused, and its status has the reason.
func TestASecondProcessThatJoinsGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := t.TempDir()
		c := batutatest.New(t, 4, func(cfg *batuta.Config) {
			cfg.Algorithm, cfg.DataDir, cfg.Peers = quorum.New(), filepath.Join(disk, string(cfg.ID)), cfg.Peers[:3]
		})
		for _, id := range []batuta.ID{"1", "2", "3"} {
			c.Start(id)
		}
		c.Agree("3")
		cfg := c.Config("4")
		cfg.ID, cfg.Join, cfg.Peers = "2", []string{cfg.Peers[0].Addr}, nil
		second, err := batuta.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := second.Err(); err == nil || !strings.Contains(err.Error(), "id 2 is in use by the process at ") {
			t.Errorf("%v; want that its id is in use", err)
		}
		second.Close()
		c.Kill("2")
		time.Sleep(5 * time.Second)
		cfg.Listen, cfg.Advertise = c.Config("2").Listen, c.Config("2").Advertise // the others dial it, and send it their epoch
		again, err := batuta.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		time.Sleep(5 * time.Second)
		want := "member 2 is on the list with another disk, which has its votes: start it with that disk, or remove it first (batuta members remove 2)"
		if s, err := again.Status(t.Context()); err != nil || !strings.Contains(s.StandingWhy, want) || strings.Contains(s.StandingWhy, "another process") {
			t.Errorf("%v, %q; want that its disk is another, and no process has its id", err, s.StandingWhy)
		}
	})
}
