// Package ring holds the two ring algorithms. A message of Chang and Roberts' has a single
// candidate (docs/sources.md, "Leader election"). A message of the second algorithm has the list
// of all members it has passed ("Coordinator"). Each reads like its source. Common to both, and
// left out by the sources, are:
//
//   - the ring itself: the members in the order of their ids, the last followed by the
//     first, dead members skipped;
//   - rounds: a new round replaces a lost message, and a late message is recognized;
//   - a hop limit, so that no message circulates forever.
//
// The epochs, the disk, the failure detector and the hand-over to a returning member are the
// Machine's; see package election.
package ring

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// phase is a member's part in an election.
type phase uint8

const (
	resting       phase = iota // no election at this member
	participating              // the sources' flag: it has sent or passed on a message of the round
	decided                    // the round has a winner, and its leadership is not settled yet
)

// The timer: the round, or what follows from it, takes too long.
const timerRound = "round"

// maxLeap is how far a message may raise the round number, so that no single message can use all
// numbers up.
const maxLeap = 1 << 32

// ring is a member's place in the ring and in its elections.
type ring struct {
	compare func(a, b election.ID) int // the ring's order
	members []election.Rank            // as of the last step
	others  []election.ID              // those that follow this member, in that order
	next    election.ID                // the successor as of the last step

	round   election.Round // the newest seen; its messages are late once it is over
	phase   phase
	carrier election.ID      // the member to which this member last sent a message of the round, None: it sent none
	passing election.Message // an announcement that goes on once it is settled here; no Hops: none
}

// Option changes how a ring algorithm works.
type Option func(*ring)

// WithOrder sets the ring's order: each id is followed by the next, the last by the first.
// Members that are not in it come before it. Default: the order of the ids. It is for the lab;
// every member must have the same order.
func WithOrder(ids []election.ID) Option {
	places := make(map[election.ID]int, len(ids))
	for i, id := range ids {
		places[id] = i + 1
	}
	return func(r *ring) {
		r.compare = func(a, b election.ID) int { return cmp.Or(cmp.Compare(places[a], places[b]), a.Compare(b)) }
	}
}

// newRing returns a member's place. Priorities have no part in the order: each may change at any
// time. Where members differ on the order, a message comes home before it has passed them all.
func newRing(options []Option) ring {
	r := ring{compare: election.ID.Compare}
	for _, o := range options {
		o(&r)
	}
	return r
}

// Participating reports whether this member takes part in an election without a winner yet: the
// flag of docs/sources.md, "Leader election".
func (r *ring) Participating() bool { return r.phase == participating }

// Successor returns the member to which this member sends; none while it is alone or has not
// been stepped.
func (r *ring) Successor() election.ID { return r.next }

// algorithm is what the two do differently.
type algorithm interface {
	start(out election.Actions) // begins an election
	receive(m *election.Message, out election.Actions)
	leads() election.Message // goes around the ring once this member leads
}

func (r *ring) step(a algorithm, ev election.Event, out election.Actions) {
	r.mend(out)
	if r.phase == participating && r.carrier != election.None && out.Down(r.carrier) {
		r.restart(a, "its successor is down or removed", out)
	}
	switch ev.Kind {
	case election.Started, election.LeaderLost, election.Campaign:
		if r.phase != participating && out.Eligible(out.Self().ID) {
			a.start(out)
		}
	case election.Received:
		a.receive(ev.Message, out)
	case election.TimerFired: // the round takes too long: neither participation nor a winner's time lasts forever
		r.rest(out)
		if !out.Leader().Defined() {
			r.restart(a, "the round is lost", out)
		}
	case election.LeaderElected: // that leadership is on disk
		switch {
		case ev.Token.Leader.ID != out.Self().ID:
			r.passOn(ev.Token, out)
		case r.round.Number > 0: // else it led before there was any contest
			r.announce(a.leads(), out)
		}
	case election.Withdrawn:
		if ev.Peer == out.Self().ID {
			r.restart(a, "it cannot take leadership", out) // the round that it won is void
		}
	}
}

