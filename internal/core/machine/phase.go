package machine

import "github.com/batuta-dev/batuta/internal/core/tenure"

// Phase is what this member is doing.
func (m *Machine) Phase() tenure.Phase { return m.tenure.Phase() }

// Moved is [tenure.Tenure.Moved], for the lab.
func (m *Machine) Moved() (from, to tenure.Phase, wrong bool) { return m.tenure.Moved() }

// phaseWithoutLeader is the phase of a member without a leader.
func (m *Machine) phaseWithoutLeader() tenure.Phase {
	switch {
	case m.place == removed:
		return tenure.PhaseRemoved
	case m.tenure.Next().Defined():
		return tenure.PhaseElecting
	case m.mode == awaitsLeader:
		return tenure.PhaseJoining
	case m.mode == asks:
		return tenure.PhaseDiscovering
	}
	return tenure.PhaseElecting
}

// enterPhaseWithoutLeader has this member, if it has no leader, be in the phase that goes with what
// it is waiting for.
func (m *Machine) enterPhaseWithoutLeader() {
	switch m.tenure.Phase() {
	case tenure.PhaseJoining, tenure.PhaseDiscovering, tenure.PhaseElecting, tenure.PhaseRemoved:
		m.tenure.Enter(m.phaseWithoutLeader())
	}
}

// undecided reports whether there is no leader, nor about to be, and no answer is awaited that may
// name a leader.
func (m *Machine) undecided() bool { return m.tenure.Leaderless() && m.mode == idle }
