package named

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// EpochBits is by how much the coordinator's epoch is shifted in a name's.
const EpochBits = 24

// maxEpoch bounds a name's epoch. The coordinator's is at most 2^53: an epoch above 2^38, which
// no cluster of honest members reaches, is not used for names.
const maxEpoch = 1 << 62

// Core is a member with all its named elections. See the package's comment.
type Core struct {
	machine.Core
	*member
	started bool
	office  *office // nil: this member does not coordinate
	elected bool    // this member does, from the next step on
	former  *former // the last coordinator that has resigned
	beats   beatClock
}

// Change is a change of what this member sees of a name: Token leads it, or has ceased to, by
// Cause.
type Change struct {
	Name  string
	Seat  int
	Token election.Token // its Leader has an id alone
	Lost  bool
	Cause election.Cause
	Gone  bool // it has no candidate any more; Token is zero if it had no leader
}

// New gives the Core around own, which c has set up. About partBytes of a list of names go in a
// message.
func New(own machine.Core, c machine.Config, partBytes int) *Core {
	g := newGround(own, c, partBytes)
	return &Core{Core: own, member: newMember(g), former: &former{ground: g, closed: map[election.ID]uint64{}}}
}

// Step handles an event and returns what to do about it, in order, after what Changes returns.
// Both are valid until the next call that returns actions.
func (c *Core) Step(now time.Time, ev election.Event) []election.Action {
	c.begin(now)
	msg, named := ev.Message, false
	if ev.Kind == election.Received {
		c.hears(msg)
		if named = msg.Kind == election.Named; named {
			ev = election.Event{Kind: election.Woke, Peer: msg.From}
		}
	}
	c.forward(&ev)
	switch {
	case named:
		c.follow()
		c.receive(msg)
	case ev.Kind == election.Received && msg.Kind == election.Ack && c.office != nil && same(c.coordinator(), c.office.token):
		c.office.acked(msg)
	}
	return c.finish()
}

// begin begins a step: what has ended by time ends first.
func (c *Core) begin(now time.Time) {
	clear(c.out) // the messages are not kept
	c.out, c.changes, c.replies = c.out[:0], reused(c.changes), c.replies[:0]
	if now.Before(c.now) {
		now = c.now
	}
	c.last, c.now = c.now, now
	if c.origin.IsZero() {
		c.origin, c.last = now, now
	}
	c.expire()
	if c.office != nil && c.now.Sub(c.last) > c.timing.Bears() {
		c.office.stalled()
	}
	if c.leased && c.now.Sub(c.last) >= c.timing.T() { // stopped, or its clock was set ahead, and little time has passed
		c.former.epoch = 0
		if c.office != nil {
			c.office.since = c.now
			c.office.stalled()
		}
	}
}

// wake begins a step that is a user's: what time has brought is known first.
func (c *Core) wake(now time.Time) {
	c.begin(now)
	if c.started {
		c.forward(&election.Event{Kind: election.Woke})
		c.follow()
	}
}

// forward steps the member's own core.
func (c *Core) forward(ev *election.Event) {
	c.started = c.started || ev.Kind == election.Started
	c.closes = c.closes || ev.Kind == election.Closing
	if o := c.office; ev.Kind == election.LinkUp && o != nil && o.peers[ev.Peer] != nil {
		p := o.peers[ev.Peer]
		p.echo = 0 // another process may be connected now: it has a time of its own
		if ev.Incarnation < p.asked.incarnation {
			p.asked = asked{} // it began where the clock was set back
		}
	}
	actions := c.Core.Step(c.now, *ev)
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case election.Notify:
			if c.office != nil && a.Member != c.self {
				c.office.stateOf(a.Member, a.Status)
			}
		case election.Send:
			a.Message = c.share(a.To, a.Message)
		}
		c.out = append(c.out, actions[i])
	}
}

// finish ends a step: it follows a change of coordinator, and sends what has changed.
func (c *Core) finish() []election.Action {
	c.follow()
	c.due()
	c.answerEarly()
	c.look()
	if !c.flushAt.IsZero() && !c.now.Before(c.flushAt) {
		c.flush()
	}
	c.informClosed()
	return c.out
}

// Changes are what the last step has changed, in order.
func (c *Core) Changes() []Change { return c.changes }

// Flush sends at once what has changed.
func (c *Core) Flush(now time.Time) []election.Action {
	c.wake(now)
	c.flush()
	return c.out
}

// Deadline is when to step it next.
func (c *Core) Deadline() (time.Time, bool) {
	at, ok := c.Core.Deadline()
	wake := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	wake(c.flushAt)
	if c.elected {
		wake(c.now)
	}
	if c.leading > 0 || c.sees && !c.view.Defined() {
		wake(c.until)
	}
	wake(c.retryAt)
	if c.office != nil {
		wake(c.office.checkAt)
	}
	return at, ok
}

