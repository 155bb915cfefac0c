// Package bully is Garcia-Molina's Bully election (1982) as docs/sources.md
// has it: whoever finds no leader asks the members above it,
// and leads if none of them answers.
//
//	ELECTION     to members of higher rank: is any of you alive?
//	ANSWER       yes; stand back, I take it from here
//	COORDINATOR  to everyone: I lead
//
// The epochs, the disk, the failure detector and the hand-over to a member that
// returns are the Machine's; see package election.
package bully

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Probe is how a member asks the higher ones.
type Probe int

const (
	// Descending asks the highest first and stops at the first ANSWER; it moves
	// on after 2·t_max (docs/sources.md, "Scrapper"), 4·t_max where no link stood. O(n) messages when everyone notices at once.
	Descending Probe = iota
	// All asks everyone above at once (docs/sources.md, "Leader election", "Coordinator" and "Epochs"). One wait of T,
	// but O(n²) messages.
	All
)

// Bully is one member's side of the algorithm.
type Bully struct {
	probe     Probe
	dead      bool // members known to be down are asked too
	state     state
	round     uint64
	asked     election.Rank // the last member asked; those below it are yet to be
	more      bool          // there are such, and the timer "next" runs
	answer    election.ID   // who answered; its COORDINATOR is awaited
	askedDown election.ID   // the member asked although it counts as down; PeerDown says that it is
}

type state uint8

const (
	idle    state = iota
	asking        // ELECTION is out, no ANSWER yet
	waiting       // ANSWER came, COORDINATOR is awaited
)

// The timers.
const (
	timerNext        = "next"        // 2·t_max, 4·t_max over a new link: ask the next lower one
	timerAnswer      = "answer"      // T, T + 2·t_max over a new link: nobody has answered
	timerCoordinator = "coordinator" // nobody has announced himself
)

// Option changes how a [Bully] works.
type Option func(*Bully)

// WithProbe sets how the higher members are asked; default [Descending].
func WithProbe(p Probe) Option { return func(b *Bully) { b.probe = p } }

// WithDead has a member ask the higher ones that count as down too, as the
// example of docs/sources.md, "Scrapper", does: one that has just returned is so found at once. Its
// driver tells once more, by PeerDown, when it was not there.
func WithDead() Option { return func(b *Bully) { b.dead = true } }

// New gives the algorithm for one member.
func New(options ...Option) *Bully {
	b := &Bully{}
	for _, o := range options {
		o(b)
	}
	return b
}

// Name is "bully".
func (b *Bully) Name() string { return "bully" }

// Step handles one event.
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
		if ev.Token.Leader == out.Self() {
			b.announce(out)
		}
	}
}

// callElection begins a contest (docs/sources.md, "Scrapper", step 1): ask the higher
// members, or lead at once when there are none.
func (b *Bully) callElection(out election.Actions) {
	b.rest(out)
	leader := out.Leader()
	switch {
	case leader.Leader == out.Self():
		b.announce(out) // leader unchanged, epoch unchanged
	case leader.Defined() && out.Self().Above(leader.Leader):
		// It leads until it hands over; the Machine asks it to.
	case out.Eligible(out.Self().ID):
		b.state = asking
		b.round++
		b.askNext(out)
	}
}

// askNext sends ELECTION to the next member, or to all, from the highest down.
// Who has nobody above that could answer leads.
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

// next is the highest member that may still be asked (zero: none), and whether
// there are others after it.
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

// awaitsAnswer reports whether anyone asked might still answer, and how long what
// is asked now and its answer may travel.
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

// announce sends COORDINATOR to everyone (docs/sources.md, "Epochs", step 1).
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

// electionFrom answers a lower member and takes the contest over (docs/sources.md,
// "Scrapper", step 2; "Epochs", step 4). A leader says that it leads.
func (b *Bully) electionFrom(m *election.Message, out election.Actions) {
	leader := out.Leader()
	switch {
	case leader.Leader == out.Self():
		b.coordinator(m.From, out)
	case !out.Eligible(out.Self().ID) || !out.Self().Above(out.Rank(m.From)):
		// No answer: I cannot take over.
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
		return // late: the contest it answers is over
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
	// Its links to those above it may have yet to be made.
	out.SetTimer(timerCoordinator, 2*t.T()+(t.DialTime()+2*t.TMax)*time.Duration(higher))
}

// peerDown spares the waiting for one that is gone.
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

// withdrawn spares the waiting for one that stands no more.
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

// goOn asks the next one, or claims, when nobody asked can answer any more.
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

// startOver begins anew after a wait in vain. Another may have won meanwhile who
// cannot reach us: the others know.
func (b *Bully) startOver(out election.Actions) {
	b.rest(out)
	out.Discover()
}

// rest ends the contest on this member's side.
func (b *Bully) rest(out election.Actions) {
	b.state, b.asked, b.more, b.answer, b.askedDown = idle, election.Rank{}, false, election.None, election.None
	out.CancelTimer(timerNext)
	out.CancelTimer(timerAnswer)
	out.CancelTimer(timerCoordinator)
}

func (b *Bully) thisRound(out election.Actions) election.Round {
	return election.Round{Number: b.round, Initiator: out.Self().ID}
}
