// Package ballot decides whether a member may lead: it asks every member, and each answers
// with a promise or a refusal. It is a part of the next best-effort core. Nodes run
// internal/core/machine until that core holds more than it does; nothing runs this package yet.
//
// A candidate asks all members of its list at the same time. A refusal ends the ballot. The
// candidate leads when each member has promised, is gone, or has been silent for as long as
// its answer may take, and when the epoch is on disk. So two members that reach each other
// never both win: both are asked, and a member that promises ends its own ballot.
//
// The package has no clock and sends nothing: its owner passes the time and delivers what it
// returns.
package ballot

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Question asks a member for its promise. With epoch 0 it asks only which member leads.
type Question struct {
	Number uint64         // of the ballot: its asker never uses a number twice
	Token  election.Token // the leadership that the candidate would begin
	Hold   time.Duration  // how long a promise is to last at most
}

// Query reports whether the question has no candidate.
func (q Question) Query() bool { return q.Token.Epoch == 0 }

// Answer is what a member returns to a question, with all that it has detected.
type Answer struct {
	Number  uint64         // of the question
	Reason  Reason         // of the refusal; Granted is a promise
	Wait    time.Duration  // after which the reason may be over; 0: an event ends it
	Highest uint64         // the highest epoch that the member has seen or promised
	Follows election.Token // the leadership that it follows, if any
	Age     time.Duration  // since it last received from that leader itself
	Rank    election.Rank  // its own
	Stands  bool           // it is a candidate
}

// Outcome is how far a ballot is.
type Outcome uint8

// Outcomes.
const (
	Open     Outcome = iota // answers or the disk are awaited
	Won                     // this member leads; after a query: no leader was found
	Refused                 // Result.By refuses, because of Result.Answer
	TimedOut                // too few answers for a founding, or the promises may have ended
)

// Result is the outcome, with what decided it.
type Result struct {
	Outcome Outcome
	By      election.ID // the member that refuses
	Answer  Answer      // its answer
}

// Peer is a member to ask.
type Peer struct {
	ID   election.ID
	Wait time.Duration // how long its answer may take
	Gone bool          // its process has ended
}

// Ballot is a member's part in all ballots: what it has asked itself, and the promise that it
// has given. It never has both. It is not safe for concurrent use.
type Ballot struct {
	self    election.ID
	timeout time.Duration // T
	number  uint64        // of the last ballot of ours

	own     Question // of the ballot that is open; Number 0: none is
	opened  time.Time
	answers int // how many a founding needs, ours included
	saved   bool
	voters  []voter

	promise Question // Number 0: none
	to      election.ID
	until   time.Time
}

// voter is a member that was asked.
type voter struct {
	id       election.ID
	state    state
	wait     time.Duration
	deadline time.Time
	again    bool // its link broke once: the deadline moves no more
	answer   Answer
}

type state uint8

const (
	waiting state = iota
	answered
	gone
	silent
)

// New returns the ballot of a member without promises. timeout is T.
func New(self election.ID, timeout time.Duration) Ballot {
	return Ballot{self: self, timeout: timeout}
}

// Clone returns an independent copy.
func (b *Ballot) Clone() Ballot {
	c := *b
	c.voters = slices.Clone(b.voters)
	return c
}

// Running returns the question of the ballot that is open.
func (b *Ballot) Running() (Question, bool) { return b.own, b.own.Number != 0 }

// Promised returns the member that has this member's promise.
func (b *Ballot) Promised(now time.Time) (election.ID, bool) {
	return b.to, b.promise.Number != 0 && now.Before(b.until)
}

// Open begins a ballot about token among peers; epoch 0 is a query. A founding needs a number of
// answers, this member's included. The member asks itself first: with a refusal nothing begins.
// Each peer that is not gone is to receive the question, which replaces that of a ballot that is open.
func (b *Ballot) Open(now time.Time, self Situation, token election.Token, peers []Peer, answers int) (Question, Answer) {
	q := Question{Number: b.number + 1, Token: token}
	if own := b.eligible(now, self, q); own.Reason != Granted {
		return Question{}, own
	}
	var voters []voter
	var longest time.Duration
	for _, p := range peers {
		if p.ID == b.self {
			continue
		}
		v := b.ask(now, p)
		longest = max(longest, v.wait)
		voters = append(voters, v)
	}
	q.Hold = 2*longest + b.timeout // an answer may be awaited twice, and the outcome has to arrive
	b.number, b.own, b.opened, b.answers, b.voters = q.Number, q, now, answers, voters
	b.saved = q.Query()
	return q, Answer{}
}

