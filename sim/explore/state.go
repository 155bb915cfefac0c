package explore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/machine"
	"github.com/batuta-dev/batuta/sim/invariant"
	"github.com/batuta-dev/batuta/sim/scenario"
	"github.com/batuta-dev/batuta/sim/trace"
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

// moveKind is what may happen in a state.
type moveKind uint8

const (
	deliverHead  moveKind = iota + 1 // the oldest message from a to b arrives
	fireTimer                        // a's timer of that name runs out
	crashMember                      // a dies
	startMember                      // a returns with its file
	suspectPeer                      // a's detector wrongly says that b is down
	trustPeer                        // and takes it back
	beatPeer                         // a leads and beats to b, who has another leader
	callElection                     // a's user asks for a contest
)

type move struct {
	kind moveKind
	a, b uint8
	no   uint8 // of the timer, among local.timers
}

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

func (x *explorer) broken(i int, rule, format string, args ...any) *invariant.Violation {
	return &invariant.Violation{Rule: rule, Member: x.ranks[i].ID, At: x.ticks, What: fmt.Sprintf(format, args...)}
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

// moves appends all that may happen next.
func (x *explorer) moves(c *state, to []move) []move {
	quiet := c.quiet()
	for link, pipe := range c.pipes {
		if len(pipe) > 0 {
			to = append(to, move{kind: deliverHead, a: uint8(link / x.n), b: uint8(link % x.n)})
		}
	}
	for i, m := range c.machines {
		a := uint8(i)
		if m == nil {
			if c.restarts > 0 {
				to = append(to, move{kind: startMember, a: a})
			}
			continue
		}
		if quiet || c.faults > 0 {
			for no := range m.timers {
				to = append(to, move{kind: fireTimer, a: a, no: uint8(no)})
			}
		}
		if c.crashes > 0 {
			to = append(to, move{kind: crashMember, a: a})
		}
		if c.starts > 0 {
			to = append(to, move{kind: callElection, a: a})
		}
		to = x.suspecting(c, i, quiet, to)
	}
	return to
}

// suspecting adds what a's detector may do. Beats and second thoughts come when
// nothing else is left to happen: they put a false suspicion right in the end.
func (x *explorer) suspecting(c *state, i int, quiet bool, to []move) []move {
	for j, m := range c.machines {
		if m == nil && quiet && c.told[i].Leader.ID == x.ranks[j].ID {
			to = append(to, move{kind: suspectPeer, a: uint8(i), b: uint8(j)}) // rightly
		}
		if j == i || m == nil {
			continue
		}
		suspected := c.suspicions>>(i*x.n+j)&1 == 1
		if !suspected && c.faults > 0 {
			to = append(to, move{kind: suspectPeer, a: uint8(i), b: uint8(j)})
		}
		if suspected && quiet {
			to = append(to, move{kind: trustPeer, a: uint8(i), b: uint8(j)})
		}
		if quiet && c.told[i].Leader.ID == x.ranks[i].ID && c.told[j] != c.told[i] {
			to = append(to, move{kind: beatPeer, a: uint8(i), b: uint8(j)})
		}
	}
	return to
}

// after is the state that a move leads to, and the rule it breaks, if it does.
func (x *explorer) after(c *state, mv move) (*state, *invariant.Violation) {
	next := *c
	next.machines, next.disks = slices.Clone(c.machines), slices.Clone(c.disks)
	next.told, next.floor = slices.Clone(c.told), slices.Clone(c.floor)
	next.pipes = slices.Clone(c.pipes)
	x.ticks += time.Millisecond
	return &next, x.do(&next, mv)
}

func (x *explorer) do(c *state, mv move) *invariant.Violation {
	a, b := int(mv.a), int(mv.b)
	switch mv.kind {
	case deliverHead:
		return x.arrive(c, a, b)
	case fireTimer:
		if !c.quiet() {
			c.faults, c.asked = c.faults-1, true
		}
		name := c.machines[a].timers[mv.no]
		x.note(a, "timer runs out:", name)
		return x.step(c, a, cause{kind: election.TimerFired, name: name})
	case crashMember:
		x.crash(c, a)
	case startMember:
		return x.restart(c, a)
	case suspectPeer:
		if c.machines[b] != nil {
			c.faults, c.asked = c.faults-1, true
			c.suspicions |= 1 << (a*x.n + b)
		}
		x.note(a, "is told that it is down:", string(x.ranks[b].ID))
		return x.step(c, a, cause{kind: election.PeerDown, peer: x.ranks[b].ID})
	case trustPeer:
		c.suspicions &^= 1 << (a*x.n + b)
		x.note(a, "is told that it is up:", string(x.ranks[b].ID))
		return x.step(c, a, cause{kind: election.PeerUp, peer: x.ranks[b].ID})
	case callElection:
		c.starts--
		x.note(a, "is asked to call an election", "")
		return x.step(c, a, cause{kind: election.Campaign})
	case beatPeer:
		x.push(c, a, b, x.store.envelope(x, &election.Message{Kind: election.Beat, Election: "default", From: x.ranks[a].ID,
			To: x.ranks[b].ID, Token: c.told[a], Highest: c.told[a].Epoch}))
	}
	return nil
}

func (x *explorer) crash(c *state, a int) {
	x.note(a, "crashes", "")
	c.crashes--
	c.machines[a], c.told[a] = nil, election.Token{}
	clear(c.floor) // who has been asked may be gone
	for j := range x.n {
		c.suspicions &^= 1<<(a*x.n+j) | 1<<(j*x.n+a)
		c.pipes[j*x.n+a] = nil
		if j != a && c.machines[j] != nil {
			x.push(c, a, j, goodbye)
		}
	}
}

func (x *explorer) restart(c *state, a int) *invariant.Violation {
	x.note(a, "starts", "")
	incarnation := uint64(2 + x.c.Restarts - int(c.restarts))
	c.restarts--
	c.floor[a] = 0
	for j, m := range c.machines {
		if m != nil {
			c.floor[a] = max(c.floor[a], c.disks[j].Epoch)
		}
	}
	return x.boot(c, a, machine.Config{Incarnation: incarnation,
		State: election.State{ID: x.ranks[a].ID, Incarnation: incarnation - 1, Token: c.disks[a]}})
}

func (x *explorer) push(c *state, from, to int, m *envelope) {
	pipe := c.pipes[from*x.n+to]
	c.pipes[from*x.n+to] = append(pipe[:len(pipe):len(pipe)], m)
}

func (x *explorer) arrive(c *state, from, to int) *invariant.Violation {
	link := from*x.n + to
	l := c.pipes[link][0]
	msg := l.m
	c.pipes[link] = c.pipes[link][1:]
	if c.machines[to] == nil {
		return nil
	}
	if l == goodbye {
		return x.step(c, to, cause{kind: election.PeerDown, peer: x.ranks[from].ID})
	}
	c.suspicions &^= 1 << (to*x.n + from)
	if x.log != nil {
		x.log(trace.Entry{At: x.ticks, Member: msg.To, What: "receives", Peer: msg.From, Token: msg.Token, Message: msg})
	}
	announces := msg.Kind == election.Coordinator || msg.Kind == election.Beat
	lower := announces && msg.Token.Defined() && c.told[to].Above(msg.Token)
	before := c.told[to]
	v := x.step(c, to, cause{kind: election.Received, msg: l})
	if v == nil && lower && c.told[to] != before {
		return x.broken(to, invariant.Lower, "it held %v and acts on a %s of %v", before, msg.Kind, msg.Token)
	}
	return v
}

// step steps a member and does to the state what came of it.
func (x *explorer) step(c *state, i int, cs cause) *invariant.Violation {
	return x.follow(c, i, x.effectOf(c.machines[i], cs))
}

func (x *explorer) follow(c *state, i int, e *effect) (v *invariant.Violation) {
	c.machines[i] = e.to
	if len(e.actions) > 90 {
		return x.broken(i, invariant.Rest, "it saves again and again")
	}
	if e.wrong != "" {
		return x.broken(i, invariant.Phases, "%s", e.wrong)
	}
	for k := range e.actions {
		switch a := &e.actions[k]; a.kind {
		case election.NotifyElected, election.NotifyLost:
			v = x.elected(c, i, a)
		case election.Save:
			v = x.saves(c, i, a.token)
		case election.Send:
			v = x.sends(c, i, a)
		}
		if v != nil {
			return v
		}
	}
	return nil
}

func (x *explorer) saves(c *state, i int, t election.Token) *invariant.Violation {
	if c.disks[i].Above(t) {
		return x.broken(i, invariant.Monotone, "its disk has %v and it saves %v", c.disks[i], t)
	}
	if t.Leader == x.ranks[i] && t != c.disks[i] && c.floor[i] >= t.Epoch && !c.asked {
		return x.broken(i, invariant.Asked, "it claims %v, and a member that it could ask had epoch %d when it started", t, c.floor[i])
	}
	c.disks[i] = t
	return nil
}

func (x *explorer) elected(c *state, i int, a *act) *invariant.Violation {
	old := c.told[i]
	if a.kind == election.NotifyLost {
		c.told[i] = election.Token{}
		if a.token != old || !old.Defined() {
			return x.broken(i, invariant.Lost, "it loses %v while its leader is %v", a.token, old)
		}
		return nil
	}
	c.told[i], c.floor[i] = a.token, 0
	leader := slices.Index(x.ranks, a.token.Leader)
	switch {
	case leader < 0:
		return x.broken(i, invariant.Claimed, "it tells of a leader who is no member")
	case old.Defined():
		return x.broken(i, invariant.Lost, "it tells of %v and has not lost %v", a.token, old)
	case a.token.Above(c.disks[i]):
		return x.broken(i, invariant.Saved, "it tells of %v and its disk has %v", a.token, c.disks[i])
	case c.disks[i].Above(a.token):
		return x.broken(i, invariant.Monotone, "its disk has %v and it tells of %v", c.disks[i], a.token)
	case a.token.Above(c.disks[leader]):
		return x.broken(i, invariant.Claimed, "it follows %v, which nobody has claimed", a.token)
	}
	return nil
}

func (x *explorer) sends(c *state, i int, a *act) *invariant.Violation {
	m, to := a.envelope.m, a.to
	if m.Token.Above(c.disks[i]) {
		return x.broken(i, invariant.Saved, "it sends a %s of %v and its disk has %v", m.Kind, m.Token, c.disks[i])
	}
	if x.log != nil {
		x.log(trace.Entry{At: x.ticks, Member: m.From, What: "sends", Peer: m.To, Token: m.Token, Message: m})
	}
	if c.machines[to] != nil {
		x.push(c, i, to, a.envelope)
		if len(c.pipes[i*x.n+to]) > 32 {
			return x.broken(i, invariant.Bounded, "32 messages wait on the way to %s", m.To)
		}
		return nil
	}
	back := c.pipes[to*x.n+i]
	if len(back) == 0 || back[len(back)-1] != goodbye {
		x.push(c, to, i, goodbye) // the dial is refused
	}
	return nil
}

// atRest judges a state in which nothing is left to happen by itself.
func (x *explorer) atRest(c *state) *invariant.Violation {
	highest := -1
	for i, m := range c.machines {
		if m != nil {
			highest = i
		}
	}
	for i, m := range c.machines {
		if m != nil && c.told[i].Leader != x.ranks[highest] || m != nil && c.told[i] != c.told[highest] {
			return x.broken(i, invariant.Converges, "nothing is left to happen, and its leader is %s, not %s", invariant.OrNone(c.told[i]), x.ranks[highest].ID)
		}
	}
	return nil
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
