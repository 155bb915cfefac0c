// Package coordinate estimates where a node is in the space of round trips, by
// Vivaldi (Dabek, Cox, Kaashoek, Morris, SIGCOMM 2004) as
// github.com/hashicorp/serf/coordinate implements it. It believes nobody: a
// coordinate or a round trip that is not finite or beyond reason is refused and
// changes nothing.
//
// Expect the estimate of a long round trip to be good and that of a short one to
// be 60 to 80 % off: measure before trusting it.
package coordinate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"github.com/batuta-dev/batuta/superpeer"
)

// Dims is the number of dimensions, beside the height of the access link.
const Dims = superpeer.MaxDims

// MaxRTT is the longest round trip that is believed, and the largest extent of a
// coordinate.
const MaxRTT = 10 * time.Second

// ErrAbsurd says that a coordinate or a round trip cannot be true.
var ErrAbsurd = errors.New("absurd")

// Coordinate is what nodes tell each other. Lengths are in seconds.
type Coordinate struct {
	Vec        [Dims]float64
	Height     float64 // of the access link, at least 0
	Adjustment float64 // what the space cannot express; may be negative
	Error      float64 // how unsure the node is, 0 to 1.5; a new node 1.5
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

// Position is c for the election of super peers, in milliseconds.
func (c *Coordinate) Position() (p superpeer.Position) {
	for i, x := range c.Vec {
		p.X[i] = float32(1000 * x)
	}
	p.Height = float32(1000 * max(0, c.Height+c.Adjustment))
	return p
}

// Estimator is one node's coordinate. It is safe for concurrent use.
type Estimator struct{ client *coordinate.Client }

// New returns the estimator of a node that has measured nothing yet. seed makes
// its first direction its own: nodes that all start in one point would have to
// draw lots, and serf's are not repeatable.
func New(seed uint64) *Estimator {
	config := coordinate.DefaultConfig()
	config.Dimensionality = Dims
	client, err := coordinate.NewClient(config)
	if err != nil {
		panic(err) // only for zero dimensions
	}
	start := coordinate.NewCoordinate(config)
	for i := range start.Vec {
		seed = superpeer.Mix(seed + 0x9e3779b97f4a7c15)
		start.Vec[i] = (float64(seed>>11)/(1<<53) - 0.5) * 2e-3
	}
	if err := client.SetCoordinate(start); err != nil {
		panic(err) // it has the right dimensions and is finite
	}
	return &Estimator{client}
}

// Update moves the estimate after a round trip to peer, which is at other. On an
// error, which wraps ErrAbsurd, nothing has changed.
func (e *Estimator) Update(peer string, other Coordinate, rtt time.Duration) error {
	if err := other.Check(); err != nil {
		return fmt.Errorf("from %s: %w", peer, err)
	}
	if rtt <= 0 || rtt > MaxRTT {
		return fmt.Errorf("round trip to %s of %v, want more than 0 and at most %v: %w", peer, rtt, MaxRTT, ErrAbsurd)
	}
	_, err := e.client.Update(peer, &coordinate.Coordinate{
		Vec: other.Vec[:], Height: other.Height, Adjustment: other.Adjustment, Error: other.Error,
	}, rtt)
	if err != nil {
		return fmt.Errorf("round trip to %s: %w: %w", peer, err, ErrAbsurd)
	}
	return nil
}

// Forget gives back the memory of what was measured to peer, which is gone.
func (e *Estimator) Forget(peer string) { e.client.ForgetNode(peer) }

// Coordinate is the present estimate.
func (e *Estimator) Coordinate() (c Coordinate) {
	now := e.client.GetCoordinate()
	copy(c.Vec[:], now.Vec)
	c.Height, c.Adjustment, c.Error = now.Height, now.Adjustment, now.Error
	return c
}
