package named

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// member is what this member is a candidate of and leads.
type member struct {
	campaigns map[string]Candidacy
	holds     map[string]*hold
	leading   int               // of holds, how many are not over
	spent     map[string]uint64 // the last epoch of a name that it has given up, while the coordinator may not know
	resigned  map[string]bool   // of those, given up of its own will

	until    time.Time // when its leads end
	vouch    int64     // the last stamp that was echoed
	fit      bool      // it may lead
	dirty    map[string]bool
	reported uint64 // version that the coordinator has received
	welcomed bool   // the coordinator has taken in all
	retryAt  time.Time
	retries  int

	requests map[uint64]bool // that wait for the coordinator
	number   uint64
}

// hold is a name that this member leads, or led and still works for.
type hold struct {
	seat    int
	epoch   uint64
	over    bool // it lost leadership
	working bool // the user's work runs
	resigns bool // it ended of its own will
	lapsed  bool // its time has passed once: a different member may lead, whatever is received later
}

// reset forgets what the last coordinator has received.
func (m *member) reset() {
	m.reported, m.welcomed, m.retryAt, m.retries = 0, false, time.Time{}, 0
}

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

// Resign gives names away, each to a further candidate if there is any.
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

// Leads is the token under which this member leads a name now; zero: it does not.
func (c *Core) Leads(name string) (election.Token, int) {
	if h := c.holds[name]; h != nil && !h.over {
		return c.mine(h), h.seat
	}
	return election.Token{}, 0
}

// Until is when this member stops leading named elections if it receives nothing.
func (m *member) Until() time.Time { return m.until }

// Vouched is until when the work of this member's leadership of a name may run if nothing more
// is received; past the end of that leadership while its work stops. Zero: no work may.
func (m *member) Vouched(name string) time.Time {
	if h := m.holds[name]; h != nil && !h.lapsed {
		return m.until
	}
	return time.Time{}
}

// Lease is how long a lead lasts from when it was confirmed, if a successor waits for its end;
// 0: none does.
func (c *Core) Lease() time.Duration {
	if !c.leased {
		return 0
	}
	return c.hold
}

func (c *Core) mine(h *hold) election.Token {
	return election.Token{Epoch: h.epoch, Leader: election.Rank{ID: c.self}}
}

// touch marks a name as to be reported to the coordinator.
func (c *Core) touch(name string) {
	c.dirty[name] = true
	c.flushSoon()
}

// expire ends what lasts no longer.
func (c *Core) expire() {
	if c.now.Before(c.until) {
		return
	}
	for _, h := range c.holds {
		h.lapsed = true
	}
	if c.leading == 0 {
		return
	}
	cause := election.CauseSilent
	if c.now.Sub(c.last) > c.timing.Bears() {
		cause = election.CauseStalled
	}
	c.loseAll(cause)
}

func (c *Core) loseAll(cause election.Cause) {
	for _, name := range slices.Sorted(maps.Keys(c.holds)) {
		c.lose(name, c.holds[name], cause)
	}
}

// lose ends a lead at once as this member sees it, and as the coordinator sees it when the work
// has stopped.
func (c *Core) lose(name string, h *hold, cause election.Cause) {
	if h.over {
		return
	}
	h.over = true
	c.leading--
	c.show(c.at(key{name, h.seat}), cause)
	if !h.working {
		c.gaveUp(name, h)
		return
	}
	c.touch(name)
}

// gaveUp: nothing of a lead runs any more.
func (c *Core) gaveUp(name string, h *hold) {
	delete(c.holds, name)
	c.spend(name, h.epoch, h.resigns)
}

// spend remembers an epoch under which this member does not lead any more.
func (c *Core) spend(name string, epoch uint64, resigned bool) {
	c.spent[name] = max(c.spent[name], epoch)
	if resigned {
		c.resigned[name] = true
	}
	c.touch(name)
}

// vouched takes in an echo: what this member leads lasts from when that stamp left.
func (c *Core) vouched(echo int64) {
	if echo <= c.vouch || echo > c.stamp() {
		return
	}
	c.vouch = echo
	if until := c.origin.Add(time.Duration(echo-1) + c.hold); until.After(c.until) {
		c.until = until
	}
}

