package schedule

import "time"

// By has the ticker's wall clock be off by what offset gives.
func (t *Ticker) By(offset func() time.Duration) {
	t.wall = func() time.Time { return time.Now().Round(0).UTC().Add(offset()) }
}
