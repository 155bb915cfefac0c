package leaderelection_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/batuta-dev/batuta"
	adapter "github.com/batuta-dev/batuta/adapters/leaderelection"
	"github.com/batuta-dev/batuta/batutatest"
)

// candidates runs client-go's own elector on members of one cluster, again after each leadership, with client-go's default
// times. Begun gets the id of each that begins to work; no two may work at once.
func candidates(t *testing.T, c *batutatest.Cluster, ids ...batuta.ID) (begun chan batuta.ID) {
	t.Helper()
	begun = make(chan batuta.ID, 100)
	var working atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	term := func(node *batuta.Node, id batuta.ID) {
		lock := adapter.Start(ctx, node, id)
		defer lock.Close()
		var began atomic.Bool
		worked := make(chan struct{})
		le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 50 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					if ctx.Err() != nil {
						return
					}
					began.Store(true)
					defer close(worked)
					if n := working.Add(1); n > 1 {
						t.Errorf("%d work at once", n)
					}
					begun <- id
					<-ctx.Done()
					working.Add(-1)
				},
				OnStoppedLeading: func() {},
			}})
		if err != nil {
			t.Error(err)
			return
		}
		le.Run(lock.Context())
		if began.Load() {
			<-worked
		}
	}
	for _, id := range ids {
		node := c.Node(id)
		all.Go(func() {
			for ctx.Err() == nil {
				term(node, id)
				time.Sleep(10 * time.Millisecond) // a node that was closed has no other term
			}
		})
	}
	return begun
}

func next(t *testing.T, begun chan batuta.ID) batuta.ID {
	t.Helper()
	select {
	case id := <-begun:
		return id
	case <-time.After(time.Minute):
		t.Fatal("no candidate of client-go leads within a minute")
		return ""
	}
}

// When the leader's node closes, its work in client-go has ended before the next member's begins, long before client-go's own
// deadline of 10 s.
func TestTheNextBeginsAfterTheWork(t *testing.T) {
	c := batutatest.New(t, 3)
	c.StartAll()
	c.Agree("3")
	begun := candidates(t, c, "2", "3")
	first := next(t, begun) // 2, if a stall has ended the leadership of 3 before
	stopped := time.Now()
	c.Stop(first)
	for next(t, begun) == first { // a stall can have made it begin twice
	}
	if took := time.Since(stopped); took > 8*time.Second {
		t.Errorf("the next member begins after %v: client-go's deadline ended the work, not the leadership", took)
	}
}

// A record that client-go reads names the leader, and no update succeeds without the leadership.
func TestRecords(t *testing.T) {
	e := batutatest.NewElector(t)
	lock := adapter.Start(t.Context(), e, "1")
	defer lock.Close()
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "1"}); !errors.Is(err, batuta.ErrNotLeading) {
		t.Errorf("an update without a leadership: %v", err)
	}
	e.Follow("2", nil)
	record, raw, err := lock.Get(t.Context())
	if err != nil || record.HolderIdentity != "2" {
		t.Errorf("the record has %q, %v", record.HolderIdentity, err)
	}
	if _, again, _ := lock.Get(t.Context()); string(raw) == string(again) {
		t.Error("two records are the same: client-go would take the lease as expired")
	}
	e.Elect()
	for late := time.Now().Add(time.Minute); lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "1"}) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the lock does not get the leadership")
		}
	}
	go e.Lose(batuta.CauseResigned) // it waits for the release
	<-lock.Context().Done()
	if lost, ok := errors.AsType[*batuta.LostError](context.Cause(lock.Context())); !ok || lost.Cause != batuta.CauseResigned {
		t.Errorf("the context ends by %v", context.Cause(lock.Context()))
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "1"}); !errors.Is(err, batuta.ErrNotLeading) {
		t.Errorf("an update after the leadership: %v", err)
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Errorf("the release: %v", err)
	}
}

// A lock that cannot get a leadership has the reason.
func TestTheCauseIsKept(t *testing.T) {
	c := batutatest.New(t, 1)
	node := c.Start("1")
	c.Stop("1")
	lock := adapter.Start(t.Context(), node, "1")
	defer lock.Close()
	<-lock.Context().Done()
	if why := context.Cause(lock.Context()); !errors.Is(why, batuta.ErrClosed) {
		t.Errorf("the context ends by %v", why)
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "1"}); !errors.Is(err, batuta.ErrNotLeading) || !errors.Is(err, batuta.ErrClosed) {
		t.Errorf("an update: %v", err)
	}
}
