// Package franklin is Franklin's election on a ring with links in both directions (W. R.
// Franklin, "On an Improved Algorithm for Decentralized Extrema Finding in Circular
// Configurations of Processors", Communications of the ACM 25(5), 1982). It is written as a user
// of batuta would write an algorithm: it imports only the contract, package election.
//
// Each eligible member is a candidate. In each phase every candidate sends its rank in both
// directions to the nearest candidates, and goes on only if it outranks both. At most every
// second candidate does, so there are at most log₂ n + 1 phases of 2n messages. A candidate that
// receives its own rank is the last and leads. The paper's members never crash. Here a new round
// replaces a phase that a crash has broken.
package franklin

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// The message: a candidate's rank on its way to the next candidate.
const kindRank election.MessageKind = "franklin"

// bid is the content of a message, in [election.Message.Data].
type bid struct {
	Rank  election.Rank
	Phase int
	Up    bool // goes to higher ranks, and from the highest to the lowest
	Hops  int  // members that it has reached
}

// The timer of a round: it takes too long.
const timerRound = "round"

// Franklin is the state of a member.
type Franklin struct {
	order []election.ID // of the ring; nil: by rank

	round  uint64 // the newest seen
	open   bool   // the round goes on, according to this member
	stands bool   // this member is still a candidate in it
	phase  int
	bids   []bid // of this phase and later phases, not compared yet
}

// New returns the algorithm of a member. order is the order of the ring, the same for every
// member; without it the ring is by rank.
func New(order ...election.ID) *Franklin { return &Franklin{order: order} }

// Name returns "franklin".
func (f *Franklin) Name() string { return "franklin" }

// Kinds returns the kinds of messages that it adds to batuta's own.
func (f *Franklin) Kinds() []election.MessageKind { return []election.MessageKind{kindRank} }

// Step handles an event.
func (f *Franklin) Step(ev election.Event, out election.Actions) {
	switch ev.Kind {
	case election.Started, election.LeaderLost, election.Campaign:
		if !f.open {
			f.begin(out)
		}
	case election.PeerDown, election.Withdrawn:
		if f.open && !out.Leader().Defined() {
			f.begin(out) // messages to pass on may be lost
		}
	case election.TimerFired:
		f.open = false
		if !out.Leader().Defined() {
			f.begin(out)
		}
	case election.Received:
		f.receive(ev.Message, out)
	case election.LeaderElected:
		f.rest(out)
		if ev.Token.Leader.ID == out.Self().ID {
			announce(out)
		}
	}
}

// begin opens a round above all that this member has seen. The number includes the highest
// epoch, so a member that has just started is not behind.
func (f *Franklin) begin(out election.Actions) {
	if out.Eligible(out.Self().ID) {
		f.join(max(f.round, out.Highest()<<8)+1, out)
	}
}

// join takes part in a round, as a candidate if this member is eligible.
func (f *Franklin) join(round uint64, out election.Actions) {
	f.round, f.open, f.phase, f.bids = round, true, 1, nil
	// Up to half the ring passes until all have joined. The candidates' distances, which at
	// least double, add up to 2n. Meanwhile links are made.
	hop := out.Timing().TMax + out.Timing().TProcess
	out.SetTimer(timerRound, time.Duration(3*len(out.Members()))*hop+out.Timing().DialTime())
	if f.stands = out.Eligible(out.Self().ID); f.stands {
		f.bid(out)
	}
}

// bid sends this member's rank in both directions.
func (f *Franklin) bid(out election.Actions) {
	if f.neighbor(true, out) == election.None {
		f.win(out) // no further member is alive
		return
	}
	for _, up := range []bool{true, false} {
		f.send(bid{Rank: out.Self(), Phase: f.phase, Up: up}, out)
	}
}

func (f *Franklin) send(b bid, out election.Actions) {
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // a bid can always be encoded
	}
	out.Send(f.neighbor(b.Up, out), election.Message{Kind: kindRank, Round: election.Round{Number: f.round}, Data: data})
}

// neighbor returns the nearest member in a direction that is not down, or None.
func (f *Franklin) neighbor(up bool, out election.Actions) election.ID {
	ring := f.order
	if ring == nil {
		for _, r := range out.Members() {
			ring = append(ring, r.ID)
		}
	}
	n, me := len(ring), slices.Index(ring, out.Self().ID)
	for i := 1; i < n && me >= 0; i++ {
		at := (me + i) % n
		if !up {
			at = (me - i + n) % n
		}
		if !out.Down(ring[at]) {
			return ring[at]
		}
	}
	return election.None
}

func (f *Franklin) receive(m *election.Message, out election.Actions) {
	switch m.Kind {
	case election.Coordinator:
		out.Accept(m.Token, m.From)
	case kindRank:
		var b bid
		if json.Unmarshal(m.Data, &b) != nil || b.Hops >= len(out.Members()) {
			return // no bid, or the bid of a dead member, which would circulate forever
		}
		f.receiveBid(b, m, out)
	}
}

func (f *Franklin) receiveBid(b bid, m *election.Message, out election.Actions) {
	out.Vouch(m.From) // its link to the leader may be all that is down
	switch {
	case m.Round.Number > f.round:
		f.join(m.Round.Number, out)
	case m.Round.Number < f.round && !f.open && !out.Leader().Defined():
		f.begin(out) // its sender has only seen an earlier round
		return
	case m.Round.Number < f.round || !f.open:
		return // late
	}
	if b.Hops++; !f.stands {
		f.send(b, out) // on to the next candidate
		return
	}
	f.bids = append(f.bids, b)
	f.compare(out)
}

// compare goes on as soon as a bid has come from both sides.
func (f *Franklin) compare(out election.Actions) {
	up, down := f.take(true), f.take(false)
	switch {
	case up < 0 || down < 0:
		return // not yet
	case f.bids[up].Rank == out.Self() && f.bids[down].Rank == out.Self():
		f.win(out) // both have gone round: no further candidate is left
	case f.bids[up].Rank.Above(out.Self()) || f.bids[down].Rank.Above(out.Self()):
		f.stands = false
		for _, b := range f.bids {
			if b.Phase > f.phase {
				f.send(b, out) // it is ahead, and no longer for this member
			}
		}
		f.bids = nil
	default:
		f.phase++
		f.bid(out)
		f.compare(out) // the neighbors may be ahead
	}
}

// take returns the index of this phase's bid in a direction, -1 if it has not come.
func (f *Franklin) take(up bool) int {
	for i, b := range f.bids {
		if b.Phase == f.phase && b.Up == up {
			return i
		}
	}
	return -1
}

// win claims leadership, unless a leader is alive after all.
func (f *Franklin) win(out election.Actions) {
	switch leader := out.Leader(); {
	case leader.Leader.ID == out.Self().ID:
		f.rest(out)
		announce(out)
	case leader.Defined():
		f.rest(out) // a lower leader lives: the Machine asks it to hand over
	default:
		out.Claim() // LeaderElected follows when the epoch is on disk; else the timer
	}
}

func (f *Franklin) rest(out election.Actions) {
	f.open, f.bids = false, nil
	out.CancelTimer(timerRound)
}

// announce sends the leader to all members.
func announce(out election.Actions) {
	for _, r := range out.Members() {
		if r != out.Self() && !out.Down(r.ID) {
			out.Send(r.ID, election.Message{Kind: election.Coordinator, Token: out.Leader()})
		}
	}
}
