package batuta

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/clock"
)

// strange is a machine whose clocks the test sets off.
type strange struct {
	source clock.Source

	mu     sync.Mutex
	wall   time.Duration
	asleep time.Duration
}

func (s *strange) read() clock.Reading {
	r := s.source()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Wall, r.Asleep = r.Wall.Add(s.wall), r.Asleep+s.asleep
	return r
}

func (s *strange) set(wall, asleep time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wall, s.asleep = s.wall+wall, s.asleep+asleep
}

// onStrange runs f with a member that leads itself on a machine with strange clocks.
func onStrange(t *testing.T, f func(t *testing.T, n *Node, m *strange)) {
	synctest.Test(t, func(t *testing.T) {
		m := &strange{source: clock.System()}
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(), clocks: m.read})
		if err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads", View.Defined)
		synctest.Wait() // its loop waits for what comes next, with the timer set
		f(t, n, m)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A leader whose machine slept knows it before its loop has run, and its first act
// is to give up the lead.
func TestALeaderWhoseMachineWasAway(t *testing.T) {
	for name, away := range map[string]struct{ wall, asleep time.Duration }{
		"suspended for 10 minutes":                         {10 * time.Minute, 10 * time.Minute},
		"suspended, and the wall clock is not set yet":     {0, 10 * time.Minute},
		"a paused virtual machine, its wall clock set now": {10 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onStrange(t, func(t *testing.T, n *Node, m *strange) {
				token, watch := n.Leader().Token, n.history.Last()
				m.set(away.wall, away.asleep) // all goroutines wait: nobody has noticed
				if n.IsLeader() {
					t.Error("IsLeader is true after the machine has been away")
				}
				if v := n.Leader(); v.Defined() {
					t.Errorf("its view is %+v", v)
				}
				first := n.history.Next(t.Context(), watch)
				if first.Event.Kind != EventLost || first.Event.View.Lost != token || first.Event.View.Cause != election.CauseStalled {
					t.Errorf("the first event is %+v", first.Event.Event)
				}
				if v := waitView(t, n, "it leads again", View.Defined); v.Token.Epoch <= token.Epoch {
					t.Errorf("token %v after %v", v.Token, token)
				}
			})
		})
	}
}

// A timer that was set before the machine slept has still to run for what is due
// long since; whatever wakes the loop has it done at once.
func TestATimerDoesNotWaitForTimeThatHasPassed(t *testing.T) {
	onStrange(t, func(t *testing.T, n *Node, m *strange) {
		began := time.Now()
		m.set(0, time.Hour)
		n.call(t.Context(), func() {}) // no event of the Machine's
		synctest.Wait()
		if !n.Leader().Defined() && n.view().Defined() {
			t.Errorf("after %v it has not noticed that it lost the lead", time.Since(began))
		}
	})
}

// Its work is told before anything else.
func TestTheWorkOfALeaderWhoseMachineWasAway(t *testing.T) {
	onStrange(t, func(t *testing.T, n *Node, m *strange) {
		began := time.Now()
		lost := make(chan error, 1)
		go n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
			if len(lost) == 0 {
				m.set(0, time.Hour)
				<-ctx.Done()
				lost <- context.Cause(ctx)
			}
			<-ctx.Done()
			return nil
		})
		if err := <-lost; err == nil || err.Error() != "leadership 1:1 lost: stalled" {
			t.Errorf("it is cancelled by %v", err)
		}
		if took := time.Since(began); took > n.cfg.Heartbeat {
			t.Errorf("it is told %v after the machine is back, later than a heartbeat", took)
		}
	})
}

// Steps of the wall clock that no pause can be mistaken for change nothing.
func TestTheWallClockIsSet(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"back by an hour": -time.Hour, "ahead by T": 0, "ahead a little": time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			onStrange(t, func(t *testing.T, n *Node, m *strange) {
				token := n.Leader().Token
				if step == 0 {
					step = n.timeout
				}
				m.set(step, 0)
				for range 20 {
					time.Sleep(n.timeout / 2)
					if !n.IsLeader() || n.Leader().Token != token {
						t.Fatalf("it has lost the lead: %+v", n.Leader())
					}
				}
				if s := statusOf(n); s.Uptime < 10*n.timeout || s.Uptime > 11*n.timeout+time.Second {
					t.Errorf("up for %v", s.Uptime)
				}
			})
		})
	}
}
