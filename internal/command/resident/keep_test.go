package resident

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// What a burst has left is given back once the process is at rest, and not before; what it
// needs from then on is not taken for waste.
func TestWhatABurstLeavesIsGivenBackAtRest(t *testing.T) {
	now, needs, times := heap{held: 10 << 20}, uint64(8<<20), 0
	k := &keeper{read: func() heap { return now }, shed: func() { now.held = needs; times++ }, collect: func(int) {}}
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

// A small process collects garbage early, a large one does not, and one between them stays as it is.
func TestASmallProcessCollectsEarly(t *testing.T) {
	var now heap
	var got []int
	k := &keeper{read: func() heap { return now }, shed: func() {}, collect: func(percent int) { got = append(got, percent) }}
	for _, held := range []uint64{3 << 20, 5 << 20, 3 << 20, 20 << 20, 6 << 20, 20 << 20, 4 << 20} {
		now.held = held
		k.look()
	}
	if want := []int{early, usual, early}; !slices.Equal(got, want) {
		t.Errorf("it collects at %v, want %v", got, want)
	}
}

// The environment sets when garbage is collected, if it has GOGC.
func TestGOGCIsKept(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	for env, want := range map[string]int{"": early, "100": 100} {
		t.Setenv("GOGC", env)
		collect(early)
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("GOGC=%s: garbage is collected at %d %%, want %d", env, got, want)
		}
	}
}
