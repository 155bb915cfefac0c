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

// This file searches cores that measure time themselves. Messages may take any order, but no
// time. When nothing is left to deliver, time passes up to the next moment at which a member has
// something to do. A false suspicion arises from a member that is stopped and goes on, at any
// moment within longestStop times T.

// timedState is a cluster at a point of a search. A reached cluster is never changed.
type timedState struct {
	members                  []*moment
	pipes                    [][]parcel // from·n + to
	linked                   uint64     // a·n + b: a has a link to b
	stopped                  uint64
	pause                    time.Duration    // how long a member has been stopped
	led                      []election.Token // the leader of each epoch, as far as announced
	crashes, restarts, stops int8
}

// longestStop is how many times T a member is stopped, at most. Nothing depends on what is more
// than 2·T ago, and a member that is alone meanwhile repeats its requests forever.
const longestStop = 4

// parcel is a message on its way, or the end of the connection.
type parcel struct {
	m   *timedMessage // nil: the end
	age time.Duration // since its stamp
}

// timed is the space of members that measure time.
type timed struct {
	cluster
	store *pasts
	met   *aloneness
	t     time.Duration
}

func newTimed(k cluster) (*timed, error) {
	if k.c.Initiators > 0 {
		return nil, fmt.Errorf("algorithm %s: its searches have no initiators: a call for an election is refused while there is a leader", k.c.Algorithm)
	}
	k.verbs, k.spelled = timedVerbs, "deliver, pass, crash, restart, freeze and thaw"
	x := &timed{cluster: k, t: election.Timing{}.WithDefaults().T(), met: &aloneness{}}
	core, err := x.fresh().(machine.CoreMaker).NewCore(x.config(0, nil, 1))
	if err != nil {
		return nil, err
	}
	if _, ok := core.(timedCore); !ok {
		return nil, fmt.Errorf("algorithm %s cannot be explored: its core is none that can be compared", k.c.Algorithm)
	}
	x.store = &pasts{x: x, moments: map[digest]*moment{}, messages: map[string]*timedMessage{}}
	return x, nil
}

func (x *timed) config(i int, disk [][]byte, life uint64) machine.Config {
	c := machine.Config{Self: x.ranks[i], Address: x.members[i].Address, Members: x.members, Algorithm: x.fresh(), Incarnation: life, Seed: uint64(i), Records: disk}
	if x.log != nil {
		c.Trace = func(r election.Record) {
			x.write(trace.Entry{Member: r.Member, What: r.What, Peer: r.Peer, Token: r.Token, Why: r.Why})
		}
	}
	return c
}

func (x *timed) boot(i int, p *past) (*instance, error) {
	core, err := x.fresh().(machine.CoreMaker).NewCore(x.config(i, p.disk, p.cause.life))
	if err != nil {
		return nil, err
	}
	core.(timedCore).Still()
	return &instance{core: core.(timedCore), origin: instant, now: instant, disk: p.disk}, nil
}

// event returns a cause as an event of this instance. A stamp is a time of the instance's own
// leadership, or a stamp that it returns to its leader.
func (x *timed) event(at *instance, c timedCause) election.Event {
	switch c.kind {
	case itStarts:
		return election.Event{Kind: election.Started}
	case linkUp:
		return election.Event{Kind: election.LinkUp, Peer: x.ranks[c.peer].ID, Rank: x.ranks[c.peer], Incarnation: c.life}
	case linkDown:
		return election.Event{Kind: election.LinkDown, Peer: x.ranks[c.peer].ID}
	case dialFailed:
		return election.Event{Kind: election.DialFailed, Peer: x.ranks[c.peer].ID, Refused: c.refused}
	case itHears:
		m := *c.m.m
		switch m.Kind {
		case election.Beat:
			m.Stamp = int64(at.now.Sub(at.origin) + stampBias - c.age)
		case election.Ack:
			m.Stamp = int64(at.now.Sub(at.origin)-c.age) + 1
		case at.core.Awaits():
			at.votes += digestOf(append([]byte(m.From), m.Data...))[0]
		}
		return election.Event{Kind: election.Received, Message: &m}
	default:
		return election.Event{Kind: election.Woke}
	}
}

func (x *timed) fork() space[*timedState] {
	y := *x
	return &y
}

