// Package stalltest measures how long the machine has stalled, so that a test can distinguish a
// stall of the machine from a fault of batuta.
//
// A heartbeat on every processor runs every few milliseconds and records how late it was. A
// paused virtual machine sees no time pass; its pause counts once the wall clock is corrected,
// as members count it. A test with a bound on real time bounds [Watch.Given], the time that the
// machine gave. A test in which a suspicion is a fault uses [Watch.Longest]: whether any process
// can have stalled for long enough to be suspected.
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
	paused func() time.Duration // how long the machine was paused in all; called by a single goroutine
}

type stall struct{ from, to time.Time }

// Start begins to measure.
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

// beat is a heartbeat, on a thread of its own. The thread is returned at the end and must not
// exit: a process that was started on it may be tied to it.
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

// within calls f with the part of each stall between from and to, including a stall that still
// lasts.
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

// Longest returns the longest stall between two times. No process that had something to do then
// can have stalled for longer.
func (w *Watch) Longest(from, to time.Time) (longest time.Duration) {
	w.within(from, to, func(s stall) { longest = max(longest, s.to.Sub(s.from)) })
	return longest
}

// Given returns the time between two times in which no processor stalled. If two stalled at
// different moments, the time is at least that.
func (w *Watch) Given(from, to time.Time) time.Duration {
	given := to.Sub(from)
	w.within(from, to, func(s stall) { given -= s.to.Sub(s.from) })
	return max(given, 0)
}