// restart replaces a lost round by a new round.
func (r *ring) restart(a algorithm, why string, out election.Actions) {
	out.Note("restarts", r.next, why)
	a.start(out)
}

// arrange puts the members in order, if the list has changed.
func (r *ring) arrange(out election.Actions) {
	members, self := out.Members(), out.Self().ID
	if len(members) == len(r.members) && &members[0] == &r.members[0] {
		return
	}
	ids := make([]election.ID, 0, len(members))
	for _, m := range members {
		if m.ID != self {
			ids = append(ids, m.ID)
		}
	}
	slices.SortStableFunc(ids, r.compare)
	at, _ := slices.BinarySearchFunc(ids, self, r.compare)
	r.members, r.others = members, slices.Concat(ids[at:], ids[:at])
}

// successor returns the next member that is not down ("Coordinator"), or None.
func (r *ring) successor(out election.Actions) election.ID {
	for _, id := range r.others {
		if !out.Down(id) {
			return id
		}
	}
	return election.None
}

// skips reports whether the place of id is between this member and its successor. A message on its
// way home to such a member goes no further: it would pass its home by. id is down, or no member.
func (r *ring) skips(id election.ID, out election.Actions) bool {
	self := out.Self().ID
	after, before := r.compare(id, self) > 0, r.compare(id, r.next) < 0
	if r.compare(self, r.next) > 0 { // this member is the last, and its successor the first
		return after || before
	}
	return after && before
}

// mend makes the detector watch the successor, "so that a broken ring is repaired before it is
// needed".
func (r *ring) mend(out election.Actions) {
	r.arrange(out)
	if next := r.successor(out); next != r.next {
		r.next = next
		out.Watch(next)
	}
}

// send sends msg to the successor, and drops it when it has gone too far.
func (r *ring) send(msg election.Message, hops int, out election.Actions) {
	if msg.Hops = hops; hops > 0 {
		r.carrier = r.next
		out.Send(r.next, msg)
	}
}

// far is how many members a message may pass. No ring has more. Its sender may not have the
// present length of this ring.
const far = election.MaxMembers

// own returns a new round of this member, above all that it has seen.
func (r *ring) own(out election.Actions) election.Round {
	return election.Round{Number: r.round.Number + 1, Initiator: out.Self().ID}
}

// join takes part in a round.
func (r *ring) join(round election.Round, out election.Actions) {
	r.round, r.phase, r.carrier, r.passing = round, participating, election.None, election.Message{}
	r.await(out)
}

// await sets the time after which the round counts as lost: n·(t_max + t_process), a full turn
// of the slowest ring. If the link to the successor is new, the time to make it comes on top.
func (r *ring) await(out election.Actions) {
	t := out.Timing()
	making := max(0, out.AnswerTime(r.next)-2*t.TMax)
	out.SetTimer(timerRound, time.Duration(len(out.Members()))*(t.TMax+t.TProcess)+making)
}

// decide ends this member's participation: the round is over, and its outcome must settle before
// the timer expires.
func (r *ring) decide(out election.Actions) {
	r.phase = decided
	r.await(out)
}

// rest ends the election on this member's side.
func (r *ring) rest(out election.Actions) {
	r.phase, r.passing = resting, election.Message{}
	out.CancelTimer(timerRound)
}

// sane reports whether a round number is plausible.
func (r *ring) sane(number uint64) bool {
	return number > 0 && number <= min(election.MaxEpoch, r.round.Number+maxLeap)
}

// forgotten reports whether a late message requires a round: there is no leader, and no election
// that would reach the sender. The sender has restarted and counts rounds from 1 again, or its
// round was lost here.
func (r *ring) forgotten(out election.Actions) bool {
	return r.phase == resting && !out.Leader().Defined()
}