// checkFit: a member that may not lead gives up what it leads.
func (c *Core) checkFit() {
	fit := false
	switch c.Standing() {
	case election.IneligibleObserver, election.IneligibleUnhealthy, election.LastResort, election.IneligibleClosing, election.IneligibleGone, election.IneligibleJoining:
	default:
		fit = true
	}
	if fit == c.fit {
		return
	}
	c.fit = fit
	if !fit {
		c.loseAll(election.CauseResigned)
	}
	c.flushSoon()
	if c.office == nil && c.view.Defined() && len(c.campaigns) > 0 {
		c.dirty[slices.Min(slices.Collect(maps.Keys(c.campaigns)))] = true // a report has it; the first name, so that a seed gives the same run
	} else if c.office != nil {
		c.office.uneven = true
		c.office.reconsider(c.office.me)
	}
}

// claimOf returns what this member reports of a name.
func (m *member) claimOf(t *table, name string) claim {
	cl := claim{Name: name, Done: m.spent[name], Last: t.lastEpoch(name), Resigned: m.resigned[name]}
	if can, ok := m.campaigns[name]; ok {
		cl.Stands, cl.Weight, cl.Prefer, cl.Seats = true, can.Weight, can.Prefer, can.Seats
	}
	if h := m.holds[name]; h != nil {
		cl.Seat, cl.Epoch, cl.Over = h.seat, h.epoch, h.over
	}
	return cl
}

// claims returns what it reports of those names, in order; nil: of all.
func (m *member) claimsOf(t *table, names map[string]bool) []claim {
	sorted := slices.AppendSeq(make([]string, 0, len(names)), maps.Keys(names))
	if names == nil {
		sorted = slices.AppendSeq(make([]string, 0, len(m.campaigns)+len(m.holds)+len(m.spent)), maps.Keys(m.campaigns))
		sorted = slices.AppendSeq(sorted, maps.Keys(m.holds))
		sorted = slices.AppendSeq(sorted, maps.Keys(m.spent))
		for _, e := range t.ordered() {
			if e.top > e.Epoch {
				sorted = append(sorted, e.Name)
			}
		}
	}
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	list := make([]claim, len(sorted))
	for i, name := range sorted {
		list[i] = m.claimOf(t, name)
	}
	return list
}

// reportAll sends the coordinator a full report, and repeats it until it answers.
func (c *Core) reportAll() { c.tellAll(frame{Op: opReport}, c.claimsOf(&c.table, nil)) }

func (c *Core) tellAll(f frame, claims []claim) {
	c.retries = min(c.retries+1, 5)
	c.retryAt = c.now.Add(c.timing.T() << (c.retries - 1))
	c.reported++
	list := parts(claims, c.partBytes, claimSize)
	f.Stamp, f.Version, f.Whole, f.Parts, f.Digest, f.Incarnation, f.Fit = c.stamp(), c.reported, true, len(list), c.digest, c.incarnation, c.fit
	for i, p := range list {
		f.Part, f.Claims, f.Raise = i, p, c.raises(p)
		c.send(c.view.Leader.ID, &f)
	}
	c.allTold()
}

// report sends the coordinator what has changed.
func (c *Core) report() {
	if len(c.dirty) == 0 || !c.view.Defined() || c.reported == 0 {
		return // the full report has it
	}
	for _, p := range parts(c.claimsOf(&c.table, c.dirty), c.partBytes, claimSize) {
		c.reported++
		c.send(c.view.Leader.ID, &frame{Op: opReport, Stamp: c.stamp(), Base: c.reported - 1, Version: c.reported,
			Incarnation: c.incarnation, Fit: c.fit, Claims: p, Raise: c.raises(p)})
	}
	c.allTold()
}

// allTold records that nothing is left to report.
func (m *member) allTold() {
	m.dirty, m.resigned = emptied(m.dirty), emptied(m.resigned)
}

// ask requests all from the coordinator, at most once in two heartbeats.
func (c *Core) ask() {
	if c.askedAt != 0 && c.stamp()-c.askedAt < int64(2*c.timing.Heartbeat) {
		return
	}
	c.askedAt = c.stamp()
	c.send(c.view.Leader.ID, &frame{Op: opAsk, Stamp: c.stamp()})
}
