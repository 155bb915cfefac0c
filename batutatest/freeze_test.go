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
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/nodetest"
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

func TestAShortFreezeIsBorne(t *testing.T) {
	nodetest.ShortFreeze(t, func() batuta.Algorithm { return bully.New() })
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
		c := batutatest.New(t, 3)
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

// A frozen node that is closed ends: a test may close it in a defer.
func TestAFrozenNodeCanBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		n := c.Node("3")
		c.Freeze("3")
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		c.Thaw("3") // which is none then
		c.Agree("2", "1", "2")
	})
}
