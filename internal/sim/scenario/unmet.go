package scenario

import (
	"fmt"
	"time"
)

// Unmet is an expectation that failed.
type Unmet struct {
	File string
	Line int
	At   time.Duration
	Want string // as in the script
	Got  string
}

func (u *Unmet) Error() string {
	return fmt.Sprintf("%s:%d: [%s] expected %s, but %s", u.File, u.Line, Stamp(u.At), u.Want, u.Got)
}

// Unmet returns the failure of a step at that time: its expectation failed, or it cannot be
// done. got is what is the case instead.
func (s *Scenario) Unmet(step *Step, at time.Duration, got string) *Unmet {
	want := step.String()
	if step.Do == Expect {
		want = step.Expect.String()
	}
	return &Unmet{s.Name, step.Line, at, want, got}
}

// Stamp formats a time as traces do: seconds, to the millisecond.
func Stamp(d time.Duration) string {
	return fmt.Sprintf("%d.%03ds", d/time.Second, d%time.Second/time.Millisecond)
}
