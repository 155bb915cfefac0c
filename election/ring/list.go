package ring

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// List is the state of a member in the ring algorithm of docs/sources.md, "Coordinator", with a
// message that grows as it travels.
//
//	ELECTION     to the successor: these are alive so far
//	COORDINATOR  to the successor: the highest of these leads
//
// Only the winner can number its leadership. So a COORDINATOR from a different initiator only
// names the next leader. From the winner on, which claims, it goes around again with the epoch.
// If that leader leads already, a single turn is enough.
type List struct {
	ring
	missed []election.ID // members that counted as down here when this member joined the round
}

// New returns the algorithm of a member.
func New(options ...Option) *List {
	return &List{ring: newRing(options)}
}

// Name returns "ring".
func (l *List) Name() string { return "ring" }

// Step handles an event.
func (l *List) Step(ev election.Event, out election.Actions) { l.step(l, ev, out) }

// start begins an election. It "builds an ELECTION message that contains its own id and passes
// it to its successor" ("Coordinator").
func (l *List) start(out election.Actions) {
	l.join(l.own(out), out)
	list := withOwn(nil, out)
	if l.next == election.None {
		l.decideOn(list, out) // a ring of a single member: the message is home
		return
	}
	l.sendElection(list, 0, far, out)
}

// join takes part in a round.
func (l *List) join(round election.Round, out election.Actions) {
	l.ring.join(round, out)
	l.missed = nil
	for _, r := range out.Members() {
		if out.Down(r.ID) {
			l.missed = append(l.missed, r.ID)
		}
	}
}

// withOwn returns the list with this member as it ranks now, if it is a candidate. The list does not
// have it yet: in the order of the ids, no message passes a member for the second time.
func withOwn(list []election.Rank, out election.Actions) []election.Rank {
	list = slices.Clone(list) // a message is never changed after it was sent
	if out.Eligible(out.Self().ID) {
		list = append(list, out.Self())
	}
	return list
}

// sendElection sends the list on. stamp is its initiator's; 0: this member begins.
func (l *List) sendElection(list []election.Rank, stamp int64, hops int, out election.Actions) {
	l.send(election.Message{Kind: election.Election, Round: l.round, Stamp: stamp, Ring: list}, hops, out)
}

func (l *List) receive(m *election.Message, out election.Actions) {
	switch {
	case !l.sane(m.Round.Number) || len(m.Ring) > election.MaxMembers: // a ring that grows has more members elsewhere
	case m.Kind == election.Election:
		out.Vouch(m.Round.Initiator) // its link to the leader may be all that is down
		l.electionFrom(m, out)
	case m.Kind == election.Coordinator && m.Token.Defined():
		l.announced(m, out)
	case m.Kind == election.Coordinator:
		l.coordinatorFrom(m, out)
	}
}

// electionFrom extends the list ("at each step the sender adds its own id to the list") until it
// comes home ("Coordinator"). Of two initiators the higher round goes on; it finds the same winner.
func (l *List) electionFrom(m *election.Message, out election.Actions) {
	same := l.phase == participating && m.Round == l.round
	switch {
	case same && m.Round.Initiator == out.Self().ID:
		l.decideOn(m.Ring, out)
	case same || m.Round.Initiator == out.Self().ID:
		// It has passed its home, or is from an earlier life of this process.
	case l.newer(m.Round):
		l.join(m.Round, out)
		if l.skips(m.Round.Initiator, out) {
			l.restart(l, "its initiator is down or removed", out)
			return
		}
		l.sendElection(withOwn(m.Ring, out), m.Stamp, m.Hops-1, out)
	case l.forgotten(out):
		l.restart(l, "a late message asks for a leader", out)
	}
}

// newer reports whether a round comes after all rounds of this member.
func (l *List) newer(r election.Round) bool {
	if r.Number == l.round.Number {
		return l.phase == participating && r.Initiator.Compare(l.round.Initiator) > 0
	}
	return r.Number > l.round.Number
}

// decideOn ends the round: "the message is changed to COORDINATOR and circulated once more"
// ("Coordinator"), with the highest id as the new coordinator and the members of the new ring.
func (l *List) decideOn(list []election.Rank, out election.Actions) {
	list = l.alive(list, out)
	leader, winner := out.Leader(), highest(list)
	msg := election.Message{Kind: election.Coordinator, Round: l.round, Ring: list}
	switch {
	case leader.Defined() && slices.ContainsFunc(list, func(r election.Rank) bool { return r.ID == leader.Leader.ID }):
		l.announce(msg, out) // it leads already, and the message has passed it
	case winner.ID == election.None:
		l.foundNone(l, out)
	case winner.ID == out.Self().ID:
		l.passing.Ring = list
		l.claim(l, out)
	default:
		l.await(out)
		l.send(msg, far, out)
	}
}

// alive returns the new ring: the members of list that were not found down in this round. A
// member that counted as down before, and is on its list, has added itself since.
func (l *List) alive(list []election.Rank, out election.Actions) []election.Rank {
	return slices.DeleteFunc(slices.Clone(list), func(r election.Rank) bool { return out.Down(r.ID) && !slices.Contains(l.missed, r.ID) })
}

// highest returns the highest of list, the zero Rank if it is empty.
func highest(list []election.Rank) (top election.Rank) {
	for _, r := range list {
		if top.ID == election.None || r.Above(top) {
			top = r
		}
	}
	return top
}

// coordinatorFrom passes on the next leader. If that is this member, it claims, and its
// announcement carries the epoch.
func (l *List) coordinatorFrom(m *election.Message, out election.Actions) {
	switch {
	case m.Round.Initiator == out.Self().ID:
		return // come home
	case l.newer(m.Round):
		l.join(m.Round, out) // the list has passed this member
	case l.phase != participating || m.Round != l.round:
		return // late
	}
	winner := highest(m.Ring)
	switch {
	case winner.ID == out.Self().ID:
		l.decideOn(m.Ring, out)
	case l.skips(winner.ID, out):
		l.restart(l, "the winner is down or removed", out)
	default:
		l.await(out)
		l.send(*m, m.Hops-1, out)
	}
}

func (l *List) leads() election.Message {
	return election.Message{Kind: election.Coordinator, Ring: l.passing.Ring}
}