// coordinator is the member that coordinates, as far as this member knows. A leader of the
// cluster goes on until its own work has stopped: no member may begin before that, unless another
// has superseded it.
func (c *Core) coordinator() election.Token {
	if v := c.View(); v.Defined() || c.office == nil {
		return v
	}
	if m, ok := c.Core.(interface{ LeadsUntilItsWorkStops() bool }); ok && m.LeadsUntilItsWorkStops() {
		return c.office.token
	}
	if l, ok := c.Core.(machine.Leaser); ok && c.now.Before(l.Guard()) {
		return c.office.token
	}
	return election.Token{}
}

// follow records which member coordinates.
func (c *Core) follow() {
	now := c.coordinator()
	if now.Leader.ID == c.self {
		c.until = c.now.Add(c.hold)
	}
	if same(now, c.view) {
		if c.elected {
			c.elected = false
			c.office = newOffice(c.member, c.former, now)
		}
		c.refit()
		return
	}
	c.view = now
	c.office, c.whole, c.elected = nil, parcel{}, false
	for _, number := range slices.Sorted(maps.Keys(c.requests)) {
		c.replies = append(c.replies, Reply{number, "another coordinates the elections since it was asked: try again", Unanswered})
	}
	clear(c.requests)
	c.member.reset()
	switch {
	case !now.Defined():
	case now.Leader.ID == c.self:
		c.elected = true // it takes office in the next step: the members first receive that it leads
	default:
		c.reportAnew()
	}
	c.refit()
}

// refit finds out whether this member may lead.
func (c *Core) refit() {
	if c.checkFit() && c.office != nil {
		c.office.reconsider(c.office.me)
	}
}

// due does what its time has come for.
func (c *Core) due() {
	if c.office != nil && c.passed(c.office.checkAt) {
		c.office.check()
	}
	if c.passed(c.retryAt) {
		c.reportAll() // it has not been answered
	}
}

// flush sends what has changed.
func (c *Core) flush() {
	c.flushAt, c.flushed = time.Time{}, c.now
	if c.office == nil {
		c.report()
		return
	}
	full := c.office.full
	if c.office.flush(); c.office.full && !full {
		c.forward(&election.Event{Kind: election.Resigned})
	}
}

// receive takes a frame in.
func (c *Core) receive(m *election.Message) {
	if !c.Knows(m.From) || m.From == c.self || m.Election != c.election {
		return
	}
	f, err := decode(m.Data)
	switch {
	case err != nil:
	case f.Op == opClosed:
		c.former.closed[m.From] = f.Incarnation
		if c.office != nil {
			c.office.settle()
		}
	case !same(m.Token, c.view): // late, or early: the sender repeats it
	case c.office != nil:
		c.office.receive(m.From, f)
		if f.Op == opRequest && f.Request != nil && !c.office.peers[m.From].asked.repeats(f) {
			c.asks(m.From, f)
		}
	case m.From == c.view.Leader.ID:
		c.handle(f)
	}
}

// share adds the part about named elections to a heartbeat, an acknowledgement or a
// resignation. All but an acknowledgement may go to several members: this member's is a copy.
func (c *Core) share(to election.ID, m *election.Message) *election.Message {
	switch {
	case m.Kind == election.Beat && c.office != nil && same(m.Token, c.office.token):
		c.beats.ticks(m, c.now)
		p := c.office.peers[to]
		if p == nil || !c.office.confirms(p) || p.reported && p.names == 0 && len(c.names) == 0 && c.version == 1 {
			return m // nothing is shared, and nothing was
		}
		out := *m
		out.Shares = &election.Shares{Echo: p.echo, Version: c.version, Digest: c.digest}
		return &out
	case m.Kind == election.Ack && same(m.Token, c.view) && to == c.view.Leader.ID:
		if len(c.campaigns)+len(c.holds)+len(c.names) == 0 {
			return m // no member uses them
		}
		m.Shares = &election.Shares{Stamp: c.stamp()}
		if c.welcomed {
			m.Shares.Version = c.reported
		}
	case m.Kind == election.Resign && c.office != nil && c.leased && same(m.Token, c.office.token):
		out := *m
		out.Data = c.office.remains().encode()
		return &out
	}
	return m
}

// hears applies that part of a heartbeat or a resignation.
func (c *Core) hears(m *election.Message) {
	switch {
	case m.Kind == election.Resign:
		c.former.hears(m)
	case m.Kind == election.Beat && same(m.Token, c.view) && m.From == c.view.Leader.ID:
		c.beats.ticks(m, c.now)
		s := m.Shares
		if s == nil {
			return
		}
		c.vouched(s.Echo)
		if c.welcomed && (s.Version != c.version || s.Digest != c.digest) {
			c.ask()
		} else if c.welcomed {
			c.ordered() // while there is time: a new coordinator begins with it
		}
	}
}
