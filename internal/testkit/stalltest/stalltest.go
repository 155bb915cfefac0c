// Package stalltest tells a test what the machine itself has held up, so that it
// can tell a stall of the machine from a fault of ours.
//
// A heartbeat on every processor wants to run each few milliseconds and notes by
// how much it came late. A virtual machine that was paused sees no time pass: that it
// was counts once the wall clock is set right, as members count it. A test that bounds real time bounds [Watch.Given], the
// time that the machine gave; one in which a suspicion is a fault asks
// [Watch.Longest] whether any process could have been held up for long enough to
// earn it.
package stalltest

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/clock"
)

const (
	period = 5 * time.Millisecond // of the heartbeat
	noise  = 2 * time.Millisecond // a lateness below this is none

	leap = 50 * time.Millisecond // of the wall clock: a step below this is no pause
)

// Watch measures the machine until its test ends.
type Watch struct {
	mu     sync.Mutex
	beats  []time.Time // when each heartbeat is due, or was when it did not come
	stalls []stall
	paused func() time.Duration // for how long the machine was, all told; one goroutine calls it
}

type stall struct{ from, to time.Time }

// Start begins to watch.
func Start(t testing.TB) *Watch {
	began, passes := time.Now(), clock.New(clock.System(), leap)
	w := &Watch{beats: make([]time.Time, runtime.NumCPU()), paused: func() time.Duration { return passes.Now() - time.Since(began) }}
	done := make(chan struct{})
	var all sync.WaitGroup
	for cpu := range w.beats {
		w.beats[cpu] = time.Now()
		all.Go(func() { w.beat(cpu, done) })
	}
	t.Cleanup(func() { close(done); all.Wait() })
	return w
}

// beat is one heartbeat, on a thread of its own. The thread goes back when it is done,
// and must not end: a process that others have started on it may be tied to it.
func (w *Watch) beat(cpu int, done <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer pin(cpu)()
	var paused time.Duration
	for {
		due := time.Now().Add(period)
		w.mu.Lock()
		w.beats[cpu] = due
		w.mu.Unlock()
		select {
		case <-done:
			return
		case <-time.After(period):
		}
		now := time.Now()
		if now.Sub(due) > noise {
			w.note(stall{due, now})
		}
		if cpu > 0 {
			continue
		}
		if p := w.paused(); p > paused+leap {
			w.note(stall{now.Add(paused - p), now})
			paused = p
		}
	}
}

func (w *Watch) note(s stall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls = append(w.stalls, s)
}

// within calls f with what lies between from and to of each stall, one that still
// lasts included.
func (w *Watch) within(from, to time.Time, f func(stall)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cut := func(s stall) {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		if s.from.Before(s.to) {
			f(s)
		}
	}
	for _, s := range w.stalls {
		cut(s)
	}
	for now, cpu := time.Now(), 0; cpu < len(w.beats); cpu++ {
		cut(stall{w.beats[cpu], now})
	}
}

// Longest is the longest stall between two times. None longer can have held up a
// process that had something to do then.
func (w *Watch) Longest(from, to time.Time) (longest time.Duration) {
	w.within(from, to, func(s stall) { longest = max(longest, s.to.Sub(s.from)) })
	return longest
}

// Given is the time between two times in which no processor stalled, or, as two may
// have stalled at different moments, at least that.
func (w *Watch) Given(from, to time.Time) time.Duration {
	given := to.Sub(from)
	w.within(from, to, func(s stall) { given -= s.to.Sub(s.from) })
	return max(given, 0)
}