// claim claims leadership, unless a leader is alive after all; then that leader's end will be an
// event. A winner that is no candidate by now calls a round without itself.
func (r *ring) claim(a algorithm, out election.Actions) {
	if !out.Eligible(out.Self().ID) {
		r.restart(a, "it has won, and is no longer a candidate", out)
		return
	}
	r.decide(out)
	out.Claim()
	if out.Leader().Defined() {
		r.rest(out)
	}
}

// foundNone ends a round that has found no candidate. This member may have become one since it passed the message on.
func (r *ring) foundNone(a algorithm, out election.Actions) {
	if r.next != election.None && out.Eligible(out.Self().ID) && !out.Leader().Defined() {
		r.restart(a, "it is a candidate since the round began", out)
		return
	}
	r.rest(out)
}

// announce sends the leader around the ring, beginning with the successor; msg comes home to
// this member.
func (r *ring) announce(msg election.Message, out election.Actions) {
	r.rest(out)
	r.round.Initiator = out.Self().ID
	msg.Round, msg.Token = r.round, out.Leader()
	r.send(msg, far, out)
}

// announced takes the leadership that m announces, and passes m on when it is settled here: an
// epoch is on disk before any message carries it.
func (r *ring) announced(m *election.Message, out election.Actions) {
	if m.Round.Initiator == out.Self().ID || !r.sane(m.Round.Number) {
		return // it has come home
	}
	if m.Round.Number >= r.round.Number {
		r.round.Number = m.Round.Number
		r.decide(out)
	}
	r.passing = election.Message{Kind: m.Kind, Round: m.Round, Ring: m.Ring, Hops: m.Hops - 1}
	if r.skips(m.Round.Initiator, out) {
		r.passing = election.Message{} // every member has received it
	}
	out.Accept(m.Token, m.From)
	if out.Leader() == m.Token {
		r.passOn(m.Token, out) // it was settled before: a heartbeat was faster, or the leadership is unchanged
	}
}

// passOn ends the election here and sends the announcement that waited for t to settle, if there
// is any.
func (r *ring) passOn(t election.Token, out election.Actions) {
	msg := r.passing
	r.rest(out)
	msg.Token = t
	r.send(msg, msg.Hops, out)
}

// Clone returns an independent copy.
func (c *ChangRoberts) Clone() election.Algorithm {
	d := *c // nominee is never changed, but replaced
	return &d
}

// AppendState appends all that decides the algorithm's further behavior.
func (r *ChangRoberts) AppendState(b []byte, base uint64) []byte {
	if r.phase == participating && len(r.nominee) > 0 {
		b = strconv.AppendInt(b, int64(r.nominee[0].Priority), 10) // of this member
	}
	return r.ring.AppendState(append(b, 0), base)
}

// Clone returns an independent copy.
func (l *List) Clone() election.Algorithm {
	d := *l // missed is never changed, but replaced
	return &d
}

// AppendState appends all that decides the algorithm's further behavior.
func (l *List) AppendState(b []byte, base uint64) []byte {
	for _, id := range l.missed {
		b = append(append(b, id...), 0)
	}
	return l.ring.AppendState(append(b, 0), base)
}

// MinRound returns the lowest round number held, 0 for none.
func (r *ring) MinRound() uint64 {
	if n := r.passing.Round.Number; n > 0 {
		return min(n, r.round.Number)
	}
	return r.round.Number
}

// AppendState appends all that decides the algorithm's further behavior.
func (r *ring) AppendState(b []byte, base uint64) []byte {
	b = append(b, byte(r.phase))
	b = append(append(b, r.next...), 0)
	if r.phase == participating {
		b = append(b, r.carrier...)
	}
	b = append(b, 0)
	b = appendRound(b, r.round, base)
	b = appendRound(b, r.passing.Round, base)
	b = election.AppendRelative(b, uint64(r.passing.Hops), 1)
	for _, m := range r.passing.Ring {
		b = append(append(b, m.ID...), 0)
	}
	return append(append(b, 0), r.passing.Kind...)
}

func appendRound(b []byte, r election.Round, base uint64) []byte {
	b = election.AppendRelative(b, r.Number, base)
	return append(append(b, r.Initiator...), 0)
}
