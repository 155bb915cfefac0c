package named

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// What a user may ask of the coordinator, through any member.
const (
	DoTransfer = "transfer" // hand Name over to Member
	DoDrain    = "drain"    // move everything away from Member, and keep it away; Force: also what nobody else stands for
	DoUndrain  = "undrain"  // end that
)

// Request is something that a user asks of the coordinator.
type Request struct {
	Do     string      `cbor:"1,keyasint"`
	Name   string      `cbor:"2,keyasint,omitempty"`
	Member election.ID `cbor:"3,keyasint,omitempty"`
	Force  bool        `cbor:"4,keyasint,omitempty"`
}

func (r Request) check() error {
	if r.Name != "" {
		if _, err := Name(r.Name); err != nil {
			return err
		}
	}
	if len(r.Do) > 64 || !election.Printable(r.Do, 64) {
		return errors.New("a request that does not print")
	}
	return election.CheckIDs(r.Member)
}

// Reply is what has come of a request: nothing wrong if Error is empty.
type Reply struct {
	Number uint64
	Error  string
}

// Request has the coordinator asked. The number is that of the Reply, which may come at
// once, and never if the coordinator ceases to be one.
func (c *Core) Request(now time.Time, r Request) (number uint64, actions []election.Action) {
	c.wake(now)
	if c.elected {
		c.follow()
	}
	c.number++
	switch {
	case c.office != nil:
		c.replies = append(c.replies, Reply{c.number, c.office.answer(r)})
	case !c.view.Defined():
		c.replies = append(c.replies, Reply{c.number, c.uncoordinated()})
	default:
		c.requests[c.number] = true
		c.send(c.view.Leader.ID, &frame{Op: opRequest, Stamp: c.stamp(), Number: c.number, Request: &r})
	}
	return c.number, c.finish()
}

// uncoordinated says what there has to be first.
func (c *Core) uncoordinated() string {
	why := "nobody coordinates the elections while the cluster has no leader: try again when it has one"
	if s := c.Core.Standing(); s != election.Eligible {
		why += fmt.Sprintf("; this member does not stand to be it (%s)", s)
	}
	return why
}

// Forget gives up waiting for a reply.
func (m *member) Forget(number uint64) { delete(m.requests, number) }

// Replies are those that the last step has brought.
func (c *Core) Replies() []Reply { return c.replies }

// answer does what a user asks, and says why not.
func (o *office) answer(r Request) string {
	switch r.Do {
	case DoTransfer:
		return o.transfer(r.Name, r.Member)
	case DoDrain:
		return o.drain(r.Member, r.Force)
	case DoUndrain:
		return o.undrain(r.Member)
	}
	return fmt.Sprintf("the coordinator, %s, does not know how to %s: it runs an earlier version", o.c.self, r.Do)
}

// transfer hands a name over to a member.
func (o *office) transfer(name string, to election.ID) string {
	k := o.contests.byName[name]
	switch {
	case k == nil:
		return fmt.Sprintf("no election %q", name)
	case !o.c.Knows(to):
		return fmt.Sprintf("%s is no member of this cluster", to)
	case k.candidate(o.who(to)) == nil || !k.candidate(o.who(to)).stands:
		return fmt.Sprintf("member %s does not stand for election %q", to, name)
	case o.c.isDrained(to):
		return fmt.Sprintf("member %s is drained: end that first", to)
	case !o.fit(to):
		return fmt.Sprintf("member %s cannot lead now", to)
	}
	var least *seat
	for _, s := range k.seats {
		if s.leader == to {
			return ""
		}
		if s.index < k.want && (least == nil || s.leader == election.None) {
			least = s
		}
	}
	if least == nil {
		least = k.seat(0)
	}
	least.to, least.pin = to, true
	o.release(k, least, "it is transferred to "+string(to))
	o.lookAt(k)
	return ""
}

// drain keeps a member from leading anything.
func (o *office) drain(id election.ID, force bool) string {
	if !o.c.Knows(id) {
		return fmt.Sprintf("%s is no member of this cluster", id)
	}
	if alone := o.aloneIn(id); len(alone) > 0 && !force {
		more := ""
		if len(alone) > 1 {
			more = fmt.Sprintf(" and %d more elections", len(alone)-1)
		}
		return fmt.Sprintf("only member %s could lead %s%s: start another that stands for what it does, or force the drain, and nobody leads that", id, slices.Min(alone), more)
	}
	if forced, drained := o.c.drained[id]; !drained || force && !forced {
		list := o.c.forcedList()
		if force {
			list = append(list, id)
		}
		o.c.drain(append(o.c.drainedList(), id), list)
		o.drains = true
	}
	o.uneven = true
	o.c.flushSoon()
	return ""
}

// aloneIn are the elections that nobody would lead if that member did not stand.
func (o *office) aloneIn(id election.ID) (names []string) {
	o.refit()
	for name, k := range o.contests.byName {
		if o.contests.alone(k, o.who(id)) {
			names = append(names, name)
		}
	}
	return names
}

func (o *office) undrain(id election.ID) string {
	if !o.c.isDrained(id) {
		return ""
	}
	others := func(list []election.ID) []election.ID {
		return slices.DeleteFunc(list, func(m election.ID) bool { return m == id })
	}
	o.c.drain(others(o.c.drainedList()), others(o.c.forcedList()))
	o.drains, o.uneven = true, true
	if p := o.who(id); p != nil {
		o.reconsider(p)
	}
	o.c.flushSoon()
	return ""
}
