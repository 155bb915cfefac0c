package eventlog

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"
	"weak"
)

var errBehind = errors.New("behind")

// walk reads numbers from the present on.
func walk(t *testing.T, l *List[int]) iter.Seq2[int, error] {
	return Walk(t.Context(), l, l.Place(), errBehind, func(n int) []int { return []int{n} }, func(n int) (int, bool) { return n, n%2 == 0 })
}

// all is what a walk gives, and -1 for an error.
func all(t *testing.T, w iter.Seq2[int, error]) (list []int) {
	for n, err := range w {
		if err != nil {
			n = -1
		}
		list = append(list, n)
	}
	return list
}

func TestAPlaceIsTakenBeforeItIsRead(t *testing.T) {
	l := New(1, 10)
	w := walk(t, l)
	for n := range 6 {
		l.Add(n + 2)
	}
	l.End()
	if got := all(t, w); !slices.Equal(got, []int{1, 2, 4, 6}) {
		t.Errorf("got %v: the first, and then what is told of", got)
	}
	if got := all(t, w); !slices.Equal(got, []int{7}) {
		t.Errorf("read again it gives %v, not what is the present then", got)
	}
}

func TestAReaderAtTheLimitGoesOn(t *testing.T) {
	l := New(0, 10)
	w := walk(t, l)
	for n := range 10 {
		l.Add(2 * n)
	}
	l.End()
	if got := all(t, w); len(got) != 11 || slices.Contains(got, -1) {
		t.Errorf("got %v", got)
	}
}

func TestAReaderBehindTheLimitIsToldSo(t *testing.T) {
	l := New(0, 10)
	var got []int
	for n, err := range walk(t, l) {
		if err != nil {
			n = -1
		}
		got = append(got, n)
		for n := range 11 {
			l.Add(n)
		}
	}
	if !slices.Equal(got, []int{0, -1}) || l.Readers() > 0 {
		t.Errorf("got %v, and %d readers are left", got, l.Readers())
	}
}

// Events that are added together are read in order, also by a reader that waits, and each counts.
func TestEventsAreAddedTogether(t *testing.T) {
	l := New(0, 6)
	var got []int
	for n, err := range walk(t, l) {
		if err != nil {
			n = -1
		}
		if got = append(got, n); n == 0 {
			l.Add()
			l.Add(1, 2, 3, 4)
			l.Add(6, 8)
		} else if n == 8 {
			l.Add(1, 2, 3, 4, 5, 6, 7)
		}
	}
	if want := []int{0, 2, 4, 6, 8, -1}; !slices.Equal(got, want) || l.Readers() > 0 {
		t.Errorf("got %v, want %v, and %d readers are left", got, want, l.Readers())
	}
}

func TestNothingIsKeptForAReaderThatStops(t *testing.T) {
	l := New(0, 10)
	w := walk(t, l) // its place is taken, and it never reads
	l.Add(1)
	waits := weak.Make(l.Last())
	for n := range 9 {
		l.Add(n)
	}
	if runtime.GC(); waits.Value() == nil {
		t.Error("an event is gone although its reader is not behind the limit")
	}
	l.Add(0)
	if runtime.GC(); waits.Value() != nil {
		t.Error("an event is kept for a reader behind the limit")
	}
	runtime.KeepAlive(w)
}

func TestAReaderThatLeavesKeepsNothing(t *testing.T) {
	l := New(0, 10)
	for range walk(t, l) {
		break
	}
	if l.Readers() > 0 {
		t.Error("its place is kept")
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := New(0, 10)
	if at := l.Next(ctx, l.Last()); at != nil {
		t.Errorf("got %d", at.Event)
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	l := New(0, 10)
	first := l.Last()
	l.Add(2)
	w := walk(t, l)
	l.End()
	l.Add(4)
	if got := all(t, w); !slices.Equal(got, []int{2}) {
		t.Errorf("a reader got %v", got)
	}
	second := l.Next(t.Context(), first)
	if second == nil || second.Event != 2 || l.Next(t.Context(), second) != nil || l.Last() != second {
		t.Errorf("after the first is %v, and the last is %v", second, l.Last())
	}
}
