package coordinate

import "time"

// Estimates says that there are none in a browser: there is no [Estimator] to be made.
const Estimates = false

// Estimator is none.
type Estimator struct{}

// New panics: see Estimates.
func New(uint64) *Estimator { panic("coordinate: no estimates in a browser") }

// Update does nothing.
func (*Estimator) Update(string, Coordinate, time.Duration) error { return nil }

// Coordinate is the zero one.
func (*Estimator) Coordinate() (c Coordinate) { return c }
