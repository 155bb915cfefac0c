package explore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// state is a whole cluster at one point of a search: no time, only what is done,
// what is on its way and what may yet go wrong. A state is not changed once it
// has been reached; its successors share what they leave alone.
type state struct {
	machines   []*local // nil: dead
	disks      []election.Token
	told       []election.Token // each one's leader, as its watchers know it
	floor      []uint64         // what a member that has only started must claim above; 0: nothing
	pipes      [][]*envelope
	suspicions uint64 // from·n + of: from falsely counts of as down
	crashes    int8   // how many more there may be
	restarts   int8
	faults     int8 // false suspicions, and timers ahead of messages
	starts     int8 // contests that a user asks for
	asked      bool // one of faults has been spent
}

// goodbye in a pipe is the end of the connection: the process is gone, or the
// dial was refused.
var goodbye = &envelope{}

// explorer knows what all states have in common.
type explorer struct {
	c       Config
	n       int
	ranks   []election.Rank
	members []election.Member
	fresh   func() election.Algorithm
	store   *store
	own     bool // a member holds no rounds but its own: each may shift by itself
	log     func(trace.Entry)
	ticks   time.Duration // of the log, a millisecond a move
}

// instant is the only time there is in a search.
var instant = time.Unix(0, 0).UTC()

func newExplorer(maker scenario.Maker, c Config, ranks []election.Rank) (*explorer, error) {
	fresh, err := maker(c.Algorithm, c.Option)
	if err != nil {
		return nil, err
	}
	if _, ok := fresh().(machine.CoreMaker); ok {
		return nil, fmt.Errorf("algorithm %s cannot be walked through: its states are kept as ways to them; batuta sim explore searches them", c.Algorithm)
	}
	if _, ok := fresh().(election.Explorable); !ok {
		return nil, fmt.Errorf("algorithm %s cannot be explored: it is no election.Explorable", c.Algorithm)
	}
	x := &explorer{c: c, n: len(ranks), ranks: ranks, fresh: fresh, store: newStore(), own: c.OwnRounds}
	for _, r := range ranks {
		x.members = append(x.members, election.Member{Rank: r, Address: string(r.ID)})
	}
	return x, nil
}

// first is the state that a search begins with: all follow the highest, and
// nothing is on its way.
func (x *explorer) first() (*state, *invariant.Violation) {
	top := election.Token{Epoch: 1, Leader: x.ranks[x.n-1]}
	c := &state{
		machines: make([]*local, x.n), disks: make([]election.Token, x.n),
		told: make([]election.Token, x.n), floor: make([]uint64, x.n), pipes: make([][]*envelope, x.n*x.n),
		crashes: int8(x.c.Crashes), restarts: int8(x.c.Restarts), faults: int8(x.c.Suspicions), starts: int8(x.c.Initiators),
	}
	for i := range c.disks {
		c.disks[i] = top
	}
	for i := range x.n { // the leader last: it speaks to the others
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

func (x *explorer) boot(c *state, i int, config machine.Config) *invariant.Violation {
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

func (x *explorer) record(r election.Record) {
	if r.What != "sends" && r.What != "receives" {
		x.log(trace.Entry{At: x.ticks, Member: r.Member, What: r.What, Peer: r.Peer, Token: r.Token, Why: r.Why})
	}
}

func (x *explorer) note(i int, what, why string) {
	if x.log != nil {
		x.log(trace.Entry{At: x.ticks, Member: x.ranks[i].ID, What: what, Why: why, Fault: true})
	}
}

// quiet says that no message is on its way.
func (c *state) quiet() bool {
	for _, pipe := range c.pipes {
		if len(pipe) > 0 {
			return false
		}
	}
	return true
}

// step steps a member and does to the state what came of it.
func (x *explorer) step(c *state, i int, cs cause) *invariant.Violation {
	return x.follow(c, i, x.effectOf(c.machines[i], cs))
}

// key appends the canonical form: all that decides what may follow, with epochs
// and rounds counted from the lowest in use.
func (x *explorer) key(c *state, b []byte) []byte {
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

func (x *explorer) index(id election.ID) int {
	for i := range x.ranks {
		if x.ranks[i].ID == id {
			return i
		}
	}
	return 0
}

// bases finds the lowest epoch in use and each initiator's lowest round.
func (x *explorer) bases(c *state, rounds *[16]uint64) uint64 {
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
	if !x.own { // a member may hold others' rounds: one base for all
		lowest := uint64(0)
		for _, r := range rounds {
			lower(&lowest, r)
		}
		for i := range rounds {
			rounds[i] = lowest
		}
	}
	return epoch
}
