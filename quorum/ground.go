package quorum

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// ground is below every part of a member: the configuration, the time and the actions of
// the present Step, and chance. It knows no part.
type ground struct {
	cfg       machine.Config
	algorithm *Algorithm
	timing    election.Timing
	t         time.Duration // T
	random    *rand.Rand
	still     bool // see Still

	now     time.Time // of the current or last Step
	last    time.Time // of the Step before
	origin  time.Time // of the first Step; stamps count from it
	out     []election.Action
	started bool
	halted  bool
}

func newGround(a *Algorithm, c machine.Config) *ground {
	c.Election = cmp.Or(c.Election, "default")
	g := &ground{cfg: c, algorithm: a, timing: c.Timing.WithDefaults(), random: rand.New(rand.NewPCG(c.Seed, c.Incarnation))}
	g.t = g.timing.T()
	return g
}

// passed reports whether a time is set and has come.
func (c *ground) passed(at time.Time) bool { return !at.IsZero() && !c.now.Before(at) }

// do returns an action from this Step.
func (c *ground) do(a election.Action) { c.out = append(c.out, a) }

func (c *ground) note(what string, about election.ID, t election.Token, why string) {
	if c.cfg.Trace != nil {
		c.cfg.Trace(election.Record{At: c.now, Member: c.cfg.Self.ID, Election: c.cfg.Election, What: what, Peer: about, Token: t, Why: why})
	}
}

// stamp returns this member's own time for heartbeats, in nanoseconds since its start, plus 1.
func (c *ground) stamp() int64 { return int64(c.now.Sub(c.origin)) + 1 }

// between returns a random time from 0 to d.
func (c *ground) between(d time.Duration) time.Duration {
	if d <= 0 || c.still {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(d)))
}

// Still makes equal events lead to equal states. This member takes the shortest of every random
// pause, except after a vote without a winner, when its pause depends on its number. It checks which member
// should lead at each heartbeat, does not redial unreachable members, and does not pursue changes
// of the members. It is called before the first Step; the member's health must not change
// afterwards.
func (c *ground) Still() { c.still = true }

// Self returns the rank of this member.
func (c *ground) Self() election.Rank { return c.cfg.Self }

// own returns this member as the list has it.
func (c *ground) own() election.Member {
	return election.Member{Rank: c.cfg.Self, Address: c.cfg.Address, Observer: c.cfg.Observer}
}

// quiet is raft's logger. It drops all messages, for the trace shows the same, and panics when raft
// gives up.
type quiet struct{}

func (quiet) Debug(...any)              {}
func (quiet) Debugf(string, ...any)     {}
func (quiet) Error(...any)              {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Info(...any)               {}
func (quiet) Infof(string, ...any)      {}
func (quiet) Warning(...any)            {}
func (quiet) Warningf(string, ...any)   {}
func (quiet) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
