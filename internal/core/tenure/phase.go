package tenure

import "slices"

// Phase is what a member is doing. There is a single phase at a time; the table of moves has
// which may follow which.
type Phase uint8

// Phases.
const (
	PhaseStarting    Phase = iota // it has yet to be started
	PhaseJoining                  // it was just admitted, and leaves the election to the members that were there before
	PhaseDiscovering              // it asks what members know, and claims nothing before they have answered
	PhaseElecting                 // there is no leader: an election goes on, or its result is being saved
	PhaseFollowing                // it follows a leader
	PhaseLeading                  // it leads
	PhaseDraining                 // its leadership is over, but its work has still to stop: no member may begin before
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
	PhaseLeading:     {PhaseElecting, PhaseDraining}, // removed, too, it has to announce first that its time is over
	PhaseDraining:    {PhaseDiscovering, PhaseElecting, PhaseRemoved},
	PhaseRemoved:     {}, // for good: a new process may join
}

// Next are the phases that p may become.
func (p Phase) Next() []Phase { return moves[p] }

// Phase is what this member is doing.
func (t *Tenure) Phase() Phase { return t.phase }

// BeginStep begins a step: [Tenure.Moved] checks its moves.
func (t *Tenure) BeginStep() { t.trail = append(t.trail[:0], t.phase) }

// Enter moves to that phase.
func (t *Tenure) Enter(p Phase) {
	if p != t.phase {
		t.phase = p
		t.trail = append(t.trail, p)
	}
}

// Moved gives the first move of the last step that the table does not have: a fault of the
// core itself, for which the lab looks.
func (t *Tenure) Moved() (from, to Phase, wrong bool) {
	for i := 1; i < len(t.trail); i++ {
		if from, to := t.trail[i-1], t.trail[i]; !slices.Contains(moves[from], to) {
			return from, to, true
		}
	}
	return t.phase, t.phase, false
}

// Drained moves a member to phase p if its work had still to stop: that wait is over.
func (t *Tenure) Drained(p Phase) {
	if t.Draining() {
		t.Enter(p)
	}
}

// Started reports whether the member takes part.
func (t *Tenure) Started() bool { return t.phase != PhaseStarting }

// Live reports whether there is a leadership that has not ended.
func (t *Tenure) Live() bool { return t.phase == PhaseFollowing || t.phase == PhaseLeading }

// Leading reports whether this member leads.
func (t *Tenure) Leading() bool { return t.phase == PhaseLeading }

// Draining reports whether its work has still to stop, though its leadership is over.
func (t *Tenure) Draining() bool { return t.phase == PhaseDraining }

// Beats reports whether it sends heartbeats: it leads, or its work has still to stop.
func (t *Tenure) Beats() bool { return t.phase == PhaseLeading || t.phase == PhaseDraining }

// Leaderless reports whether there is no leader, nor a leadership that is being saved.
func (t *Tenure) Leaderless() bool { return !t.Live() && !t.next.Defined() }
