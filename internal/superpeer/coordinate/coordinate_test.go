package coordinate

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestAbsurdCoordinatesAreRefused(t *testing.T) {
	good := New(1).Coordinate()
	for name, spoil := range map[string]func(*Coordinate){
		"NaN":             func(c *Coordinate) { c.Vec[2] = math.NaN() },
		"infinite":        func(c *Coordinate) { c.Vec[0] = math.Inf(-1) },
		"far away":        func(c *Coordinate) { c.Vec[1] = 1e9 },
		"negative height": func(c *Coordinate) { c.Height = -1 },
		"NaN height":      func(c *Coordinate) { c.Height = math.NaN() },
		"NaN adjustment":  func(c *Coordinate) { c.Adjustment = math.NaN() },
		"error over 1.5":  func(c *Coordinate) { c.Error = 2 },
		"NaN error":       func(c *Coordinate) { c.Error = math.NaN() },
	} {
		e := New(2)
		before := e.Coordinate()
		bad := good
		spoil(&bad)
		if err := e.Update("peer", bad, time.Millisecond); !errors.Is(err, ErrAbsurd) {
			t.Errorf("%s: %v, want ErrAbsurd", name, err)
		}
		if e.Coordinate() != before {
			t.Errorf("%s: refused, but the estimate has moved", name)
		}
	}
	for _, rtt := range []time.Duration{-1, 0, MaxRTT + 1} {
		if err := New(2).Update("peer", good, rtt); !errors.Is(err, ErrAbsurd) {
			t.Errorf("a round trip of %v: %v, want ErrAbsurd", rtt, err)
		}
	}
}

// Three nodes 30 ms from each other find an arrangement that says so, the same
// one each time.
func TestEstimatesConvergeAndRepeat(t *testing.T) {
	run := func() [3]*Estimator {
		nodes := [3]*Estimator{New(1), New(2), New(3)}
		for i := range 600 {
			a, b := nodes[i%3], nodes[(i+1+i/3%2)%3]
			if err := a.Update(fmt.Sprint(i%3, i/3%2), b.Coordinate(), 30*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		return nodes
	}
	first, second := run(), run()
	for i := range first {
		if first[i].Coordinate() != second[i].Coordinate() {
			t.Errorf("node %d came out differently the second time", i)
		}
		a, b := first[i].Coordinate(), first[(i+1)%3].Coordinate()
		sum := 0.0
		for d := range a.Vec {
			sum += (a.Vec[d] - b.Vec[d]) * (a.Vec[d] - b.Vec[d])
		}
		rtt := math.Sqrt(sum) + a.Height + b.Height + a.Adjustment + b.Adjustment
		if math.Abs(rtt-0.030) > 0.005 {
			t.Errorf("estimated %.1f ms for 30 ms", 1000*rtt)
		}
	}
}

func Example() {
	a, b := New(1), New(2)
	err := a.Update("b", b.Coordinate(), 20*time.Millisecond)
	fmt.Println(err)
	fmt.Println(a.Update("b", Coordinate{Height: -1}, 20*time.Millisecond))
	// Output:
	// <nil>
	// from b: coordinate's height is -1 s, want 0 to 10: absurd
}
