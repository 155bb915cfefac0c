// Package bully is Garcia-Molina's Bully election (1982) as described in docs/sources.md. A
// member without a leader asks the members above it, and leads if none of them answers.
//
//	ELECTION     to members of higher rank: is any of you alive?
//	ANSWER       yes; the sender takes over, stand back
//	COORDINATOR  to all members: the sender leads
//
// The epochs, the disk, the failure detector and the hand-over to a returning member are the
// Machine's; see package election.
package bully

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Probe is how a member asks the higher members.
type Probe int

const (
	// Descending asks the highest first and stops at the first ANSWER. It moves on after 2·t_max
	// (docs/sources.md, "Scrapper"), 4·t_max over a new link. O(n) messages if all members start
	// at once.
	Descending Probe = iota
	// All asks all higher members at once (docs/sources.md, "Leader election", "Coordinator" and
	// "Epochs"). It waits only once, for T, but needs O(n²) messages.
	All
)

// Bully is the state of a member.
type Bully struct {
	probe     Probe
	dead      bool // members that are down are asked too
	state     state
	round     uint64
	asked     election.Rank // the last member asked; those below it are yet to be
	more      bool          // there are such, and the timer "next" runs
	answer    election.ID   // the member that answered; its COORDINATOR is awaited
	askedDown election.ID   // the member asked although it counts as down; PeerDown confirms that it is
}

type state uint8

const (
	idle    state = iota
	asking        // ELECTION was sent, no ANSWER yet
	waiting       // ANSWER came, COORDINATOR is awaited
)

// The timers.
const (
	timerNext        = "next"        // 2·t_max, 4·t_max over a new link: ask the next lower member
	timerAnswer      = "answer"      // T, T + 2·t_max over a new link: no member has answered
	timerCoordinator = "coordinator" // no member has announced its leadership
)

// Option changes how a [Bully] works.
type Option func(*Bully)

// WithProbe sets how the higher members are asked; default [Descending].
func WithProbe(p Probe) Option { return func(b *Bully) { b.probe = p } }

// WithDead makes a member also ask higher members that count as down, as in the example of
// docs/sources.md, "Scrapper". So it finds a member that has just returned at once. If the
// member is still down, the driver sends PeerDown again.
func WithDead() Option { return func(b *Bully) { b.dead = true } }

// New returns the algorithm of a member.
func New(options ...Option) *Bully {
	b := &Bully{}
	for _, o := range options {
		o(b)
	}
	return b
}

// Name returns "bully".
func (b *Bully) Name() string { return "bully" }

// Step handles an event.
func (b *Bully) Step(ev election.Event, out election.Actions) {
	switch ev.Kind {
	case election.Started, election.LeaderLost, election.Campaign:
		b.callElection(out)
	case election.Received:
		b.receive(ev.Message, out)
	case election.PeerDown:
		b.peerDown(ev.Peer, out)
	case election.Withdrawn:
		b.withdrawn(ev.Peer, out)
	case election.TimerFired:
		b.timerFired(ev.Name, out)
	case election.LeaderElected:
		b.rest(out)
		if ev.Token.Leader.ID == out.Self().ID {
			b.announce(out)
		}
	}
}

// callElection begins an election (docs/sources.md, "Scrapper", step 1): it asks the higher
// members, or leads at once if there are none.
func (b *Bully) callElection(out election.Actions) {
	b.rest(out)
	leader := out.Leader()
	switch {
	case leader.Leader.ID == out.Self().ID:
		b.announce(out) // leader unchanged, epoch unchanged
	case leader.Defined() && out.Self().Above(leader.Leader):
		// It leads until it hands over, as the Machine requests.
	case out.Eligible(out.Self().ID):
		b.state = asking
		b.round++
		b.askNext(out)
	}
}

// askNext sends ELECTION to the next member, or to all, from the highest down. A member leads if
// no higher member could answer.
func (b *Bully) askNext(out election.Actions) {
	b.more = false
	for c, left := b.next(out); c != (election.Rank{}); c, left = b.next(out) {
		b.asked, b.askedDown = c, election.None
		if out.Down(c.ID) {
			b.askedDown = c.ID
		}
		out.Send(c.ID, election.Message{Kind: election.Election, Round: b.thisRound(out)})
		if b.probe == Descending && left {
			b.more = true
			out.SetTimer(timerNext, out.AnswerTime(c.ID))
			return
		}
	}
	longest, any := b.awaitsAnswer(out)
	if !any {
		b.claim(out)
		return
	}
	out.SetTimer(timerAnswer, longest+out.Timing().TProcess)
}

// next returns the highest member that may still be asked (zero: none), and whether any remain
// after it.
func (b *Bully) next(out election.Actions) (next election.Rank, left bool) {
	members := out.Members()
	for i := len(members) - 1; i >= 0 && members[i].Above(out.Self()); i-- {
		c := members[i]
		if b.asked.ID != election.None && !b.asked.Above(c) || !b.mayAsk(c.ID, out) {
			continue
		}
		if next.ID != election.None {
			return next, true
		}
		next = c
	}
	return next, false
}

// mayAsk reports whether a member is worth asking.
func (b *Bully) mayAsk(id election.ID, out election.Actions) bool {
	return out.Eligible(id) || b.dead && out.Down(id)
}

