// Package coordinate estimates a node's position in the space of round trips, by Vivaldi (Dabek,
// Cox, Kaashoek, Morris, SIGCOMM 2004) as implemented by github.com/hashicorp/serf/coordinate. It
// validates all input: it refuses a coordinate or a round trip that is not finite or out of range,
// without any change.
//
// Estimates of long round trips are good, and those of short round trips are 60 to 80 % off:
// measure before you rely on them.
package coordinate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// Dims is the number of dimensions, besides the height of the access link.
const Dims = superpeer.MaxDims

// MaxRTT is the longest accepted round trip, and the largest extent of a coordinate.
const MaxRTT = 10 * time.Second

// ErrAbsurd means that a coordinate or a round trip cannot be true.
var ErrAbsurd = errors.New("absurd")

// Coordinate is a node's published position. Lengths are in seconds.
type Coordinate struct {
	Vec        [Dims]float64
	Height     float64 // of the access link, at least 0
	Adjustment float64 // what the space cannot express; may be negative
	Error      float64 // the node's uncertainty, 0 to 1.5; a new node 1.5
}

// Check returns an error that wraps ErrAbsurd, and names the field, if c cannot
// be true.
func (c *Coordinate) Check() error {
	limit := MaxRTT.Seconds()
	for i, x := range c.Vec {
		if !(math.Abs(x) <= limit) { // also false for NaN
			return fmt.Errorf("coordinate's dimension %d is %v s, want at most %v either way: %w", i, x, limit, ErrAbsurd)
		}
	}
	switch {
	case !(c.Height >= 0 && c.Height <= limit):
		return fmt.Errorf("coordinate's height is %v s, want 0 to %v: %w", c.Height, limit, ErrAbsurd)
	case !(math.Abs(c.Adjustment) <= limit):
		return fmt.Errorf("coordinate's adjustment is %v s, want at most %v either way: %w", c.Adjustment, limit, ErrAbsurd)
	case !(c.Error >= 0 && c.Error <= 1.5):
		return fmt.Errorf("coordinate's error is %v, want 0 to 1.5: %w", c.Error, ErrAbsurd)
	}
	return nil
}

// Position returns c for the election of super peers, in milliseconds.
func (c *Coordinate) Position() (p superpeer.Position) {
	for i, x := range c.Vec {
		p.X[i] = float32(1000 * x)
	}
	p.Height = float32(1000 * max(0, c.Height+c.Adjustment))
	return p
}
