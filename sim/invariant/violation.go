package invariant

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/sim/scenario"
)

// Violation is a broken rule: who broke it, when and how.
type Violation struct {
	Rule   string        // which, as a sentence
	Member election.ID   // who
	At     time.Duration // since the start
	What   string        // what it did
	Replay string        // the command that shows it again; empty when the caller knows
}

func (v *Violation) Error() string {
	s := fmt.Sprintf("[%s] member %s breaks the rule %q: %s", scenario.Stamp(v.At), v.Member, v.Rule, v.What)
	if v.Replay != "" {
		s += "\nreplay: " + v.Replay
	}
	return s
}

// The rules.
const (
	Monotone  = "the token never decreases at a running member, nor across an intact file"
	Once      = "a token is claimed once, by the member that it names"
	Claimed   = "a member's leader is one that has claimed that token, or undefined"
	Lost      = "every leadership is lost, once, before the next begins"
	Tells     = "a leader has lost its lead before it sends what gives the lead away"
	Saved     = "a token is on disk before any message or watcher is told of it"
	Lower     = "nothing is done for a COORDINATOR or beat with a lower token"
	Stalled   = "who was stopped for longer than T loses its leadership before it says anything"
	Asked     = "who starts claims above what every member it can reach has on disk"
	Takeover  = "nobody claims while a leader leads whom it hears, or for whom somebody can vouch"
	Stands    = "nobody leads who only follows, or is unhealthy"
	Work      = "nobody leads again while its earlier work runs"
	OneEpoch  = "in calm an epoch names one leader"
	Overlap   = "nobody begins to lead while another's work runs, but after a crash, a freeze or a broken link between the two"
	Skip      = "epochs follow each other, but for those of claims given up before they were saved"
	Bounded   = "queues and messages are bounded"
	Rest      = "a cluster does not run in circles without time passing"
	Driver    = "a Machine asks its driver only for what can be done"
	Converges = "once faults stop, every connected group of live members agrees, in bounded time, on its highest rank that stands"
	Member    = "nobody follows or leads who is no member as far as it knows"
	OneList   = "once faults stop, every connected group of live members comes to one list, and who was removed has gone"
	Endless   = "agreement lasts while nothing happens"
	Panic     = "a Machine never panics"
)

// OrNone is a leadership as violations write it.
func OrNone(t election.Token) string {
	if !t.Defined() {
		return "none"
	}
	return t.String()
}
