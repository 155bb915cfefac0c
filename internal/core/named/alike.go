package named

import "cmp"

// This file has a member tell a new coordinator in few words what both know alike. Where the
// digests agree both have the same assignments, and of most names a member has to tell just what
// those say: that it leads what it was assigned and nothing else, and that it stands. Ten
// thousand names are so told in as many bytes as ten.

// reportAnew tells a new coordinator everything: in few words, unless as many words are needed.
// If the coordinator knows other assignments it asks for all the rest.
func (c *Core) reportAnew() {
	like, unlike := c.inFewWords()
	if like == nil {
		c.reportAll()
		return
	}
	c.tellAll(frame{Op: opAlike, Alike: like}, c.claimsOf(unlike))
}

// inFewWords is what this member has to tell of most names, and of which others by themselves; nil: of too many.
func (c *Core) inFewWords() (like *claim, unlike map[string]bool) {
	how := c.usual()
	if unlike = c.unlike(how); 2*len(unlike) > len(c.seats) || len(c.seats) == 0 {
		return nil, nil
	}
	return &claim{Stands: true, Weight: how.Weight, Prefer: how.Prefer, Seats: how.Seats}, unlike
}

// usual is how this member stands for most names.
func (c *Core) usual() (most Candidacy) {
	counts, last, n := map[Candidacy]int{}, Candidacy{}, 0
	for _, how := range c.campaigns {
		if how != last {
			counts[last] += n
			last, n = how, 0
		}
		n++
	}
	counts[last] += n
	for how, n := range counts {
		if n > counts[most] || n == counts[most] && how.compare(most) < 0 {
			most = how
		}
	}
	return most
}

// compare orders them, so that a seed gives one run.
func (c Candidacy) compare(other Candidacy) int {
	prefer := map[bool]int{true: 1}
	return cmp.Or(c.Weight-other.Weight, c.Seats-other.Seats, prefer[c.Prefer]-prefer[other.Prefer])
}

// unlike are the names of which this member has to tell something else than its assignments
// do, or than that it stands for them like that.
func (c *Core) unlike(like Candidacy) map[string]bool {
	names, stood, held := map[string]bool{}, 0, 0
	several := len(c.names) != len(c.seats)
	for _, e := range c.ordered() {
		how, stands := c.campaigns[e.Name]
		if stands && (!several || e.Seat.Seat == 0) {
			stood++
		}
		holds := e.Leader == c.self && c.holdsAs(e)
		if holds {
			held++
		}
		if !stands || how != like || e.top > e.Epoch || e.Seat.Seat != 0 || several && c.names[e.Name] != 1 || e.Leader == c.self && !holds {
			names[e.Name] = true
		}
	}
	if held < len(c.holds) {
		for name, h := range c.holds {
			if e := c.seats[key{name, h.seat}]; e == nil || e.Leader != c.self {
				names[name] = true
			}
		}
	}
	if stood < len(c.campaigns) {
		for name := range c.campaigns {
			if c.names[name] == 0 {
				names[name] = true
			}
		}
	}
	for name := range c.spent {
		names[name] = true
	}
	return names
}

// holdsAs reports whether this member leads what it was assigned.
func (c *Core) holdsAs(e *entry) bool {
	h := c.holds[e.Name]
	return h != nil && !h.over && h.seat == e.Seat.Seat && h.epoch == e.Epoch
}

// mentions notes what names a report of all tells of by themselves.
func (o *office) mentions(claims []claim) {
	o.reports++
	for _, cl := range claims {
		if k := o.contests.byName[cl.Name]; k != nil {
			k.told = o.reports
		}
	}
}

// takesAlike takes in what a member tells in few words, beside the names that it mentions.
func (o *office) takesAlike(p *peer, like claim) {
	several := len(o.c.names) != len(o.c.seats)
	for _, k := range o.contests.ordered() {
		if k.told == o.reports {
			continue
		}
		e := k.entry
		if e == nil {
			e = o.c.seats[key{k.name, 0}]
		}
		if e == nil || e.Seat.Seat != 0 || several && o.c.names[k.name] != 1 {
			continue
		}
		k.told = o.reports
		cl := like
		cl.Name, cl.Last = k.name, e.Epoch
		if e.Leader == p.id {
			cl.Epoch = e.Epoch
		}
		o.claims(k, p, cl)
	}
}

// tellsItself takes in all that this member has to tell as it takes office.
func (o *office) tellsItself() {
	like, unlike := o.c.inFewWords()
	if like == nil {
		o.claimedAll(o.c.claimsOf(nil))
		return
	}
	claims := o.c.claimsOf(unlike)
	o.mentions(claims)
	o.takesAlike(o.me, *like)
	o.claimedAll(claims)
}
