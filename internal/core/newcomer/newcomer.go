// Package newcomer has how a process asks to be admitted to a cluster, before its core is started. It
// is a part of both cores, and pure: a driver asks.
package newcomer

import (
	"errors"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Backoff bounds the pause between two rounds of asking to be admitted.
const Backoff = time.Second

// Newcomer is how a process asks to be admitted to a cluster: each member through which it may join
// at once, round after round, until each has answered. Its Machine starts after the first round,
// knowing what that has brought. So a newcomer to a running cluster never claims before it knows of
// the leader, and the first member of all waits for none.
//
// The driver asks; what the answers mean is decided here. The zero value is ready.
type Newcomer struct {
	begun    bool // the Machine has been started
	admitted bool // a member has admitted it
	best     *Admission
	fatal    error // why a member has refused it, in this round
	pause    time.Duration
}

// Admission is what a newcomer receives from the member that admits it: the member list and, if
// that member follows any, the leadership, received Age ago.
type Admission struct {
	List  []election.Member
	Token election.Token
	Age   time.Duration
}

// BeginRound begins a round of asking.
func (n *Newcomer) BeginRound() { n.best, n.fatal = nil, nil }

// Answered handles an answer of a round: an admission, a refusal, or (both nil) none. It reports
// whether that member need not be asked again.
func (n *Newcomer) Answered(in *Admission, refusal error) bool {
	switch {
	case in != nil && n.best == nil:
		n.best = in
	case in != nil:
		if in.Token.Above(n.best.Token) {
			n.best, in = in, n.best
		}
		n.best.List = slices.Concat(n.best.List, in.List)
	case refusal == nil, errors.Is(refusal, election.ErrSameID), errors.Is(refusal, election.ErrOldIncarnation), errors.Is(refusal, election.ErrTooManyJoins):
		return false // that passes
	default:
		n.fatal = refusal
	}
	return true
}

// RoundOver ends a round. It returns what to step the Machine with, if anything. A refusal that
// only a user can fix is fatal for a newcomer that no member has admitted; met: it knows the
// cluster without that, because a member has taken its connection.
func (n *Newcomer) RoundOver(met bool) (ev election.Event, step bool, fatal error) {
	best, refusal := n.best, n.fatal
	n.admitted = n.admitted || best != nil
	if refusal != nil && !n.admitted && !met {
		return ev, false, refusal
	}
	step = !n.begun || best != nil
	ev.Kind = election.JoinAccepted
	if !n.begun {
		ev.Kind = election.Started
	}
	n.begun = true
	if best != nil {
		ev.List, ev.Token, ev.Age = best.List, best.Token, best.Age
	}
	return ev, step, nil
}

// Returned takes in that a single member, asked for it by a Rejoin, has admitted it.
func (n *Newcomer) Returned(in *Admission) election.Event {
	n.admitted = true
	return election.Event{Kind: election.JoinAccepted, List: in.List, Token: in.Token, Age: in.Age}
}

// Pause is how long to wait before the next round: a heartbeat, then twice as long each
// time, a second at most.
func (n *Newcomer) Pause(t election.Timing) time.Duration {
	pause := n.pause
	if pause == 0 {
		pause = t.Heartbeat
	}
	n.pause = min(2*pause, Backoff)
	return pause
}

// Again starts over, with every address, because the Machine asks for it (Rejoin).
func (n *Newcomer) Again() { n.pause = 0 }

// Admitted reports whether a member has admitted it.
func (n *Newcomer) Admitted() bool { return n.admitted }

// Begun reports whether the Machine has been started.
func (n *Newcomer) Begun() bool { return n.begun }
