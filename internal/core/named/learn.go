package named

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has what members receive from the coordinator.

// handle takes in a frame of the coordinator's.
func (c *member) handle(f *frame) {
	c.vouched(f.Echo)
	switch f.Op {
	case opAsk:
		c.reportAll()
	case opSame:
		if f.Digest != c.digest {
			c.ask()
			return
		}
		c.welcome()
		c.table.of, c.version = c.view, f.Version
		c.offers()
	case opAssign:
		c.assigned(f)
	case opRelease:
		for _, s := range f.Seats {
			if h := c.holds[s.Name]; h != nil && h.seat == s.Seat && h.epoch == s.Epoch {
				c.lose(s.Name, h, election.CauseResigned)
			}
		}
	case opReply:
		if c.requests[f.Number] {
			delete(c.requests, f.Number)
			c.replies = append(c.replies, Reply{f.Number, f.Error, f.Why})
		}
	}
}

func (m *member) welcome() { m.welcomed, m.retryAt, m.retries = true, time.Time{}, 0 }

// assigned takes in assignments: those that have changed, or all.
func (c *member) assigned(f *frame) {
	if !f.Whole {
		if !c.welcomed || !same(c.table.of, c.view) || f.Base != c.version {
			if c.welcomed && f.Version > c.version {
				c.ask()
			}
			return
		}
		c.learnAll(f.Seats)
		c.drain(f.Drained, f.Forced)
		c.version = f.Version
		return
	}
	f, fits := c.whole.add(f)
	if !fits {
		c.whole = parcel{}
	}
	if f == nil {
		return
	}
	c.welcome()
	c.install(f.Seats)
	c.drain(f.Drained, f.Forced)
	c.table.of, c.version, c.askedAt = c.view, f.Version, 0
	c.offers()
}

// install takes in all assignments, which are in order.
func (c *member) install(all []Seat) {
	stays := make(map[key]bool, len(all))
	for _, s := range all {
		stays[s.key()] = true
	}
	var gone []Seat
	for _, e := range c.ordered() {
		if !stays[e.key()] {
			s := e.Seat
			s.Gone = true
			gone = append(gone, s)
		}
	}
	if len(gone) > 0 {
		all = append(gone, all...)
	}
	c.learnAll(all)
}

// learnAll applies the assignments of one frame. It forgets resignations only after the last: a later seat
// may be assigned to this member.
func (c *member) learnAll(seats []Seat) {
	for _, s := range seats {
		c.learn(s)
	}
	for i := 0; i < len(seats) && len(c.spent) > 0; i++ {
		c.unspend(seats[i])
	}
}

// learn applies an assignment.
func (c *member) learn(s Seat) {
	h := c.holds[s.Name]
	if h != nil && !h.over && h.seat == s.Seat && (s.Leader != c.self || s.Epoch != h.epoch || s.Gone) {
		c.lose(s.Name, h, election.CauseSuperseded) // and reports it: the coordinator learns of a higher epoch
	}
	k := s.key()
	if s.Gone {
		if e := c.at(k); e != nil {
			c.changes = append(c.changes, Change{Name: k.name, Seat: k.seat, Token: e.shown, Lost: e.shown.Defined(), Cause: election.CauseResigned, Gone: true})
		}
		c.drop(k)
		return
	}
	e := c.set(s)
	if s.Leader == c.self {
		c.offered(s)
	}
	c.show(e, s.Cause)
}

// unspend forgets a resignation when a seat of that name is gone, or another member has it under a higher
// epoch. Under the same epoch an earlier report may assign it to this member again. There are two
// exceptions. A seat of the name is still assigned to this member; or it has no leader, under an epoch that
// this member may have led. The coordinator may then have yet to receive the latest report.
func (c *member) unspend(by Seat) {
	last, ok := c.spent[by.Name]
	if !ok || !by.Gone && (by.Leader == c.self || by.Epoch <= last || c.holds[by.Name] != nil) {
		return
	}
	if !c.mayReturn(by.Name, c.self, last) {
		delete(c.spent, by.Name)
	}
}

// offers looks at all that this member was assigned and does not lead.
func (c *member) offers() {
	for _, e := range c.ordered() {
		if e.Leader == c.self {
			c.offered(e.Seat)
			c.show(e, "")
		}
	}
}

// offered takes a name that was assigned to this member, or declines it.
func (c *member) offered(s Seat) {
	h := c.holds[s.Name]
	_, stands := c.campaigns[s.Name]
	switch {
	case h != nil && h.seat == s.Seat && h.epoch == s.Epoch:
	case c.spent[s.Name] >= s.Epoch:
		c.touch(s.Name) // the coordinator has yet to receive that
	case h != nil || !stands || !c.fit || !c.now.Before(c.until):
		c.spend(s.Name, s.Epoch, false)
	default:
		c.holds[s.Name] = &hold{seat: s.Seat, epoch: s.Epoch}
		c.leading++
	}
}

// show notifies watchers if what they see of a seat has changed.
func (c *member) show(e *entry, cause election.Cause) {
	now := e.token()
	if e.Leader == c.self {
		if h := c.holds[e.Name]; h == nil || h.over || h.seat != e.Seat.Seat || h.epoch != e.Epoch {
			now = election.Token{}
		}
	}
	if !c.sees {
		now = election.Token{}
	} else if now.Epoch < e.top {
		now = election.Token{} // its epoch is about to be raised:
		c.touch(e.Name)        // the coordinator is to learn of the higher epoch
	}
	if now == e.shown {
		return
	}
	if e.shown.Defined() {
		cause = cmp.Or(cause, election.CauseSuperseded)
		c.changes = append(c.changes, Change{Name: e.Name, Seat: e.Seat.Seat, Token: e.shown, Lost: true, Cause: cause})
	}
	if e.shown, e.top = now, max(e.top, now.Epoch); now.Defined() {
		c.changes = append(c.changes, Change{Name: e.Name, Seat: e.Seat.Seat, Token: now})
	}
}

// look updates what is shown. Without a coordinator the last leaders are shown for as long as a
// lead lasts, and none after that. All is shown again when a coordinator has sent the present
// state.
func (c *member) look() {
	sees := c.sees
	switch {
	case c.view.Defined():
		sees = sees || c.welcomed
	case !c.now.Before(c.until):
		sees = false
	}
	if sees == c.sees {
		return
	}
	c.sees = sees
	for _, e := range c.ordered() {
		c.show(e, election.CauseSilent)
	}
}
