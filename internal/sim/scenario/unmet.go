package scenario

import (
	"fmt"
	"time"
)

// Unmet is an expectation that did not come true.
type Unmet struct {
	File string
	Line int
	At   time.Duration
	Want string // as the script has it
	Got  string
}

func (u *Unmet) Error() string {
	return fmt.Sprintf("%s:%d: [%s] expected %s, but %s", u.File, u.Line, Stamp(u.At), u.Want, u.Got)
}

// Unmet is what a step comes to at that time whose expectation does not come true, or
// that cannot be done; got says what is the case instead.
func (s *Scenario) Unmet(step *Step, at time.Duration, got string) *Unmet {
	want := step.String()
	if step.Do == Expect {
		want = step.Expect.String()
	}
	return &Unmet{s.Name, step.Line, at, want, got}
}

// Stamp is a time as traces write it: seconds, to the millisecond.
func Stamp(d time.Duration) string {
	return fmt.Sprintf("%d.%03ds", d/time.Second, d%time.Second/time.Millisecond)
}
