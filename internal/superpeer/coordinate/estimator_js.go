package coordinate

import "time"

// Estimates is false in a browser: no [Estimator] can be made.
const Estimates = false

// Estimator is empty.
type Estimator struct{}

// New panics: see Estimates.
func New(uint64) *Estimator { panic("coordinate: no estimates in a browser") }

// Update does nothing.
func (*Estimator) Update(string, Coordinate, time.Duration) error { return nil }

// Coordinate returns the zero coordinate.
func (*Estimator) Coordinate() (c Coordinate) { return c }