// first returns the initial state: a member has led for a while. That is not logged.
func (x *timed) first() (*timedState, *invariant.Violation) {
	x.silent = true
	defer func() { x.silent = false }()
	c := &timedState{members: make([]*moment, x.n), pipes: make([][]parcel, x.n*x.n)}
	for i := range c.members {
		c.members[i] = &moment{self: i, dead: true, next: map[timedCause]*timedEffect{}}
	}
	r := &round{x: x, c: c}
	for i := range c.members {
		r.start(i)
		r.settle()
	}
	for passed := time.Duration(0); passed < 3*x.t && r.broken == nil; {
		mv := x.reduced(c, x.moves(c, nil))[0]
		if mv.kind == passTime {
			passed += c.next()
		}
		r.do(mv)
	}
	c.crashes, c.restarts, c.stops = int8(x.c.Crashes), int8(x.c.Restarts), int8(x.c.Suspicions)
	return c, r.broken
}

func (c *timedState) clone() *timedState {
	d := *c
	d.members, d.pipes = slices.Clone(c.members), slices.Clone(c.pipes)
	return &d
}

func (x *timed) after(c *timedState, mv move) (*timedState, *invariant.Violation) {
	x.ticks += time.Millisecond
	r := &round{x: x, c: c.clone()}
	r.do(mv)
	return r.c, r.broken
}

func (c *timedState) isStopped(i int) bool { return c.stopped>>i&1 == 1 }

// runs reports whether a member handles events.
func (c *timedState) runs(i int) bool { return !c.members[i].dead && !c.isStopped(i) }

// next returns how long no member has anything to do.
func (c *timedState) next() time.Duration {
	next := never
	for i, m := range c.members {
		if c.runs(i) {
			next = min(next, m.due)
		}
	}
	return max(next, 0)
}

// moves appends all that may happen next.
func (x *timed) moves(c *timedState, to []move) []move {
	quiet := true
	for link, pipe := range c.pipes {
		if len(pipe) > 0 && c.runs(link%x.n) {
			to, quiet = append(to, move{kind: deliverHead, a: uint8(link / x.n), b: uint8(link % x.n)}), false
		}
	}
	for i, m := range c.members {
		a := uint8(i)
		switch {
		case m.dead && c.restarts > 0:
			to = append(to, move{kind: startMember, a: a})
		case !m.dead && c.isStopped(i):
			to = append(to, move{kind: wakeMember, a: a})
		case !m.dead && c.stops > 0:
			to = append(to, move{kind: stopMember, a: a})
		}
		if !m.dead && c.crashes > 0 {
			to = append(to, move{kind: crashMember, a: a})
		}
	}
	if quiet && c.next() != never && c.pause < longestStop*x.t {
		to = append(to, move{kind: passTime})
	}
	return to
}

func (x *timed) timers(*timedState, int) []string { return nil }

// rests is never so: time never ends.
func (x *timed) rests(*timedState, []move) bool { return false }

func (x *timed) atRest(*timedState) *invariant.Violation { return nil }

func (x *timed) tooFar(*timedState) bool { return false }

// mayBeTold returns the leaderships that a member may still announce, and those after them. A
// member that announced an earlier epoch than before would itself break a rule.
func (x *timed) mayBeTold(c *timedState) []election.Token {
	least := c.members[0].held
	for _, m := range c.members {
		least = min(least, m.held)
	}
	i := slices.IndexFunc(c.led, func(t election.Token) bool { return t.Epoch >= least })
	if i < 0 {
		return nil
	}
	return c.led[i:]
}

// long is the age beyond which age has no effect: a lease counted from it has ended, and its
// answer is overdue.
func (x *timed) long() time.Duration { return x.t + 1 }

// key appends all that decides what may follow, and what would break a rule.
func (x *timed) key(c *timedState, b []byte) []byte {
	b = append(b, byte(c.crashes), byte(c.restarts), byte(c.stops))
	b = binary.LittleEndian.AppendUint64(b, c.linked)
	b = binary.AppendUvarint(b, c.stopped)
	b = binary.AppendUvarint(b, uint64(c.pause))
	for _, m := range c.members {
		b = binary.LittleEndian.AppendUint32(b, m.number)
	}
	b = x.appendTold(c, b)
	for _, pipe := range c.pipes {
		b = x.appendPipe(pipe, b)
	}
	return b
}

func (x *timed) appendTold(c *timedState, b []byte) []byte {
	for _, t := range x.mayBeTold(c) {
		b = append(binary.AppendUvarint(b, t.Epoch), byte(x.index(t.Leader.ID)))
	}
	return b
}

func (x *timed) appendPipe(pipe []parcel, b []byte) []byte {
	b = append(b, 0xff, byte(len(pipe)))
	for _, p := range pipe {
		if p.m == nil {
			b = append(b, 0)
			continue
		}
		b = append(binary.AppendUvarint(b, uint64(p.m.number)), 0)
		if stamped(p.m.m) {
			b = binary.AppendUvarint(b, uint64(min(p.age, x.long())))
		}
	}
	return b
}
