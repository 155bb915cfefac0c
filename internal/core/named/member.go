package named

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// member is what this member is a candidate of and leads.
type member struct {
	*ground
	table
	campaigns map[string]Candidacy
	holds     map[string]*hold
	leading   int               // of holds, how many are not over
	spent     map[string]uint64 // the last epoch of a name that it has given up, while the coordinator may not know

	until    time.Time       // when its leads end
	vouch    int64           // the last stamp that was echoed
	fit      bool            // it may lead
	dirty    map[string]bool // names to be reported; true: it has given that up of its own will
	reported uint64          // version that the coordinator has received
	welcomed bool            // the coordinator has taken in all
	retryAt  time.Time
	retries  int

	requests map[uint64]bool // that wait for the coordinator
	number   uint64
	closes   bool // this process is about to end, and has not informed all that it leads nothing
}

func newMember(g *ground) *member {
	return &member{ground: g, table: newTable(), campaigns: map[string]Candidacy{}, holds: map[string]*hold{}, spent: map[string]uint64{}, dirty: map[string]bool{}, requests: map[uint64]bool{}}
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

// Leads is the token under which this member leads a name now; zero: it does not.
func (c *member) Leads(name string) (election.Token, int) {
	if h := c.holds[name]; h != nil && !h.over {
		return election.Token{Epoch: h.epoch, Leader: election.Rank{ID: c.self}}, h.seat
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
func (c *member) Lease() time.Duration {
	if !c.leased {
		return 0
	}
	return c.hold
}

// touch marks a name as to be reported to the coordinator.
func (c *member) touch(name string) {
	c.dirty[name] = c.dirty[name] // it is in the map from now on
	c.flushSoon()
}

// expire ends what lasts no longer.
func (c *member) expire() {
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

func (c *member) loseAll(cause election.Cause) {
	for _, name := range slices.Sorted(maps.Keys(c.holds)) {
		c.lose(name, c.holds[name], cause)
	}
}

// lose ends a lead at once as this member sees it, and as the coordinator sees it when the work
// has stopped.
func (c *member) lose(name string, h *hold, cause election.Cause) {
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
func (c *member) gaveUp(name string, h *hold) {
	delete(c.holds, name)
	c.spend(name, h.epoch, h.resigns)
}

// spend remembers an epoch under which this member does not lead any more.
func (c *member) spend(name string, epoch uint64, resigned bool) {
	c.spent[name] = max(c.spent[name], epoch)
	c.dirty[name] = c.dirty[name] || resigned
	c.flushSoon()
}

// vouched takes in an echo: what this member leads lasts from when that stamp left.
func (c *member) vouched(echo int64) {
	if echo <= c.vouch || echo > c.stamp() {
		return
	}
	c.vouch = echo
	if until := c.origin.Add(time.Duration(echo-1) + c.hold); until.After(c.until) {
		c.until = until
	}
}

// checkFit finds out whether this member may lead, and reports whether that has changed. If it may
// not, it resigns what it leads.
func (c *member) checkFit() (changed bool) {
	fit := false
	switch c.Standing() {
	case election.IneligibleObserver, election.IneligibleUnhealthy, election.LastResort, election.IneligibleClosing, election.IneligibleGone, election.IneligibleJoining:
	default:
		fit = true
	}
	if fit == c.fit {
		return false
	}
	c.fit = fit
	if !fit {
		c.loseAll(election.CauseResigned)
	}
	c.flushSoon()
	if c.view.Defined() && c.view.Leader.ID != c.self && len(c.campaigns) > 0 {
		c.touch(slices.Min(slices.Collect(maps.Keys(c.campaigns)))) // a report has it; the first name, so that a seed gives the same run
	}
	return true
}

// claimOf returns what this member reports of a name.
func (m *member) claimOf(name string) claim {
	cl := claim{Name: name, Done: m.spent[name], Last: m.lastEpoch(name), Resigned: m.dirty[name]}
	if can, ok := m.campaigns[name]; ok {
		cl.Stands, cl.Weight, cl.Prefer, cl.Seats = true, can.Weight, can.Prefer, can.Seats
	}
	if h := m.holds[name]; h != nil {
		cl.Seat, cl.Epoch, cl.Over = h.seat, h.epoch, h.over
	}
	return cl
}

// claims returns what it reports of those names, in order; nil: of all.
func (m *member) claimsOf(names map[string]bool) []claim {
	sorted := slices.AppendSeq(make([]string, 0, len(names)), maps.Keys(names))
	if names == nil {
		sorted = slices.AppendSeq(make([]string, 0, len(m.campaigns)+len(m.holds)+len(m.spent)), maps.Keys(m.campaigns))
		sorted = slices.AppendSeq(sorted, maps.Keys(m.holds))
		sorted = slices.AppendSeq(sorted, maps.Keys(m.spent))
		for _, e := range m.ordered() {
			if e.top > e.Epoch {
				sorted = append(sorted, e.Name)
			}
		}
	}
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	list := make([]claim, len(sorted))
	for i, name := range sorted {
		list[i] = m.claimOf(name)
	}
	return list
}

// reportAll sends the coordinator a full report, and repeats it until it answers.
func (c *member) reportAll() { c.tellAll(frame{Op: opReport}, c.claimsOf(nil)) }

func (c *member) tellAll(f frame, claims []claim) {
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
func (c *member) report() {
	if len(c.dirty) == 0 || c.reported == 0 {
		return // the full report has it, to the next coordinator if there is none
	}
	for _, p := range parts(c.claimsOf(c.dirty), c.partBytes, claimSize) {
		c.reported++
		c.send(c.view.Leader.ID, &frame{Op: opReport, Stamp: c.stamp(), Base: c.reported - 1, Version: c.reported,
			Incarnation: c.incarnation, Fit: c.fit, Claims: p, Raise: c.raises(p)})
	}
	c.allTold()
}

// allTold records that nothing is left to report.
func (m *member) allTold() {
	m.dirty = emptied(m.dirty)
}

// ask requests all from the coordinator, at most once in two heartbeats.
func (c *member) ask() {
	if c.askedAt != 0 && c.stamp()-c.askedAt < int64(2*c.timing.Heartbeat) {
		return
	}
	c.askedAt = c.stamp()
	c.send(c.view.Leader.ID, &frame{Op: opAsk, Stamp: c.stamp()})
}

// informClosed informs all members when this process closes and leads nothing any more: it may end
// before there is a coordinator that it could report that to.
func (c *member) informClosed() {
	if !c.closes || !c.leased || len(c.holds) > 0 || len(c.spent) == 0 {
		return
	}
	c.closes = false
	for _, m := range c.Members() {
		if m.ID != c.self {
			c.send(m.ID, &frame{Op: opClosed, Incarnation: c.incarnation})
		}
	}
}

// reportAnew reports everything to a new coordinator: compactly, unless that is no shorter. If
// the coordinator has different assignments it asks for the rest.
//
// A compact report is of what both have alike. If the digests agree, both have the same
// assignments. For most names the member then only confirms them: it leads what it was assigned
// and nothing else, and is a candidate. Ten thousand names take as many bytes as ten.
func (c *member) reportAnew() {
	like, unlike := c.inFewWords()
	if like == nil {
		c.reportAll()
		return
	}
	c.tellAll(frame{Op: opAlike, Alike: like}, c.claimsOf(unlike))
}

// inFewWords returns the default candidacy of most names, and the names that need claims; nil:
// too many do.
func (m *member) inFewWords() (like *claim, unlike map[string]bool) {
	how := m.usual()
	if unlike = m.unlike(how); 2*len(unlike) > len(m.ordered()) || len(m.names) == 0 {
		return nil, nil
	}
	return &claim{Stands: true, Weight: how.Weight, Prefer: how.Prefer, Seats: how.Seats}, unlike
}

// usual is the candidacy of this member for most names.
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

// unlike returns the names with a claim that differs from the assignment, or from the default candidacy.
func (m *member) unlike(like Candidacy) map[string]bool {
	names, stood, held, seats := map[string]bool{}, 0, 0, m.ordered()
	single := len(seats) == len(m.names) // every name has a single seat, so none is looked up
	for _, e := range seats {
		how, stands := m.campaigns[e.Name]
		if stands && e.Seat.Seat == 0 {
			stood++
		}
		holds := e.Leader == m.self && m.holdsAs(e)
		if holds {
			held++
		}
		if !stands || how != like || e.top > e.Epoch || e.Seat.Seat != 0 || !single && len(m.names[e.Name]) != 1 || e.Leader == m.self && !holds {
			names[e.Name] = true
		}
	}
	if held < len(m.holds) {
		for name, h := range m.holds {
			if e := m.at(key{name, h.seat}); e == nil || e.Leader != m.self {
				names[name] = true
			}
		}
	}
	if stood < len(m.campaigns) {
		for name := range m.campaigns {
			if m.names[name] == nil {
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