// awaitsAnswer reports whether any asked member might still answer, and how long a question and
// its answer may travel.
func (b *Bully) awaitsAnswer(out election.Actions) (longest time.Duration, any bool) {
	if b.askedDown != election.None {
		longest, any = out.AnswerTime(b.askedDown), true
	}
	members := out.Members()
	for i := len(members) - 1; i >= 0 && members[i].Above(out.Self()); i-- {
		if id := members[i].ID; out.Eligible(id) && b.asked.Compare(members[i]) <= 0 {
			longest, any = max(longest, out.AnswerTime(id)), true
		}
	}
	return longest, any
}

func (b *Bully) claim(out election.Actions) {
	b.rest(out)
	out.Claim()
}

// announce sends COORDINATOR to all members (docs/sources.md, "Epochs", step 1).
func (b *Bully) announce(out election.Actions) {
	members := out.Members()
	for i := len(members) - 1; i >= 0; i-- {
		if !out.Down(members[i].ID) {
			b.coordinator(members[i].ID, out)
		}
	}
}

func (b *Bully) coordinator(to election.ID, out election.Actions) {
	out.Send(to, election.Message{Kind: election.Coordinator, Token: out.Leader()})
}

func (b *Bully) receive(m *election.Message, out election.Actions) {
	switch m.Kind {
	case election.Election:
		b.electionFrom(m, out)
	case election.Answer:
		b.answerFrom(m, out)
	case election.Coordinator:
		out.Accept(m.Token, m.From)
		if out.Leader() == m.Token {
			b.rest(out) // the same leader as before
		}
	}
}

// electionFrom answers a lower member and takes the election over (docs/sources.md, "Scrapper",
// step 2; "Epochs", step 4). A leader answers that it leads.
func (b *Bully) electionFrom(m *election.Message, out election.Actions) {
	leader := out.Leader()
	switch {
	case leader.Leader.ID == out.Self().ID:
		b.coordinator(m.From, out)
	case !out.Eligible(out.Self().ID) || !out.Self().Above(out.Rank(m.From)):
		// No answer: this member cannot take over.
	default:
		out.Send(m.From, election.Message{Kind: election.Answer, Round: m.Round})
		out.Vouch(m.From) // its link to the leader may be all that is down
		if b.state == idle {
			b.callElection(out)
		}
	}
}

// answerFrom stands back: a higher member takes over (docs/sources.md, "Epochs", step 3).
func (b *Bully) answerFrom(m *election.Message, out election.Actions) {
	if b.state != asking || m.Round != b.thisRound(out) {
		return // late: the election that it answers is over
	}
	b.rest(out)
	b.state, b.answer = waiting, m.From
	t := out.Timing()
	higher := 0
	for _, r := range out.Members() {
		if r.Above(out.Self()) {
			higher++
		}
	}
	// Its links to higher members may have yet to be made.
	out.SetTimer(timerCoordinator, 2*t.T()+(t.DialTime()+2*t.TMax)*time.Duration(higher))
}

// peerDown stops waiting for a dead member.
func (b *Bully) peerDown(peer election.ID, out election.Actions) {
	if peer == b.askedDown {
		b.askedDown = election.None
	}
	if b.state == waiting && peer == b.answer {
		b.startOver(out)
		return
	}
	b.goOn(peer, out)
}

// withdrawn stops waiting for a member that is no longer a candidate.
func (b *Bully) withdrawn(peer election.ID, out election.Actions) {
	switch {
	case peer == out.Self().ID:
		b.rest(out)
	case b.state == waiting && peer == b.answer:
		b.callElection(out) // those below it are asked now
	default:
		b.goOn(peer, out)
	}
}

// goOn asks the next member, or claims if no asked member can answer any more.
func (b *Bully) goOn(peer election.ID, out election.Actions) {
	switch {
	case b.state == asking && b.more && peer == b.asked.ID:
		b.askNext(out)
	case b.state == asking && !b.more:
		if _, any := b.awaitsAnswer(out); !any {
			b.claim(out)
		}
	}
}

func (b *Bully) timerFired(name string, out election.Actions) {
	switch name {
	case timerNext:
		b.askNext(out)
	case timerAnswer:
		b.claim(out)
	case timerCoordinator:
		b.startOver(out) // no COORDINATOR in time
	}
}

// startOver begins again after a wait in vain. A member that cannot reach this member may have
// won meanwhile; the rest can report it.
func (b *Bully) startOver(out election.Actions) {
	b.rest(out)
	out.Discover()
}

// rest ends the election on this member's side.
func (b *Bully) rest(out election.Actions) {
	b.state, b.asked, b.more, b.answer, b.askedDown = idle, election.Rank{}, false, election.None, election.None
	out.CancelTimer(timerNext)
	out.CancelTimer(timerAnswer)
	out.CancelTimer(timerCoordinator)
}

func (b *Bully) thisRound(out election.Actions) election.Round {
	return election.Round{Number: b.round, Initiator: out.Self().ID}
}

// Clone returns an independent copy.
func (b *Bully) Clone() election.Algorithm {
	c := *b
	return &c
}

// MinRound returns the round number in use, 0 before the first.
func (b *Bully) MinRound() uint64 { return b.round }

// AppendState appends all that decides the algorithm's further behavior.
func (b *Bully) AppendState(s []byte, base uint64) []byte {
	s = append(s, byte(b.probe), byte(b.state))
	s = election.AppendRelative(s, b.round, base)
	if b.more {
		s = append(s, 1)
	}
	s = append(append(append(append(s, b.asked.ID...), 0), b.askedDown...), 0)
	return append(append(s, b.answer...), 0)
}
