package machine

import "github.com/batuta-dev/batuta/election"

// This file keeps the time: what is due when, for the Machine and its Algorithm.

// The Machine's own timers begin so; an Algorithm's have names of its own.
const (
	ownTimers      = "machine:"
	timerDiscovery = "machine:discovery" // give up waiting for replies about the highest epoch
	timerVouch     = "machine:vouch"     // give up waiting for vouchers
	timerHandover  = "machine:handover"  // ask the lower leader again
	timerEligible  = "machine:eligible"  // there is no leader: a resigned member is a candidate again
	timerSave      = "machine:save"      // try a failing disk again
	timerHung      = "machine:hung"      // the disk has not answered for T
	timerHeir      = "machine:heir"      // give up waiting for the claim of the member to which the lead was left
	timerElsewhere = "machine:elsewhere" // no process with this member's id was where the list has it: ask again
	timerPause     = "machine:pause"     // a pause ends
	timerPoll      = "machine:poll"      // give up waiting for members that may be candidates again
)

// fire acts on a timer that has run out.
func (m *Machine) fire(name string) {
	if !m.alarms.Cancel(name) {
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
		m.unclaimed("it has not claimed within T", true)
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
	for name, ok := m.alarms.Due(m.now); ok; name, ok = m.alarms.Due(m.now) {
		m.fire(name)
	}
	if !m.cfg.NoDetector {
		m.watch()
	}
	m.alarms.Review()
	if !m.cfg.NoDetector {
		m.wakeForDetector()
	}
}
