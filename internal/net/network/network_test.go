package network

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestAnInboxTakesNothingOnceItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		turn, settled := make(Turn, 1), 0
		i := NewInbox(Site{Turn: turn, Settle: func() { settled++ }}, over)
		waiting := make(chan bool)
		go func() { waiting <- i.Post(func() {}) }()
		turn <- struct{}{}
		if !<-waiting || settled != 1 {
			t.Errorf("the turn is free, and it takes nothing, or settles %d times", settled)
		}
		<-turn
		go func() { waiting <- i.Post(func() {}) }() // its turn does not come
		synctest.Wait()
		close(over)
		if <-waiting {
			t.Error("it says that what nobody takes in was posted")
		}
	})
}

// The turns of all goroutines follow each other, each with what it leads to.
func TestTurnsDoNotOverlap(t *testing.T) {
	turn, done := make(Turn, 1), 0
	busy := false
	i := NewInbox(Site{Turn: turn, Settle: func() { busy = false }}, nil)
	var posters sync.WaitGroup
	for range 8 {
		posters.Go(func() {
			for range 100 {
				i.Post(func() {
					if busy {
						t.Error("it is called in a turn that is not over")
					}
					busy, done = true, done+1
				})
			}
		})
	}
	turn <- struct{}{}
	posters.Wait()
	if <-turn; done != 800 {
		t.Errorf("%d of 800 were called", done)
	}
}

// The loop queues with those that hold a slot, not with all that arrives.
func TestTheLoopWaitsForAFewTurnsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, over, done := make(Turn, 1), make(chan struct{}), 0
		i := NewInbox(Site{Turn: turn, Settle: func() {}}, over)
		var posters sync.WaitGroup
		for range 10 * waiting {
			posters.Go(func() { i.Post(func() { done++ }) })
		}
		synctest.Wait()
		go func() { turn <- struct{}{} }()
		if <-turn; done > waiting {
			t.Errorf("the loop waits for %d turns, want at most %d", done, waiting)
		}
		close(over)
		posters.Wait()
	})
}

// A node that ends gives turns until what it waits for is there; before that, nothing that arrives has one.
func TestWhatArrivesWhileTheNodeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := NewInbox(Site{Turn: make(Turn, 1), Settle: func() {}}, nil)
		called, done := false, make(chan struct{})
		go i.Post(func() { called = true; close(done) })
		if synctest.Wait(); called {
			t.Error("it is called in the turn of another")
		}
		if i.Await(done); !called {
			t.Error("it is not called")
		}
	})
}

func TestAPosterIsFreeWhileAllIsDiscarded(t *testing.T) {
	i := NewInbox(Site{Turn: make(Turn, 1)}, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			i.Post(func() { t.Error("it is called") })
		}
	}()
	i.Discard(done)
}

func TestWhatIsCounted(t *testing.T) {
	var c Counters
	if received, refused, bad := c.Counts(); received == nil || refused == nil || bad == nil {
		t.Error("a count is nil")
	}
	c.Received("beat")
	c.Refused("cluster")
	c.Refused("cluster")
	c.Bad("slow")
	received, refused, bad := c.Counts()
	if received["beat"] != 1 || refused["cluster"] != 2 || bad["slow"] != 1 || len(received)+len(refused)+len(bad) != 3 {
		t.Errorf("received %v, refused %v, bad %v", received, refused, bad)
	}
}
