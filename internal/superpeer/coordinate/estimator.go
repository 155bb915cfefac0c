//go:build !js

package coordinate

import (
	"fmt"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// Estimates is true except in a browser, where the library would add HTTP and TLS, as large as all
// the rest.
const Estimates = true

// Estimator is the coordinate of a single node. It is safe for concurrent use.
type Estimator struct{ client *coordinate.Client }

// New returns the estimator of a node without measurements. seed determines its first direction:
// nodes at the same point need random directions, and serf's are not repeatable.
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

// Update moves the estimate after a round trip to peer, which is at other. After an error, which
// wraps ErrAbsurd, nothing has changed.
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

// Forget frees the measurements of peer, which is gone.
func (e *Estimator) Forget(peer string) { e.client.ForgetNode(peer) }

// Coordinate returns the present estimate.
func (e *Estimator) Coordinate() (c Coordinate) {
	now := e.client.GetCoordinate()
	copy(c.Vec[:], now.Vec)
	c.Height, c.Adjustment, c.Error = now.Height, now.Adjustment, now.Error
	return c
}
