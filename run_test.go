package batuta

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

// made gives a node that does not run.
func made(t *testing.T, f func(t *testing.T, n *Node)) {
	synctest.Test(t, func(t *testing.T) {
		n, err := New(Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(), Store: &fragile{}})
		if err != nil {
			t.Fatal(err)
		}
		f(t, n)
	})
}

func TestTheContextOfStartDoesNotEndANodeThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n, err := Start(ctx, Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere()})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		waitView(t, n, "it leads", View.Defined)
		if _, err := Start(ctx, Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere()}); !errors.Is(err, context.Canceled) {
			t.Errorf("a start under a context that has ended gives %v", err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunGoesOnUntilItsContextEnds(t *testing.T) {
	made(t, func(t *testing.T, n *Node) {
		ctx, cancel := context.WithCancel(t.Context())
		led, ended, ran := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() { // before it runs
			ended <- n.Lead(context.Background(), func(ctx context.Context, l Leadership) error {
				close(led)
				<-ctx.Done()
				time.Sleep(time.Minute)
				return nil
			})
		}()
		time.Sleep(time.Hour) // what lies between is no stall of a leader
		if n.IsLeader() || n.Leader().Defined() {
			t.Error("it leads before it runs")
		}
		go func() { ran <- n.Run(ctx) }()
		<-led
		if err := n.Run(ctx); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("a second Run gives %v", err)
		}
		cancel()
		began := time.Now()
		if err := <-ran; err != nil || time.Since(began) != time.Minute {
			t.Errorf("it ends with %v, %v after its context; its work takes a minute to stop", err, time.Since(began))
		}
		if err := <-ended; err != ErrClosed {
			t.Errorf("Lead ends with %v", err)
		}
		if err := n.Run(t.Context()); err != ErrClosed {
			t.Errorf("Run after the end gives %v", err)
		}
	})
}

func TestRunGivesTheFault(t *testing.T) {
	made(t, func(t *testing.T, n *Node) {
		fault := errors.New("fault")
		go func() {
			n.call(context.Background(), func() { n.fail(fault) })
		}()
		if err := n.Run(t.Context()); !errors.Is(err, fault) {
			t.Errorf("got %v, not %v", err, fault)
		}
	})
}

func TestANodeThatNeverRunsIsClosed(t *testing.T) {
	made(t, func(t *testing.T, n *Node) {
		waits := make(chan error, 2)
		go func() { waits <- n.Lead(context.Background(), func(context.Context, Leadership) error { return nil }) }()
		go func() { waits <- n.Resign(context.Background()) }()
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range []error{n.Resign(within), n.Election("a").Lead(within, func(context.Context, Leadership) error { return nil })} {
			if err != context.DeadlineExceeded {
				t.Errorf("before it runs: %v", err)
			}
		}
		for range 2 {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if err := <-waits; err != ErrClosed {
				t.Errorf("got %v", err)
			}
		}
		if err := n.Run(t.Context()); err != ErrClosed {
			t.Errorf("Run gives %v", err)
		}
		for v := range n.Watch(t.Context()) {
			if v.Defined() || v.Lost.Defined() {
				t.Errorf("it has seen %+v", v)
			}
		}
	})
}

// stubborn leads a node with work that goes on until it is released.
func stubborn(t *testing.T, f func(t *testing.T, n *Node, work context.Context, release func())) {
	made(t, func(t *testing.T, n *Node) {
		go n.Run(context.Background())
		begun, over, ended := make(chan context.Context), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- n.Lead(context.Background(), func(ctx context.Context, l Leadership) error {
				begun <- ctx
				<-over
				return nil
			})
		}()
		f(t, n, <-begun, func() {
			close(over)
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Errorf("Lead ends with %v", err)
			}
		})
	})
}

func TestCloseDoesNotWaitForWorkThatGoesOn(t *testing.T) {
	stubborn(t, func(t *testing.T, n *Node, work context.Context, release func()) {
		began := time.Now()
		if err := n.Close(); !errors.Is(err, ErrClosed) || time.Since(began) > 3*n.timeout {
			t.Errorf("Close gives %v after %v, and T is %v", err, time.Since(began), n.timeout)
		}
		if lost := new(LostError); !errors.As(context.Cause(work), &lost) || lost.Cause != CauseStopped {
			t.Errorf("the work is cancelled by %v", context.Cause(work))
		}
		if !errors.Is(n.Err(), ErrClosed) {
			t.Errorf("Err gives %v", n.Err())
		}
		release()
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	stubborn(t, func(t *testing.T, n *Node, work context.Context, release func()) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		began := time.Now()
		err := n.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrClosed) || time.Since(began) > time.Minute+3*n.timeout {
			t.Errorf("Shutdown gives %v after %v", err, time.Since(began))
		}
		if v := n.Leader(); v.Defined() || v.Cause != CauseStopped {
			t.Errorf("the view is %+v", v)
		}
		release()
	})
}

func TestWorkThatShutsItsNodeDownIsRefused(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		other, err := Start(t.Context(), Config{ID: "2", Algorithm: bully.New(), Transport: newNowhere()})
		if err != nil {
			t.Fatal(err)
		}
		err = n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for _, err := range []error{n.Shutdown(ctx), n.Leave(ctx)} {
				if err != ErrInWork {
					t.Errorf("got %v", err)
				}
			}
			if !n.IsLeader() {
				t.Error("the lead is lost by it")
			}
			return other.Shutdown(ctx) // not the node of this work
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownOfANodeThatHasEnded(t *testing.T) {
	made(t, func(t *testing.T, n *Node) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		go n.Run(context.Background())
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		for range 20 { // whichever channel is chosen
			if err := n.Shutdown(ended); err != nil {
				t.Errorf("got %v", err)
			}
		}
	})
}
