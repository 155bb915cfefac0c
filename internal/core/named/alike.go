package named

import (
	"cmp"

	"github.com/batuta-dev/batuta/election"
)

// This file has the compact report: how a member reports to a new coordinator what both have
// alike. If the digests agree, both have the same assignments. For most names the member then
// only confirms them: it leads what it was assigned and nothing else, and is a candidate. Ten
// thousand names take as many bytes as ten.

// reportAnew reports everything to a new coordinator: compactly, unless that is no shorter. If
// the coordinator has different assignments it asks for the rest.
func (c *Core) reportAnew() {
	like, unlike := c.inFewWords(&c.table, c.self)
	if like == nil {
		c.reportAll()
		return
	}
	c.tellAll(frame{Op: opAlike, Alike: like}, c.claimsOf(&c.table, unlike))
}

// inFewWords returns the default candidacy of most names, and the names that need claims; nil:
// too many do.
func (m *member) inFewWords(t *table, self election.ID) (like *claim, unlike map[string]bool) {
	how := m.usual()
	if unlike = m.unlike(t, self, how); 2*len(unlike) > len(t.ordered()) || len(t.names) == 0 {
		return nil, nil
	}
	return &claim{Stands: true, Weight: how.Weight, Prefer: how.Prefer, Seats: how.Seats}, unlike
}

// usual is how this member stands for most names.
func (m *member) usual() (most Candidacy) {
	counts, last, n := map[Candidacy]int{}, Candidacy{}, 0
	for _, how := range m.campaigns {
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

// compare orders candidacies, so that a seed gives the same run.
func (c Candidacy) compare(other Candidacy) int {
	prefer := map[bool]int{true: 1}
	return cmp.Or(c.Weight-other.Weight, c.Seats-other.Seats, prefer[c.Prefer]-prefer[other.Prefer])
}

// unlike returns the names whose claim differs from the assignment, or from the default candidacy.
func (m *member) unlike(t *table, self election.ID, like Candidacy) map[string]bool {
	names, stood, held := map[string]bool{}, 0, 0
	for _, e := range t.ordered() {
		how, stands := m.campaigns[e.Name]
		if stands && e.Seat.Seat == 0 {
			stood++
		}
		holds := e.Leader == self && m.holdsAs(e)
		if holds {
			held++
		}
		if !stands || how != like || e.top > e.Epoch || e.Seat.Seat != 0 || len(t.names[e.Name]) != 1 || e.Leader == self && !holds {
			names[e.Name] = true
		}
	}
	if held < len(m.holds) {
		for name, h := range m.holds {
			if e := t.at(key{name, h.seat}); e == nil || e.Leader != self {
				names[name] = true
			}
		}
	}
	if stood < len(m.campaigns) {
		for name := range m.campaigns {
			if t.names[name] == nil {
				names[name] = true
			}
		}
	}
	for name := range m.spent {
		names[name] = true
	}
	return names
}

// holdsAs reports whether this member leads what it was assigned.
func (m *member) holdsAs(e *entry) bool {
	h := m.holds[e.Name]
	return h != nil && !h.over && h.seat == e.Seat.Seat && h.epoch == e.Epoch
}

// mentions records which names a full report has claims for.
func (o *office) mentions(claims []claim) {
	o.reports++
	for _, cl := range claims {
		if k := o.contests.byName[cl.Name]; k != nil {
			k.reportedIn = o.reports
		}
	}
}

// takesAlike applies a compact report, except for the names that it has claims for.
func (o *office) takesAlike(p *peer, like claim) {
	for _, k := range o.contests.ordered() {
		if k.reportedIn == o.reports {
			continue
		}
		e := k.entry
		if e == nil {
			e = o.c.at(key{k.name, 0})
		}
		if e == nil || e.Seat.Seat != 0 || len(o.c.names[k.name]) != 1 {
			continue
		}
		k.reportedIn = o.reports
		cl := like
		cl.Name, cl.Last = k.name, e.Epoch
		if e.Leader == p.id {
			cl.Epoch = e.Epoch
		}
		o.claims(k, p, cl)
	}
}

// tellsItself applies this member's own report as it takes office.
func (o *office) tellsItself() {
	like, unlike := o.c.inFewWords(&o.c.table, o.c.self)
	if like == nil {
		o.claimedAll(o.c.claimsOf(&o.c.table, nil))
		return
	}
	claims := o.c.claimsOf(&o.c.table, unlike)
	o.mentions(claims)
	o.takesAlike(o.me, *like)
	o.claimedAll(claims)
}
