// Package electortest is the conformance kit of [batuta.Elector]. A call checks whether
// candidates keep its promises, also on a user's own engine. A failure names the promise.
package electortest

import (
	"context"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
)

// Patience is how long the kit waits for what must come. Nothing is required to be faster.
const Patience = time.Minute

// Candidates is an election without candidates at first, and the faults that it supports.
type Candidates struct {
	// Start starts a candidate. The ids are "1", "2" and "3". A candidate that was closed may be
	// started again. The kit closes what it starts.
	Start func(id batuta.ID) Candidate
	// Cut disconnects a candidate from the rest, or from the engine, until heal is called. Nil:
	// not tested.
	Cut func(id batuta.ID) (heal func())
	// Fail stops all answers of the store of the election, until mend is called. Nil: there is
	// no store.
	Fail func() (mend func())
	// OneLeader requires that two never lead at once, even when a candidate is cut off.
	OneLeader bool
}

// Candidate is an Elector that can be shut down: it hands over when its work has returned, and
// ends.
type Candidate interface {
	batuta.Elector
	Shutdown(ctx context.Context) error
}

// Run checks the candidates that fresh sets up, with new candidates for each promise.
func Run(t *testing.T, fresh func(t *testing.T) Candidates) {
	t.Helper()
	RunIn(t, func(t *testing.T, f func(*testing.T)) { t.Helper(); f(t) }, fresh)
}

// RunIn is Run with each promise checked within a call of in, such as [testing/synctest.Test].
func RunIn(t *testing.T, in func(t *testing.T, f func(*testing.T)), fresh func(t *testing.T) Candidates) {
	t.Helper()
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				c := &crew{t: t, Candidates: fresh(t), members: map[batuta.ID]*member{}}
				defer c.close()
				p.check(c)
			})
		})
	}
}

// promises are what every Elector keeps.
var promises = []struct {
	name  string
	check func(*crew)
}{
	{"one leads and all see it", oneLeads},
	{"who resigns keeps the lead until its work has stopped", resigning},
	{"work that returns gives the lead away", returning},
	{"a Lead whose context ends returns when its work has", cancelling},
	{"a lead that was acquired is kept until it is released", acquiring},
	{"a request keeps its token, and the next leader waits for it", holding},
	{"who closes hands over, and nothing runs after", closing},
	{"every watcher sees every view in order", watching},
	{"a leader that is cut off leads no more when another does", cutOff},
	{"when nobody answers nobody leads", failing},
}
