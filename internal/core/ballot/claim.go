package ballot

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has every condition of a claim: what refuses a candidate, and when its ballot is won.

// maxHold bounds the life of a promise, in T: a candidate asks for no more, and no question binds
// a member longer.
const maxHold = 4

// Reason is why a member refuses. The strongest is given.
type Reason uint8

// Reasons, the strongest first.
const (
	Granted   Reason = iota // a promise
	Unlisted                // the asker is not on this member's list, or its cluster, times or secret differ
	Following               // this member leads, or has received from a live leader
	Working                 // work of a former leadership still runs
	Outranked               // this member is a candidate of higher rank
	Promised                // a higher ballot runs: this member's own, or what it has promised
	Behind                  // a leadership with that epoch or above has been
	Resting                 // this member is no candidate; only it gives that reason, to itself
)

var reasons = [...]string{"granted", "unlisted", "following", "working", "outranked", "promised", "behind", "resting"}

// String is the reason in a word.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown"
}

// Situation is what a member has detected when it answers.
type Situation struct {
	Rank    election.Rank
	Listed  bool           // the asker is a member here: same list, cluster, times and secret
	Highest uint64         // the highest epoch of a leadership that was seen; a ballot's is none
	Follows election.Token // the leadership that has not ended here, if any; our own included
	Age     time.Duration  // since the last message of that leader to this member; 0 of our own
	Working bool           // our work, or that of a leader known to be stopping, still runs
	Stands  bool           // this member is a candidate
	ByRank  bool           // a candidate refuses lower ranks, as in Bully
}

// Reply is an answer and the member that is to receive it.
type Reply struct {
	To election.ID
	Answer
}

// Asked answers a question of a member. A promise ends the ballot that is open here: the members
// in withdrawn are to receive Withdrawn with the number of yielded. It replaces a promise for a
// lower ballot, whose candidate receives a refusal.
func (b *Ballot) Asked(now time.Time, s Situation, from election.ID, q Question) (replies []Reply, yielded Question, withdrawn []election.ID) {
	a := b.answer(now, s, from, q)
	replies = []Reply{{from, a}}
	if q.Query() {
		return replies, Question{}, nil
	}
	b.release(from) // its later question replaces the former
	if a.Reason != Granted {
		return replies, Question{}, nil
	}
	former, before := b.promise, b.to
	_, held := b.Promised(now)
	b.promise, b.to, b.until = q, from, now.Add(min(max(q.Hold, b.timeout), maxHold*b.timeout))
	if held {
		replies = append(replies, Reply{before, b.answer(now, s, before, former)})
	}
	if !b.own.Query() {
		yielded, withdrawn = b.Withdraw()
	}
	return replies, yielded, withdrawn
}

// Reconsider answers the promised question once more, as the member now is. changed reports
// that it refuses: its promise has ended, and the candidate is to receive the reply.
func (b *Ballot) Reconsider(now time.Time, s Situation) (reply Reply, changed bool) {
	to, holds := b.Promised(now)
	if !holds {
		return Reply{}, false
	}
	a := b.answer(now, s, to, b.promise)
	if a.Reason == Granted {
		return Reply{}, false
	}
	b.promise = Question{}
	return Reply{to, a}, true
}

// answer weighs a question without a change of state.
func (b *Ballot) answer(now time.Time, s Situation, from election.ID, q Question) Answer {
	a := Answer{Number: q.Number, Highest: s.Highest, Follows: s.Follows, Age: max(s.Age, 0), Rank: s.Rank, Stands: s.Stands}
	to, holds := b.Promised(now)
	bound := election.Token{} // the highest ballot that binds this member against the asker
	if holds && to != from {
		bound = b.promise.Token
	}
	if !b.own.Query() && from != b.self && b.own.Token.Above(bound) {
		bound = b.own.Token
	}
	a.Highest = max(a.Highest, bound.Epoch)
	switch {
	case !s.Listed:
		a.Reason = Unlisted
	case s.Follows.Defined() && s.Follows.Leader.ID != from && s.Age < b.timeout:
		a.Reason, a.Wait = Following, b.timeout-a.Age
	case s.Working:
		a.Reason = Working
	case q.Query():
		// No candidate, no promise: the rest does not matter.
	case s.Stands && s.ByRank && s.Rank.Above(q.Token.Leader):
		a.Reason, a.Wait = Outranked, b.timeout
	case bound.Above(q.Token):
		a.Reason, a.Wait = Promised, b.timeout
	case s.Highest >= q.Token.Epoch:
		a.Reason = Behind
	}
	return a
}

// eligible is this member's answer to its own question. A promise to a member forbids a
// candidacy whatever its epoch is.
func (b *Ballot) eligible(now time.Time, s Situation, q Question) Answer {
	if q.Query() {
		return Answer{Number: q.Number} // asking which member leads needs nothing
	}
	s.Listed = true
	a := b.answer(now, s, b.self, q)
	if _, holds := b.Promised(now); holds && a.Reason == Granted {
		a.Reason, a.Wait = Promised, b.until.Sub(now)
	}
	if !s.Stands && a.Reason == Granted {
		a.Reason = Resting
	}
	return a
}

// Result is the outcome at now. s is this member's situation: what has changed since the ballot
// was opened counts. A query awaits all answers, a candidacy ends with the first refusal.
func (b *Ballot) Result(now time.Time, s Situation) Result {
	if b.own.Number == 0 {
		return Result{}
	}
	open, count, refusal := !b.saved, 1, Result{}
	for i := range b.voters {
		v := &b.voters[i]
		if v.state == waiting && !now.Before(v.deadline) {
			v.state = silent
		}
		switch {
		case v.state == waiting:
			open = true
		case v.state != answered:
		case v.answer.Reason == Granted:
			count++
		case refusal.Outcome == Open || stronger(v.answer, refusal.Answer):
			refusal = Result{Refused, v.id, v.answer}
		}
	}
	own := b.eligible(now, s, b.own)
	switch {
	case refusal.Outcome == Refused && !(b.own.Query() && open):
		return refusal
	case own.Reason != Granted:
		return Result{Refused, b.self, own}
	case !now.Before(b.limit()): // this process was stopped, or its disk: promises may have ended
		return Result{Outcome: TimedOut}
	case open:
		return Result{}
	case count < b.answers:
		return Result{Outcome: TimedOut}
	}
	return Result{Outcome: Won}
}

// stronger orders refusals; of two leaderships the higher counts.
func stronger(a, than Answer) bool {
	if a.Reason != than.Reason {
		return a.Reason < than.Reason
	}
	return a.Follows.Above(than.Follows)
}