// ask returns a voter with its time to answer. The bound keeps promises within maxHold.
func (b *Ballot) ask(now time.Time, p Peer) voter {
	v := voter{id: p.ID, wait: min(max(p.Wait, 0), (maxHold-1)*b.timeout/2)}
	if v.deadline = now.Add(v.wait); p.Gone {
		v.state = gone
	}
	return v
}

// Saved notes that the epoch of the open ballot is on disk.
func (b *Ballot) Saved(epoch uint64) { b.saved = b.saved || epoch >= b.own.Token.Epoch }

// Receive notes an answer. A later answer replaces the former; an answer to a former ballot counts nothing.
func (b *Ballot) Receive(from election.ID, a Answer) {
	v := b.voter(from)
	if v == nil || a.Number != b.own.Number {
		return
	}
	a.Wait, a.Age = min(max(a.Wait, 0), maxHold*b.timeout), max(a.Age, 0)
	v.state, v.answer = answered, a
}

// Gone notes that the process of a member has ended: it neither answers nor needs its promise.
func (b *Ballot) Gone(id election.ID) {
	if v := b.voter(id); v != nil {
		v.state = gone
	}
	b.release(id)
}

// Up notes a new connection to a member of the list, which may have lost what was sent: the
// question is to be sent to it, also where it has answered or its process is new. Its time
// for the answer begins again once. A link that breaks more often does not hold up the ballot.
func (b *Ballot) Up(now time.Time, p Peer) (Question, bool) {
	if b.own.Number == 0 || p.ID == b.self {
		return Question{}, false
	}
	v := b.voter(p.ID)
	if v == nil {
		b.voters = append(b.voters, b.ask(b.opened, p))
		v = &b.voters[len(b.voters)-1]
	}
	if !v.again {
		last := b.opened.Add(b.own.Hold - b.timeout)
		v.again, v.deadline = true, later(v.deadline, earlier(now.Add(v.wait), last))
	}
	v.state, v.answer = waiting, Answer{}
	return b.own, true
}

// Drop takes a member that has left the list out of the ballot.
func (b *Ballot) Drop(id election.ID) {
	b.voters = slices.DeleteFunc(b.voters, func(v voter) bool { return v.id == id })
	b.release(id)
}

// Deadline returns when Result may change without an event.
func (b *Ballot) Deadline() (at time.Time, ok bool) {
	if b.own.Number == 0 {
		return time.Time{}, false
	}
	at = b.limit()
	for _, v := range b.voters {
		if v.state == waiting {
			at = earlier(at, v.deadline)
		}
	}
	return at, true
}

// limit is when the ballot ends at the latest. Each promise outlives it by T/2, in which the
// outcome arrives: promises were given after the ballot was opened.
func (b *Ballot) limit() time.Time { return b.opened.Add(b.own.Hold - b.timeout/2) }

// Answers returns what each member has answered to the open ballot.
func (b *Ballot) Answers() map[election.ID]Answer {
	all := map[election.ID]Answer{}
	for _, v := range b.voters {
		if v.state == answered {
			all[v.id] = v.answer
		}
	}
	return all
}

// Withdraw ends the open ballot. Each member of the list may hold a promise for it, and is to
// receive Withdrawn.
func (b *Ballot) Withdraw() (q Question, to []election.ID) {
	q = b.own
	for _, v := range b.voters {
		if v.state != gone && !(v.state == answered && v.answer.Reason != Granted) {
			to = append(to, v.id)
		}
	}
	b.close()
	return q, to
}

// Withdrawn ends the promise given to a member for the ballot with that number.
func (b *Ballot) Withdrawn(from election.ID, number uint64) {
	if b.promise.Number == number {
		b.release(from)
	}
}

// Decided ends each promise and ballot that a leadership leaves without object: those of its
// leader, and those that are not above it.
func (b *Ballot) Decided(t election.Token) {
	if !b.promise.Token.Above(t) {
		b.promise = Question{}
	}
	b.release(t.Leader.ID)
	if !b.own.Query() && !b.own.Token.Above(t) {
		b.close()
	}
}

func (b *Ballot) close() { b.own, b.voters = Question{}, nil }

func (b *Ballot) release(id election.ID) {
	if b.to == id {
		b.promise = Question{}
	}
}

func (b *Ballot) voter(id election.ID) *voter {
	if b.own.Number == 0 {
		return nil
	}
	if i := slices.IndexFunc(b.voters, func(v voter) bool { return v.id == id }); i >= 0 {
		return &b.voters[i]
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
