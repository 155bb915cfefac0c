package explore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// untimedState is a cluster at a point of a search, without time: what was done, what is on its
// way and which faults may still come. A reached state is never changed. Its successors share the
// parts that they do not change.
type untimedState struct {
	machines   []*local // nil: dead
	disks      []election.Token
	told       []election.Token // each member's leader, as announced to its watchers
	floor      []uint64         // the least epoch that a member which only started must exceed in a claim; 0: none
	pipes      [][]*envelope
	suspicions uint64 // from·n + of: from suspects of falsely
	crashes    int8   // how many more there may be
	restarts   int8
	faults     int8 // false suspicions, and timers before messages
	starts     int8 // elections on request of a user
	asked      bool // some of faults has been spent
}

// goodbye in a pipe is the end of the connection: the process is dead, or the dial was refused.
var goodbye = &envelope{}

// untimed is the space of members that are machines without a detector. It has no time.
type untimed struct {
	cluster
	store *store
	own   bool // a member holds only its own rounds, so each may be renumbered separately
}

// instant is the only time of a search.
var instant = time.Unix(0, 0).UTC()

func newUntimed(k cluster) (*untimed, error) {
	if _, ok := k.fresh().(election.Explorable); !ok {
		return nil, fmt.Errorf("algorithm %s cannot be explored: it is no election.Explorable", k.c.Algorithm)
	}
	k.verbs, k.spelled = untimedVerbs, "deliver, fire, crash, restart, campaign, suspect, trust and beat"
	return &untimed{cluster: k, store: &store{locals: map[string]*local{}, envelopes: map[string]*envelope{}}, own: k.c.OwnRounds}, nil
}

func (x *untimed) fork() space[*untimedState] {
	y := *x
	return &y
}

// first returns the initial state: all follow the highest member, and nothing is on its way.
func (x *untimed) first() (*untimedState, *invariant.Violation) {
	top := election.Token{Epoch: 1, Leader: x.ranks[x.n-1]}
	c := &untimedState{
		machines: make([]*local, x.n), disks: make([]election.Token, x.n),
		told: make([]election.Token, x.n), floor: make([]uint64, x.n), pipes: make([][]*envelope, x.n*x.n),
		crashes: int8(x.c.Crashes), restarts: int8(x.c.Restarts), faults: int8(x.c.Suspicions), starts: int8(x.c.Initiators),
	}
	for i := range c.disks {
		c.disks[i] = top
	}
	for i := range x.n { // the leader last: it sends to the rest
		if v := x.boot(c, i, machine.Config{Following: top, Incarnation: 1}); v != nil {
			return c, v
		}
	}
	for !c.quiet() {
		for link, pipe := range c.pipes {
			if len(pipe) > 0 {
				next, v := x.after(c, move{kind: deliverHead, a: uint8(link / x.n), b: uint8(link % x.n)})
				if v != nil {
					return c, v
				}
				c = next
				break
			}
		}
	}
	return c, nil
}

func (x *untimed) boot(c *untimedState, i int, config machine.Config) *invariant.Violation {
	config.Self, config.Members, config.Algorithm, config.NoDetector = x.ranks[i], x.members, x.fresh(), true
	if x.log != nil {
		config.Trace = x.record
	}
	m, err := machine.New(config)
	if err != nil {
		return x.broken(i, invariant.Driver, "%v", err)
	}
	return x.follow(c, i, x.steps(i, m, cause{kind: election.Started}))
}

func (x *untimed) record(r election.Record) {
	if r.What != "sends" && r.What != "receives" {
		x.write(trace.Entry{Member: r.Member, What: r.What, Peer: r.Peer, Token: r.Token, Why: r.Why})
	}
}

// quiet reports whether no message is on its way.
func (c *untimedState) quiet() bool {
	return !slices.ContainsFunc(c.pipes, func(pipe []*envelope) bool { return len(pipe) > 0 })
}

// step steps a member and applies the effect to the state.
func (x *untimed) step(c *untimedState, i int, cs cause) *invariant.Violation {
	return x.follow(c, i, x.effectOf(c.machines[i], cs))
}

// key appends the canonical form: all that decides what may follow. Epochs and rounds count from
// the lowest in use.
func (x *untimed) key(c *untimedState, b []byte) []byte {
	var rounds [16]uint64
	base := x.bases(c, &rounds)
	b = append(b, byte(c.crashes), byte(c.restarts), byte(c.faults), byte(c.starts), flag(c.asked))
	b = binary.LittleEndian.AppendUint64(b, c.suspicions)
	for i, m := range c.machines {
		b = appendToken(b, c.disks[i], base)
		if m == nil {
			b = append(b, 0)
			continue
		}
		b = appendToken(append(b, 1), c.told[i], base)
		b = election.AppendRelative(b, max(c.floor[i], base), base)
		b = append(b, m.form(base, rounds[i])...)
	}
	for _, pipe := range c.pipes {
		b = append(b, byte(len(pipe)))
		for _, l := range pipe {
			b = append(b, l.form(base, rounds[l.initiator])...)
		}
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// mostLate is how many rounds a restarted member is expected to begin, at most, while a message of
// its earlier process is on its way.
const mostLate = 4

// bases returns the lowest epoch in use and finds each initiator's lowest round. That is 0 while a
// member may begin to count at 0: its next round is then not relative to the rounds of others.
func (x *untimed) bases(c *untimedState, rounds *[16]uint64) uint64 {
	epoch := uint64(1<<64 - 1)
	lower := func(to *uint64, n uint64) {
		if n > 0 && (*to == 0 || n < *to) {
			*to = n
		}
	}
	for i, m := range c.machines {
		lower(&epoch, c.disks[i].Epoch)
		if m != nil {
			lower(&epoch, m.epoch)
			lower(&rounds[i], m.round)
		}
	}
	for _, pipe := range c.pipes {
		for _, l := range pipe {
			lower(&epoch, l.epoch)
			if l.m != nil {
				lower(&rounds[l.initiator], l.m.Round.Number)
			}
		}
	}
	if !x.own { // a member may hold rounds of any member: a common base
		lowest := uint64(0)
		for _, r := range rounds {
			lower(&lowest, r)
		}
		for i := range rounds {
			rounds[i] = lowest
		}
	}
	for i, m := range c.machines {
		switch {
		case c.restarts == 0 && (m == nil || m.round > 0):
		case !x.own:
			clear(rounds[:])
		case m == nil || m.round == 0:
			rounds[i] = 0
		default: // it may restart, or go on forever
			rounds[i] -= min(rounds[i], mostLate)
		}
	}
	return epoch
}
