package stalltest

import (
	"testing"
	"time"
)

// What is noted is told: the parts of stalls between two times, and no others.
func TestWhatIsTold(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w := &Watch{stalls: []stall{{at(10), at(40)}, {at(90), at(190)}}}
	for _, test := range []struct{ from, to, longest, given int }{
		{0, 10, 0, 10},
		{0, 50, 30, 20},
		{20, 30, 10, 0},
		{0, 100, 30, 60},
		{50, 300, 100, 150},
	} {
		ms := func(d time.Duration) int { return int(d.Milliseconds()) }
		if l, g := ms(w.Longest(at(test.from), at(test.to))), ms(w.Given(at(test.from), at(test.to))); l != test.longest || g != test.given {
			t.Errorf("from %d to %d ms: longest %d, given %d; want %d and %d", test.from, test.to, l, g, test.longest, test.given)
		}
	}
}

// A stall that still lasts counts as far as it has come.
func TestAStallThatLasts(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	w := &Watch{beats: []time.Time{began}}
	if got := w.Longest(began.Add(-time.Minute), time.Now()); got < time.Minute {
		t.Errorf("the longest is %v, want a minute", got)
	}
}

// The heartbeat goes on: what it has not missed is given.
func TestTheMachineIsWatched(t *testing.T) {
	w := Start(t)
	first := time.Now()
	for late := first.Add(30 * time.Second); ; {
		w.mu.Lock()
		now := w.beats[0]
		w.mu.Unlock()
		if now.After(first.Add(10 * period)) {
			return
		}
		if time.Now().After(late) {
			t.Fatal("no heartbeat")
		}
		time.Sleep(period)
	}
}

// A pause of the whole machine, in which no heartbeat was late by its own clock, is one of its stalls.
func TestAPauseIsAStall(t *testing.T) {
	const pause = time.Minute
	began, looks := time.Now(), 0
	done, over := make(chan struct{}), make(chan struct{})
	w := &Watch{beats: []time.Time{began}, paused: func() time.Duration {
		if looks++; looks < 3 {
			return 0
		}
		if looks == 5 {
			close(done)
		}
		return pause
	}}
	go func() { defer close(over); w.beat(0, done) }()
	<-over
	if got := w.Longest(began.Add(-2*pause), time.Now()); got != pause {
		t.Errorf("the longest is %v, want %v", got, pause)
	}
}
