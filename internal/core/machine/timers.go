package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps the time: what is due when, for the Machine and its Algorithm.

// alarms is what is due when.
type alarms struct {
	timers   []timer
	deadline time.Time // nothing is due before; zero: nothing is due
}

type timer struct {
	name string
	at   time.Time
}

// The Machine's own timers begin so; an Algorithm's have names of its own.
const (
	ownTimers      = "machine:"
	timerDiscovery = "machine:discovery" // give up waiting for replies about the highest epoch
	timerVouch     = "machine:vouch"     // give up waiting for vouchers
	timerHandover  = "machine:handover"  // ask the lower leader again
	timerEligible  = "machine:eligible"  // nobody leads: a resigned member stands again
	timerSave      = "machine:save"      // try a failing disk again
	timerHung      = "machine:hung"      // the disk has not answered for T
	timerHeir      = "machine:heir"      // give up waiting for the claim of the one to whom the lead was left
	timerElsewhere = "machine:elsewhere" // nobody with this member's id was where the list has it: ask again
	timerPause     = "machine:pause"     // a pause ends
	timerPoll      = "machine:poll"      // give up waiting for those who may stand again
)

// fire acts on a timer that has run out.
func (m *Machine) fire(name string) {
	if !m.cancel(name) {
		return
	}
	switch name {
	case timerDiscovery:
		if m.mode == awaitsLeader {
			m.discover("no leader has reached the newcomer within T")
			m.preempt() // it may have begun to follow before it stood
			return
		}
		m.discovered("no more reports within T")
	case timerVouch:
		m.unvouched("nobody vouches for it within 2·t_max")
	case timerHandover:
		m.preempt()
	case timerEligible:
		m.resignUntilAbove(0)
		m.disk.Forgive()
		m.tryLastResort()
		m.standAgain("no leader has appeared within 2·T")
	case timerHeir:
		m.unclaimed("it has not claimed within T")
	case timerElsewhere:
		m.askElsewhere()
	case timerPoll:
		m.pollTimedOut()
	case timerPause: // see endUnfounded
	case timerSave:
		m.save()
	case timerHung:
		m.waited()
	default:
		m.step(election.Event{Kind: election.TimerFired, Name: name})
	}
}

// runDue does all that is due by now and finds the next deadline.
func (m *Machine) runDue() {
	for {
		next := -1
		for i, t := range m.timers {
			if !m.now.Before(t.at) && (next < 0 || t.at.Before(m.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		m.fire(m.timers[next].name)
	}
	if !m.cfg.NoDetector {
		m.watch()
	}
	m.deadline = time.Time{}
	for _, t := range m.timers {
		m.wake(t.at)
	}
	if !m.cfg.NoDetector {
		m.wakeForDetector()
	}
}

// wake makes sure that the Machine is stepped by at.
func (m *Machine) wake(at time.Time) {
	if m.deadline.IsZero() || at.Before(m.deadline) {
		m.deadline = at
	}
}

func (m *Machine) set(name string, d time.Duration) {
	m.cancel(name)
	at := m.now.Add(d)
	m.timers = append(m.timers, timer{name, at})
	m.wake(at)
}

// extend lets an armed timer run for d more at least.
func (m *Machine) extend(name string, d time.Duration) {
	for i := range m.timers {
		if t := &m.timers[i]; t.name == name && t.at.Before(m.now.Add(d)) {
			t.at = m.now.Add(d)
		}
	}
}

// extendContest lets the Algorithm wait for d more at least, whatever it waits for.
func (m *Machine) extendContest(d time.Duration) {
	for _, t := range m.timers {
		if !strings.HasPrefix(t.name, ownTimers) {
			m.extend(t.name, d)
		}
	}
}

// cancel disarms a timer and tells whether it was armed.
func (m *Machine) cancel(name string) bool {
	i := slices.IndexFunc(m.timers, func(t timer) bool { return t.name == name })
	if i < 0 {
		return false
	}
	m.timers = slices.Delete(m.timers, i, i+1)
	return true
}
