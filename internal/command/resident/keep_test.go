package resident

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"
)

// What a burst has left is given back once the process is at rest, and not before; what it
// needs from then on is not taken for waste.
func TestWhatABurstLeavesIsGivenBackAtRest(t *testing.T) {
	now, needs, times := heap{held: 10 << 20}, uint64(8<<20), 0
	k := &keeper{read: func() heap { return now }, shed: func() { now.held = needs; times++ }}
	for i, step := range []struct {
		held, gives, needs uint64
		times              int
	}{
		{10 << 20, 0, 8 << 20, 1},         // it has started
		{9 << 20, 64 << 10, 8 << 20, 1},   // a little garbage
		{40 << 20, 30 << 20, 20 << 20, 1}, // a burst
		{40 << 20, 2 << 20, 20 << 20, 1},  // which goes on
		{40 << 20, 1000, 20 << 20, 2},     // is over
		{21 << 20, 1000, 20 << 20, 2},     // all that is left is needed
		{24 << 20, 1000, 20 << 20, 3},     // garbage has added up
	} {
		now.held, now.given, needs = step.held, now.given+step.gives, step.needs
		if k.look(); times != step.times {
			t.Errorf("after step %d it has shed %d times, not %d", i, times, step.times)
		}
	}
}

func TestTheHeapIsRead(t *testing.T) {
	before := readHeap()
	kept := make([]byte, 8<<20)
	if after := readHeap(); after.held < before.held || after.given < before.given+uint64(len(kept)) || before.held == 0 {
		t.Errorf("%+v, and after 8 MiB %+v", before, after)
	}
	runtime.KeepAlive(kept)
}

// Garbage is collected early, unless the environment sets when.
func TestGarbageIsCollectedEarly(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	for env, want := range map[string]int{"": garbage, "100": 100} {
		t.Setenv("GOGC", env)
		Keep(slog.New(slog.DiscardHandler))()
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("GOGC=%s: it is collected at %d %%, want %d", env, got, want)
		}
	}
}
