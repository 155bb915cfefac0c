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
	leading   int // of holds, how many are not over

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
	return &member{ground: g, table: newTable(), campaigns: map[string]Candidacy{}, holds: map[string]*hold{}, dirty: map[string]bool{}, requests: map[uint64]bool{}}
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
func (m *member) Leads(name string) (election.Token, int) {
	if h := m.holds[name]; h != nil && !h.over {
		return election.Token{Epoch: h.epoch, Leader: election.Rank{ID: m.self}}, h.seat
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
func (m *member) Lease() time.Duration {
	if !m.leased {
		return 0
	}
	return m.hold
}

// touch marks a name as to be reported to the coordinator.
func (m *member) touch(name string) {
	resigned := m.dirty[name]
	m.dirty[name] = resigned // it is in the map from now on
	m.flushSoon()
}

// expire ends what lasts no longer.
func (m *member) expire() {
	if m.now.Before(m.until) {
		return
	}
	for _, h := range m.holds {
		h.lapsed = true
	}
	if m.leading == 0 {
		return
	}
	cause := election.CauseSilent
	if m.now.Sub(m.last) > m.timing.Bears() {
		cause = election.CauseStalled
	}
	m.loseAll(cause)
}

func (m *member) loseAll(cause election.Cause) {
	for _, name := range slices.Sorted(maps.Keys(m.holds)) {
		m.lose(name, m.holds[name], cause)
	}
}

// lose ends a lead at once as this member sees it, and as the coordinator sees it when the work
// has stopped: until then there is nothing to report.
func (m *member) lose(name string, h *hold, cause election.Cause) {
	if h.over {
		return
	}
	h.over = true
	m.leading--
	m.show(m.at(key{name, h.seat}), cause)
	if !h.working {
		m.gaveUp(name, h)
	}
}

// gaveUp: nothing of a lead runs any more.
func (m *member) gaveUp(name string, h *hold) {
	delete(m.holds, name)
	m.dirty[name] = m.dirty[name] || h.resigns
	m.flushSoon()
}

// heldAs returns what this member holds of a seat under its epoch; nil: nothing.
func (m *member) heldAs(s Seat) *hold {
	if h := m.holds[s.Name]; h != nil && h.seat == s.Seat && h.epoch == s.Epoch {
		return h
	}
	return nil
}

// leads reports whether this member leads a seat under its epoch.
func (m *member) leads(s Seat) bool {
	h := m.heldAs(s)
	return h != nil && !h.over
}

// lacks reports whether a seat is assigned to this member, which does not hold it.
func (m *member) lacks(e *entry) bool { return e.Leader == m.self && m.heldAs(e.Seat) == nil }

// vouched takes in an echo: what this member leads lasts from when that stamp left.
func (m *member) vouched(echo int64) {
	if echo <= m.vouch || echo > m.stamp() {
		return
	}
	m.vouch = echo
	if until := m.origin.Add(time.Duration(echo-1) + m.hold); until.After(m.until) {
		m.until = until
	}
}

// checkFit finds out whether this member may lead, and reports whether that has changed. If it may
// not, it resigns what it leads.
func (m *member) checkFit() (changed bool) {
	fit := false
	switch m.Standing() {
	case election.IneligibleObserver, election.IneligibleUnhealthy, election.LastResort, election.IneligibleClosing, election.IneligibleGone, election.IneligibleJoining:
	default:
		fit = true
	}
	if fit == m.fit {
		return false
	}
	m.fit = fit
	if !fit {
		m.loseAll(election.CauseResigned)
	}
	m.flushSoon()
	if m.view.Defined() && m.view.Leader.ID != m.self && len(m.campaigns) > 0 {
		m.touch(slices.Min(slices.Collect(maps.Keys(m.campaigns)))) // a report has it; the first name, so that a seed gives the same run
	}
	return true
}

// claimOf returns what this member reports of a name.
func (m *member) claimOf(name string) claim {
	cl := claim{Name: name, Last: m.lastEpoch(name), Resigned: m.dirty[name]}
	for _, e := range m.names[name] {
		if m.lacks(e) {
			cl.Done = max(cl.Done, e.Epoch)
		}
	}
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
		sorted = slices.AppendSeq(make([]string, 0, len(m.campaigns)+len(m.holds)), maps.Keys(m.campaigns))
		sorted = slices.AppendSeq(sorted, maps.Keys(m.holds))
		for _, e := range m.ordered() {
			if e.top > e.Epoch || m.lacks(e) {
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
func (m *member) reportAll() { m.tellAll(frame{Op: opReport}, m.claimsOf(nil)) }

func (m *member) tellAll(f frame, claims []claim) {
	m.retries = min(m.retries+1, 5)
	m.retryAt = m.now.Add(m.timing.T() << (m.retries - 1))
	m.reported++
	list := parts(claims, m.partBytes, claimSize)
	f.Stamp, f.Version, f.Whole, f.Parts, f.Digest = m.stamp(), m.reported, true, len(list), m.digest
	for i, p := range list {
		f.Part = i
		m.send(m.view.Leader.ID, m.filled(f, p))
	}
	m.allTold()
}

// report sends the coordinator what has changed.
func (m *member) report() {
	if len(m.dirty) == 0 || m.reported == 0 {
		return // the full report has it, to the next coordinator if there is none
	}
	for _, p := range parts(m.claimsOf(m.dirty), m.partBytes, claimSize) {
		m.reported++
		m.send(m.view.Leader.ID, m.filled(frame{Op: opReport, Stamp: m.stamp(), Base: m.reported - 1, Version: m.reported}, p))
	}
	m.allTold()
}

// filled is a report with what every report has, and these claims.
func (m *member) filled(f frame, claims []claim) *frame {
	f.Incarnation, f.Fit, f.Claims, f.Raise = m.incarnation, m.fit, claims, m.raises(claims)
	return &f
}

// allTold records that nothing is left to report.
func (m *member) allTold() {
	m.dirty = emptied(m.dirty)
}

// ask requests all from the coordinator, at most once in two heartbeats.
func (m *member) ask() {
	if m.askedAt != 0 && m.stamp()-m.askedAt < int64(2*m.timing.Heartbeat) {
		return
	}
	m.askedAt = m.stamp()
	m.send(m.view.Leader.ID, &frame{Op: opAsk, Stamp: m.stamp()})
}

// informClosed informs all members when this process closes and leads nothing any more: it may end
// before there is a coordinator that it could report that to.
func (m *member) informClosed() {
	if !m.closes || !m.leased || len(m.holds) > 0 || len(m.names) == 0 {
		return
	}
	m.closes = false
	for _, other := range m.Members() {
		if other.ID != m.self {
			m.send(other.ID, &frame{Op: opClosed, Incarnation: m.incarnation})
		}
	}
}

// reportAnew reports everything to a new coordinator. If that has different assignments from those of a
// compact report, it asks for the rest.
func (m *member) reportAnew() { m.tellAll(m.shortest()) }

// shortest is a report of everything, and its claims: compact, unless that is no shorter.
//
// A compact report is of what both have alike. If the digests agree, both have the same
// assignments. For most names the member then only confirms them: it leads what it was assigned
// and nothing else, and is a candidate. Ten thousand names take as many bytes as ten.
func (m *member) shortest() (frame, []claim) {
	like, unlike := m.inFewWords()
	if like == nil {
		return frame{Op: opReport}, m.claimsOf(nil)
	}
	return frame{Op: opAlike, Alike: like}, m.claimsOf(unlike)
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
		holds := e.Leader == m.self && m.leads(e.Seat)
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
	for name := range m.gone {
		if m.names[name] != nil {
			names[name] = true // it may have a higher epoch
		}
	}
	return names
}
