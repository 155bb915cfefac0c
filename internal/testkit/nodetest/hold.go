package nodetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// everyMember leads with each member, and returns the leadership that begins next.
func everyMember(ctx context.Context, t *testing.T, of func(batuta.ID) batuta.Elector) (next func() batuta.Leadership) {
	began := make(chan batuta.Leadership, 100)
	for _, id := range []batuta.ID{"1", "2", "3"} {
		e := of(id)
		go e.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
			began <- l
			<-ctx.Done()
			return nil
		})
	}
	return func() batuta.Leadership {
		t.Helper()
		select {
		case l := <-began:
			return l
		case <-time.After(time.Minute):
			t.Fatal("no member works")
		}
		return batuta.Leadership{}
	}
}

// Hold checks that a request stays under its leadership: it keeps its token, is cancelled on loss, and the next leader waits for it.
func Hold(t *testing.T, algorithm Maker) {
	type key struct{}
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		next := everyMember(t.Context(), t, of)
		l := next()
		e := of(l.Token.Leader.ID)
		held, release, err := e.Hold(context.WithValue(t.Context(), key{}, "value"))
		if err != nil {
			t.Fatalf("Hold of %s, which leads: %v", l.Token, err)
		}
		defer release()
		under, ok := batuta.LeadershipFrom(held)
		epoch, fences := under.Fence()
		if wanted, fencing := l.Fence(); !ok || under != l || epoch != wanted || fences != fencing || held.Value(key{}) != "value" {
			t.Errorf("it is held under %+v, %v, and %+v goes on", under, ok, l)
		}
		for range 3 { // short ones: leadership lasts
			_, release, err := e.Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			release()
			release()
		}
		time.Sleep(10 * time.Second)
		if !e.IsLeader() || e.Leader().Token != l.Token || held.Err() != nil {
			t.Errorf("requests have ended, and %s leads; the context of the first: %v", e.Leader().Token, held.Err())
		}
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		var lost *batuta.LostError
		if !errors.As(context.Cause(held), &lost) || lost.Token != l.Token || lost.Cause != batuta.CauseResigned {
			t.Errorf("it has resigned, and the request was cancelled by %v", context.Cause(held))
		}
		time.Sleep(10 * time.Second)
		for _, id := range []batuta.ID{"1", "2", "3"} {
			if _, _, err := of(id).Hold(t.Context()); !errors.Is(err, batuta.ErrNotLeading) {
				t.Errorf("Hold of %s, while the request of before goes on: %v", id, err)
			}
		}
		if under, _ := batuta.LeadershipFrom(held); under.Token != l.Token {
			t.Errorf("the request is under %s now", under.Token)
		}
		release()
		if after := next(); !after.Token.Above(l.Token) {
			t.Errorf("%s follows %s", after.Token, l.Token)
		}
	})
}

// HoldOfOneThatCloses checks that a node that shuts down waits for its requests, and a request cannot wait for its node.
func HoldOfOneThatCloses(t *testing.T, algorithm Maker) {
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		l := everyMember(t.Context(), t, of)()
		id := l.Token.Leader.ID
		e, n := of(id), c.Node(id)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := e.Hold(ended); err != context.Canceled {
			t.Errorf("Hold with a context that has ended: %v", err)
		}
		held, release, err := e.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Shutdown(held); err != batuta.ErrInWork {
			t.Errorf("Shutdown by a request: %v", err)
		}
		closed := make(chan struct{})
		go func() { n.Shutdown(context.Background()); close(closed) }()
		<-held.Done()
		select {
		case <-closed:
			t.Error("it is closed before the request has ended")
		case <-time.After(10 * time.Second):
		}
		if _, _, err := e.Hold(t.Context()); !errors.Is(err, batuta.ErrNotLeading) {
			t.Errorf("Hold of one that closes: %v", err)
		}
		release()
		<-closed
		if _, _, err := e.Hold(t.Context()); err != batuta.ErrClosed {
			t.Errorf("Hold of one that is closed: %v", err)
		}
	})
}

// HoldEndsWithItsWork checks that a candidate that takes its work back gives requests no time under a later leadership.
func HoldEndsWithItsWork(t *testing.T, algorithm Maker) {
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		ctx, cancel := context.WithCancel(t.Context())
		l := everyMember(ctx, t, of)()
		held, release, err := of(l.Token.Leader.ID).Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		select {
		case <-held.Done():
		case <-time.After(time.Minute):
			t.Errorf("its Lead has ended, and the request goes on under %s", l.Token)
		}
		release()
	})
}
