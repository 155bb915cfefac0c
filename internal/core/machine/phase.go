package machine

import "slices"

// Phase is what a [Machine] is doing. There is one at a time; the table of moves says
// which may follow which.
type Phase uint8

// Phases.
const (
	PhaseStarting    Phase = iota // it has yet to be started
	PhaseJoining                  // it has just been let in, and leaves the election to those who were there before
	PhaseDiscovering              // it asks what the others know, and claims nothing before they have answered
	PhaseElecting                 // nobody leads: a contest goes on, or who has won it is being saved
	PhaseFollowing                // another leads
	PhaseLeading                  // it leads
	PhaseDraining                 // it leads no more, but its work has still to stop: nobody else may begin
	PhaseRemoved                  // it is no member any more
)

var phaseNames = [...]string{"starting", "joining", "discovering", "electing", "following", "leading", "draining", "removed"}

func (p Phase) String() string { return phaseNames[p] }

// moves is the table: what each phase may become.
var moves = [...][]Phase{
	PhaseStarting:    {PhaseElecting},
	PhaseJoining:     {PhaseDiscovering, PhaseElecting, PhaseRemoved},
	PhaseDiscovering: {PhaseElecting, PhaseRemoved},
	PhaseElecting:    {PhaseJoining, PhaseDiscovering, PhaseFollowing, PhaseLeading, PhaseRemoved},
	PhaseFollowing:   {PhaseJoining, PhaseDiscovering, PhaseElecting, PhaseRemoved},
	PhaseLeading:     {PhaseElecting, PhaseDraining}, // removed, too, it has to tell the others first that its time is over
	PhaseDraining:    {PhaseDiscovering, PhaseElecting, PhaseRemoved},
	PhaseRemoved:     {}, // for good: another process may join
}

// Next are the phases that p may become.
func (p Phase) Next() []Phase { return moves[p] }

// phases is what this member is doing, and has been in this step.
type phases struct {
	phase Phase
	trail []Phase // that the last Step has gone through, the one before it first
}

// retrace begins a step.
func (p *phases) retrace() { p.trail = append(p.trail[:0], p.phase) }

// enter moves to another phase.
func (m *Machine) enter(p Phase) {
	if p != m.phase {
		m.phase = p
		m.trail = append(m.trail, p)
	}
}

// Phase is what this member is doing.
func (m *Machine) Phase() Phase { return m.phase }

// Moved gives the first move of the last Step that the table does not have: a fault of
// the Machine itself, which the lab looks for.
func (m *Machine) Moved() (from, to Phase, wrong bool) {
	for i := 1; i < len(m.trail); i++ {
		if from, to := m.trail[i-1], m.trail[i]; !slices.Contains(moves[from], to) {
			return from, to, true
		}
	}
	return m.phase, m.phase, false
}

// phaseWithoutLeader is the phase of a member without a leader.
func (m *Machine) phaseWithoutLeader() Phase {
	switch {
	case m.place == removed:
		return PhaseRemoved
	case m.next.Defined():
		return PhaseElecting
	case m.mode == awaitsLeader:
		return PhaseJoining
	case m.mode == asks:
		return PhaseDiscovering
	}
	return PhaseElecting
}

// enterPhaseWithoutLeader has this member, if it has no leader, be in the phase that goes with what
// it is waiting for.
func (m *Machine) enterPhaseWithoutLeader() {
	switch m.phase {
	case PhaseJoining, PhaseDiscovering, PhaseElecting, PhaseRemoved:
		m.enter(m.phaseWithoutLeader())
	}
}

func (m *Machine) started() bool { return m.phase != PhaseStarting }

// live reports whether there is a leadership that has not ended.
func (m *Machine) live() bool { return m.phase == PhaseFollowing || m.phase == PhaseLeading }

func (m *Machine) leading() bool { return m.phase == PhaseLeading }

func (m *Machine) draining() bool { return m.phase == PhaseDraining }

// beats reports whether this member beats to the others: it leads, or its work has still
// to stop.
func (m *Machine) beats() bool { return m.phase == PhaseLeading || m.phase == PhaseDraining }

// leaderless reports whether there is no leader, nor one about to be.
func (m *Machine) leaderless() bool { return !m.live() && !m.next.Defined() }

// undecided reports whether that is so and no answer is awaited that may tell of one.
func (m *Machine) undecided() bool { return m.leaderless() && m.mode == idle }
