package batutatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/quorum"
)

// silence is T at the default times.
const silence = 600 * time.Millisecond

// The others lead on after T and a round of questions. The frozen member stops counting as leader by
// the clock alone, and its loop learns why only when it is thawed.
func TestAFrozenLeaderIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		first := c.Agree("3")
		frozen := c.Node("3")
		before, err := frozen.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const asleep = time.Minute
		began := time.Now()
		c.Freeze("3")
		second := c.Agree("2") // of those that are not frozen
		if took := time.Since(began); took < silence/2 || took > 2*silence {
			t.Errorf("the next member led after %v, want about %v", took, silence)
		}
		time.Sleep(silence)
		if frozen.IsLeader() || frozen.Leader().Cause != batuta.CauseStalled {
			t.Errorf("the frozen member reports %+v", frozen.Leader())
		}
		late, cancel := context.WithTimeout(t.Context(), asleep)
		defer cancel()
		if _, err := frozen.Status(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the frozen loop answers: %v", err)
		}
		if now := c.Agree("2"); now != second {
			t.Errorf("a member that is frozen for a minute changed %v to %v", second, now)
		}
		c.Thaw("3")
		third := c.Agree("3")
		if !third.Above(second) || !second.Above(first) {
			t.Errorf("tokens %v, %v, %v", first, second, third)
		}
		after, err := frozen.Status(t.Context())
		if err != nil || after.Lost[batuta.CauseStalled] != 1 || after.Incarnation != before.Incarnation {
			t.Errorf("it lost leaderships by %v, incarnation %d after %d, %v", after.Lost, after.Incarnation, before.Incarnation, err)
		}
		if after.Rhythm.Stall < asleep {
			t.Errorf("its timers were late by %v", after.Rhythm.Stall)
		}
	})
}

// A freeze that is shorter than T changes nothing: what was sent meanwhile waits on open connections.
func TestAShortFreezeIsBorne(t *testing.T) {
	for name, algorithm := range map[string]func() batuta.Algorithm{
		"bully": nil, "quorum": func() batuta.Algorithm { return quorum.New() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := batutatest.New(t, 3, func(cfg *batuta.Config) {
					if algorithm != nil {
						cfg.Algorithm = algorithm()
					}
				})
				c.StartAll()
				time.Sleep(5 * time.Second)
				id := c.Node("1").Leader().Token.Leader.ID
				token := c.Agree(id)
				for _, frozen := range []batuta.ID{"1", "2", "3"} {
					events := c.Node(frozen).Events(t.Context())
					var seen []batuta.Event
					go func() {
						for e := range events {
							seen = append(seen, e)
						}
					}()
					c.Freeze(frozen)
					time.Sleep(silence / 4)
					c.Thaw(frozen)
					time.Sleep(5 * time.Second)
					if now := c.Agree(id); now != token {
						t.Errorf("a short freeze of %s changed %v to %v", frozen, token, now)
					}
					synctest.Wait()
					for _, e := range seen {
						if e.Kind == batuta.EventLost || e.State == batuta.StateDown {
							t.Errorf("%s: %+v", frozen, e)
						}
					}
				}
			})
		})
	}
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
		if took := time.Since(began); took > silence {
			t.Errorf("the lease lasted for %v, more than %v", took, silence)
		}
		next := <-held
		if took := time.Since(began); took > 3*silence {
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

// A frozen member can be killed; the test's end thaws the rest.
func TestTheEndOfAFrozenMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 4)
		c.StartAll()
		c.Agree("4")
		c.Freeze("4")
		c.Kill("4")
		c.Agree("3")
		c.Start("4")
		c.Agree("4")
		c.Freeze("4")
		c.PowerOff("4")
		c.Agree("3")
		c.Freeze("3")
		c.Agree("2")
		c.Join() // through a member that is not frozen
		c.Agree("5")
	})
}

func ExampleCluster_Freeze() {
	var t *testing.T // the test's own
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Algorithm = quorum.New() })
		c.StartAll()
		old, err := batuta.Acquire(t.Context(), c.Node("3"))
		if err != nil {
			t.Fatal(err)
		}
		defer old.Release()
		c.Freeze("3")
		time.Sleep(time.Minute)  // the others elect
		fmt.Println(old.Valid()) // false, though its context is not cancelled yet
		c.Thaw("3")
		<-old.Context().Done()
	})
}
