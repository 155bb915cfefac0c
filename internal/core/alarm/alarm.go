// Package alarm keeps what is due when: named timers, and the deadline at which their owner
// is to be stepped next. It is a part of the best-effort core, and has no clock.
package alarm

import (
	"slices"
	"strings"
	"time"
)

// Alarms are the timers and the deadline. The zero value has none.
type Alarms struct {
	timers   []timer
	deadline time.Time // nothing is due before; zero: nothing is due
}

type timer struct {
	name string
	at   time.Time
}

// Deadline is when the owner is to be stepped next; zero: nothing is due.
func (a *Alarms) Deadline() time.Time { return a.deadline }

// Wake makes sure that the deadline is at the latest at.
func (a *Alarms) Wake(at time.Time) {
	if a.deadline.IsZero() || at.Before(a.deadline) {
		a.deadline = at
	}
}

// Review sets the deadline to the first timer. The owner adds what else it has due.
func (a *Alarms) Review() {
	a.deadline = time.Time{}
	for _, t := range a.timers {
		a.Wake(t.at)
	}
}

// Set arms a timer, in place of its former time if it has one.
func (a *Alarms) Set(name string, at time.Time) {
	a.Cancel(name)
	a.timers = append(a.timers, timer{name, at})
	a.Wake(at)
}

// Extend has an armed timer fire no sooner than at.
func (a *Alarms) Extend(name string, at time.Time) {
	a.extend(at, func(other string) bool { return other == name })
}

// ExtendOthers does so with each timer, except those with a name that begins with prefix.
func (a *Alarms) ExtendOthers(prefix string, at time.Time) {
	a.extend(at, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

func (a *Alarms) extend(at time.Time, those func(name string) bool) {
	for i := range a.timers {
		if t := &a.timers[i]; those(t.name) && t.at.Before(at) {
			t.at = at
		}
	}
}

// Cancel disarms a timer and reports whether it was armed.
func (a *Alarms) Cancel(name string) bool {
	i := slices.IndexFunc(a.timers, func(t timer) bool { return t.name == name })
	if i < 0 {
		return false
	}
	a.timers = slices.Delete(a.timers, i, i+1)
	return true
}

// Due is the first timer that is due by now; ok is false if none is.
func (a *Alarms) Due(now time.Time) (name string, ok bool) {
	var first time.Time
	for _, t := range a.timers {
		if !now.Before(t.at) && (!ok || t.at.Before(first)) {
			name, first, ok = t.name, t.at, true
		}
	}
	return name, ok
}

// First returns when the first of the armed timers with such a name is due; zero: none is armed.
func (a *Alarms) First(such func(name string) bool) (at time.Time) {
	for _, t := range a.timers {
		if such(t.name) && (at.IsZero() || t.at.Before(at)) {
			at = t.at
		}
	}
	return at
}

// Names are those of the armed timers, in the order in which they were set.
func (a *Alarms) Names() []string {
	names := make([]string, len(a.timers))
	for i, t := range a.timers {
		names[i] = t.name
	}
	return names
}

// Clone is an independent copy.
func (a *Alarms) Clone() Alarms { return Alarms{slices.Clone(a.timers), a.deadline} }
