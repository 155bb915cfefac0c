package nodetest

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// inEach runs f with three members that agree on a leader, in the cluster's and in a named election.
func inEach(t *testing.T, algorithm Maker, f func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector)) {
	for name, elector := range map[string]func(*batuta.Node) batuta.Elector{
		"the cluster's": func(n *batuta.Node) batuta.Elector { return n },
		"a named one":   func(n *batuta.Node) batuta.Elector { return n.Election("shard") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := t.TempDir()
				c := batutatest.New(t, 3, func(cfg *batuta.Config) {
					cfg.DataDir, cfg.Algorithm = filepath.Join(disk, string(cfg.ID)), algorithm()
				})
				c.StartAll()
				for range c.Node("1").Watch(t.Context()) {
					if c.Node("1").Leader().Defined() {
						break
					}
				}
				f(t, c, func(id batuta.ID) batuta.Elector { return elector(c.Node(id)) })
			})
		})
	}
}

func acquire(t *testing.T, e batuta.Elector) *batuta.Held {
	t.Helper()
	within, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	h, err := batuta.Acquire(within, e)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return h
}

// Acquire checks that leadership that was acquired outlives the context of the wait, and moves on only
// after Release.
func Acquire(t *testing.T, algorithm Maker) {
	type key struct{}
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		got := make(chan *batuta.Held, 3)
		var waiting sync.WaitGroup
		within, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		for _, id := range []batuta.ID{"1", "2", "3"} {
			waiting.Go(func() {
				if h, err := batuta.Acquire(within, of(id)); err == nil {
					got <- h
				} else if err != context.Canceled {
					t.Errorf("Acquire of %s, whose context was cancelled: %v", id, err)
				}
			})
		}
		first := <-got
		second := (*batuta.Held)(nil)
		leader := of(first.Token.Leader.ID)
		if !first.Valid() || !leader.IsLeader() || first.Election != leader.Leader().Election || first.Since.IsZero() {
			t.Errorf("acquired %+v, valid: %v, and the view is %+v", first.Leadership, first.Valid(), leader.Leader())
		}
		time.Sleep(10 * time.Second)
		select {
		case second = <-got:
			t.Errorf("%v was acquired while %v is held", second.Token, first.Token)
		default:
		}
		var releasing sync.WaitGroup
		for range 3 {
			releasing.Go(first.Release)
		}
		releasing.Wait()
		if first.Valid() || leader.Leader().Token == first.Token || context.Cause(first.Context()) != context.Canceled {
			t.Errorf("it is released: valid: %v, view %v, cause %v", first.Valid(), leader.Leader().Token, context.Cause(first.Context()))
		}
		second = <-got
		if !second.Token.Above(first.Token) || second.Token.Leader.ID == first.Token.Leader.ID {
			t.Errorf("%v was acquired after %v", second.Token, first.Token)
		}
		cancel()
		waiting.Wait()
		if !second.Valid() || second.Context().Err() != nil || second.Context().Value(key{}) != "value" {
			t.Errorf("the wait is over: valid: %v, context: %v", second.Valid(), second.Context().Err())
		}
		second.Release()
	})
}

// AcquireLost checks that a leadership that is lost ends by a LostError. No member leads next before it is
// released.
func AcquireLost(t *testing.T, algorithm Maker) {
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		e := of("3")
		h := acquire(t, e)
		again := make(chan *batuta.Held)
		go func() { again <- acquire(t, e) }()
		other := <-again // the same leadership: it holds two
		if other.Token != h.Token {
			t.Fatalf("%v was acquired while %v goes on", other.Token, h.Token)
		}
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*batuta.Held{h, other} {
			<-h.Context().Done()
			var lost *batuta.LostError
			if !errors.As(context.Cause(h.Context()), &lost) || lost.Token != h.Token || lost.Cause != batuta.CauseResigned || h.Valid() {
				t.Errorf("%v has ended by %v, valid: %v", h.Token, context.Cause(h.Context()), h.Valid())
			}
		}
		go func() { again <- acquire(t, of("2")) }()
		other.Release()
		select {
		case next := <-again:
			t.Errorf("%v was acquired, and %v has not been released", next.Token, h.Token)
		case <-time.After(10 * time.Second):
		}
		h.Release()
		next := <-again
		if !next.Token.Above(h.Token) || h.Valid() {
			t.Errorf("%v was acquired after %v, valid: %v", next.Token, h.Token, h.Valid())
		}
		next.Release()
	})
}

// AcquireOfOneThatCloses checks that a node that is shut down waits for Release, and returns ErrClosed from
// then on.
func AcquireOfOneThatCloses(t *testing.T, algorithm Maker) {
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		e, n, follower, other := of("3"), c.Node("3"), of("1"), c.Node("1")
		h := acquire(t, e)
		closed := make(chan struct{})
		go func() { n.Shutdown(context.Background()); close(closed) }()
		<-h.Context().Done()
		var lost *batuta.LostError
		if !errors.As(context.Cause(h.Context()), &lost) || lost.Cause != batuta.CauseStopped {
			t.Errorf("%v has ended by %v", h.Token, context.Cause(h.Context()))
		}
		select {
		case <-closed:
			t.Error("it is closed before Release")
		case <-time.After(10 * time.Second):
		}
		h.Release()
		<-closed
		h.Release()
		other.Close()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, e := range map[string]batuta.Elector{"one that led": e, "one that followed": follower} {
			for range 20 { // whichever goroutine is first
				for _, ctx := range []context.Context{t.Context(), ended} {
					if _, err := batuta.Acquire(ctx, e); err != batuta.ErrClosed {
						t.Errorf("Acquire of %s and is closed: %v", name, err)
					}
					if _, err := batuta.TryAcquire(ctx, e); err != batuta.ErrClosed {
						t.Errorf("TryAcquire of %s and is closed: %v", name, err)
					}
				}
			}
		}
	})
}

// AcquireWithAnEndedContext checks that no member leads for a moment if the wait has ended before it began.
func AcquireWithAnEndedContext(t *testing.T, algorithm Maker) {
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		h := acquire(t, of("3"))
		ended, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		for _, id := range []batuta.ID{"2", "3"} {
			if h, err := batuta.Acquire(ended, of(id)); err != context.DeadlineExceeded {
				t.Errorf("Acquire of %s: %v, %v", id, h, err)
			}
			if h, err := batuta.TryAcquire(ended, of(id)); err != context.DeadlineExceeded {
				t.Errorf("TryAcquire of %s: %v, %v", id, h, err)
			}
		}
		if !h.Valid() {
			t.Errorf("%v has ended by %v", h.Token, context.Cause(h.Context()))
		}
		h.Release()
	})
}

// TryAcquire checks that it is refused soon while a different member leads, with an error that names it.
func TryAcquire(t *testing.T, algorithm Maker) {
	inEach(t, algorithm, func(t *testing.T, c *batutatest.Cluster, of func(batuta.ID) batuta.Elector) {
		h, err := batuta.TryAcquire(t.Context(), of("3"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = batuta.TryAcquire(t.Context(), of("1"))
		if !errors.Is(err, batuta.ErrNotLeading) || !strings.Contains(err.Error(), "member 3 leads") || !strings.Contains(err.Error(), "try again later, or wait with Acquire") {
			t.Errorf("while another leads: %v", err)
		}
		if took := time.Since(began); took >= batuta.TryTimeout {
			t.Errorf("while another leads it takes %v", took)
		}
		h.Release()
	})
}
