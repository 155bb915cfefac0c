package named

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has what a user of this member does.

// Stand is a name of which a member is a candidate, and how.
type Stand struct {
	Name string
	Candidacy
}

// Campaign makes this member a candidate of elections. They have been checked.
func (c *Core) Campaign(now time.Time, stands ...Stand) []election.Action {
	c.wake(now)
	for _, s := range stands {
		c.campaigns[s.Name] = s.Candidacy
		c.touch(s.Name)
	}
	return c.finish()
}

// Full reports whether this member may not be a candidate for a further name, with so many new
// names.
func (c *Core) Full(name string, others int) bool {
	_, mine := c.campaigns[name]
	return !mine && c.names[name] == nil && max(len(c.names), len(c.campaigns))+others >= MaxElections
}

// Withdraw ends its candidacy for some names; it hands over those of them that it leads.
func (c *Core) Withdraw(now time.Time, names ...string) []election.Action {
	c.wake(now)
	for _, name := range names {
		delete(c.campaigns, name)
		c.touch(name)
		if h := c.holds[name]; h != nil {
			c.lose(name, h, election.CauseResigned)
		}
	}
	return c.finish()
}

// Resign hands names over, each to a further candidate if there is any.
func (c *Core) Resign(now time.Time, names ...string) []election.Action {
	c.wake(now)
	for _, name := range names {
		if h := c.holds[name]; h != nil && !h.over {
			h.resigns = true
			c.lose(name, h, election.CauseResigned)
		}
	}
	return c.finish()
}

// Begin records that the user's work has begun for names that this member leads.
func (c *Core) Begin(now time.Time, names []string) []election.Action {
	for _, name := range names {
		if h := c.holds[name]; h != nil {
			h.working = true // before anything ends by time
		}
	}
	c.wake(now)
	return c.finish()
}

// Stopped records that the user's work for names has all stopped.
func (c *Core) Stopped(now time.Time, names []string) []election.Action {
	c.wake(now)
	for _, name := range names {
		if h := c.holds[name]; h != nil {
			if h.working = false; h.over {
				c.gaveUp(name, h)
			}
		}
	}
	return c.finish()
}

// Request passes a request to the coordinator. The number is that of the Reply, which may come
// at once, and never if the coordinator ceases to coordinate.
func (c *Core) Request(now time.Time, r Request) (number uint64, actions []election.Action) {
	c.wake(now)
	if c.elected {
		c.follow()
	}
	c.number++
	if c.office == nil && !c.view.Defined() {
		c.replies = append(c.replies, Reply{c.number, c.uncoordinated(), RefusedNotLeading})
		return c.number, c.finish()
	}
	c.requests[c.number] = true
	q := question{from: c.self, asked: asked{c.incarnation, c.number}, Request: r}
	if r.Within > 0 {
		q.until = c.now.Add(r.Within)
	}
	if c.office != nil {
		c.consider(q)
		return c.number, c.finish()
	}
	if at, ok := c.beats.read(c.view, now); ok && r.Within > 0 {
		q.Until = at + int64(r.Within)
	}
	c.send(c.view.Leader.ID, &frame{Op: opRequest, Stamp: c.stamp(), Number: c.number, Incarnation: c.incarnation, Request: &q.Request})
	return c.number, c.finish()
}

// act steps the member's own core as a request asks for it.
func (c *Core) act(v verdict) {
	if v.act.Kind != 0 {
		c.forward(&v.act)
	}
}

// maxEarly is how many requests of a member wait at most for the reports of members.
const maxEarly = 64

// question is a request that the coordinator has received.
type question struct {
	from election.ID
	asked
	Request
	until time.Time // refused after that; zero: it has no end
}

// asks takes in a request of another member.
func (c *Core) asks(from election.ID, f *frame) {
	q := question{from: from, asked: asked{f.Incarnation, f.Number}, Request: *f.Request}
	if at, ok := c.beats.read(c.view, c.now); ok && q.Until != 0 {
		q.until = c.now.Add(time.Duration(q.Until - at))
	}
	c.consider(q)
}

// consider answers a request, or has it wait: one that depends on the reports of members waits until
// these have arrived. So does the end of a drain: the drain may wait.
func (c *Core) consider(q question) {
	o, do := c.office, q.Do
	switch p := o.who(q.from); {
	case o.settled || do != DoTransfer && do != DoDrain && do != DoUndrain:
		c.answer(q)
	case p.early < maxEarly:
		p.early++
		o.early = append(o.early, q)
	default:
		c.reply(q, refused(RefusedOther, "%d requests by member %s wait already until the members have reported to the new coordinator, %s: try again in a moment", maxEarly, q.from, c.self))
	}
}

// answer does what a request asks for.
func (c *Core) answer(q question) {
	v := refused(RefusedNotLeading, "the request came too late: nothing was done")
	if q.until.IsZero() || !c.now.After(q.until) {
		v = c.office.answer(q.Request)
	}
	c.reply(q, v) // before it steps down
	c.act(v)
}

// reply sends an answer.
func (c *Core) reply(q question, v verdict) {
	f := &frame{Op: opReply, Incarnation: q.incarnation, Number: q.number, Error: v.Error, Why: v.Why}
	if q.from == c.self {
		c.handle(f)
	} else {
		c.send(q.from, f)
	}
}

// answerEarly answers the requests that have waited for the reports of members.
func (c *Core) answerEarly() {
	if c.office == nil || !c.office.settled {
		return
	}
	waited := c.office.early
	c.office.early = nil
	for _, q := range waited {
		c.answer(q)
	}
}

// uncoordinated returns what there has to be first.
func (c *Core) uncoordinated() string {
	why := "no member coordinates the elections while the cluster has no leader: try again when it has one"
	if s := c.Standing(); s != election.Eligible {
		why += fmt.Sprintf("; this member is no candidate (%s)", s)
	}
	return why
}

// Replies are those that the last step has brought.
func (c *Core) Replies() []Reply { return c.replies }

// Moving is how many seats this member, as the coordinator, has asked their leaders to release.
func (c *Core) Moving() int {
	if c.office == nil {
		return 0
	}
	return c.office.moving
}
