package named

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has what the coordinator receives from members.

// receive handles a member's frame.
func (o *office) receive(from election.ID, f *frame) {
	p := o.peerOf(from)
	if o.replaces(p, f) {
		return // it repeats its report
	}
	if f.Stamp > p.stamp || f.Whole {
		o.heard(p, f.Stamp)
	}
	switch f.Op {
	case opReport, opAlike:
		o.reported(p, f)
	case opAsk:
		p.wants, p.differs = p.reported, true
		o.flushSoon()
	}
}

// replaces reports whether a frame is of another process than that which a member's leads are of, and
// which may still have them. Under a lease only time ends them, or that process as it closes.
func (o *office) replaces(p *peer, f *frame) bool {
	switch {
	case f.Incarnation == p.incarnation:
		p.over = time.Time{}
		return false
	case !o.leased, p.leads == 0, f.Incarnation == 0, p.incarnation == 0, o.former.closed[p.id] == p.incarnation:
		return false
	case p.over.IsZero():
		p.over = p.heard.Add(o.wait)
	}
	return !o.now.After(p.over)
}

// heard records that a member was received. A member that was silent for too long may lead again.
func (o *office) heard(p *peer, stamp int64) {
	late := o.now.Sub(p.heard) > o.wait
	p.stamp, p.echo, p.heard, p.silent = stamp, stamp, o.now, false
	if late {
		o.reconsider(p)
	}
}

// reported applies a member's report: full, or of changes.
func (o *office) reported(p *peer, f *frame) {
	if !f.Whole {
		if !p.reported || f.Base != p.version || f.Incarnation != p.incarnation {
			o.ask(p)
			return
		}
		p.version = f.Version
		o.takes(p, f)
		return
	}
	switch f = p.report.add(f); {
	case f == nil:
	case f.Op == opAlike && (f.Alike == nil || f.Digest != o.digest):
		o.ask(p) // its report is about different assignments
	default:
		o.reportedAll(p, f)
	}
}

func (o *office) reportedAll(p *peer, f *frame) {
	if p.incarnation != f.Incarnation && p.incarnation != 0 {
		o.free(p, "another process has its place", election.CauseCrashed) // what the earlier process led is over
	}
	p.incarnation, p.version, p.reported, p.down, p.over = f.Incarnation, f.Version, true, false, time.Time{}
	p.wants, p.has, p.differs = true, f.Digest, false
	o.mentions(f.Claims)
	if f.Op == opAlike {
		o.takesAlike(p, *f.Alike)
	}
	for _, k := range o.contests.ordered() {
		if k.reportedIn != o.reports && k.candidate(p) != nil {
			o.claims(k, p, claim{Name: k.name})
		}
	}
	o.takes(p, f)
	o.notHeld(p)
	o.settle()
	o.reconsider(p)
}

// takes takes in the claims of a report.
func (o *office) takes(p *peer, f *frame) {
	if p.fit != f.Fit {
		p.fit = f.Fit
		o.reconsider(p)
	}
	for _, cl := range f.Claims {
		o.claimed(p, cl)
	}
	o.raised(f.Raise)
	o.flushSoon()
}

// raised takes in under what epochs somebody has seen seats.
func (o *office) raised(seats []Seat) {
	for _, at := range seats {
		if k := o.contests.byName[at.Name]; k != nil && at.Seat < max(k.want, len(k.seats)) {
			s := k.seat(at.Seat)
			s.top, k.last = max(s.top, at.Epoch), max(k.last, at.Epoch)
			o.raise(k)
		}
	}
}

// raise gives the leaders of seats for which a higher epoch is known the epoch after that.
func (o *office) raise(k *contest) {
	for _, s := range k.seats {
		if !s.expected && s.asked.IsZero() && s.leader != election.None && s.top > s.epoch {
			s.to, s.pin = s.leader, s.pinned
			o.release(k, s, "a higher epoch is known than its leader's") // of a different side of a partition, or of a cluster that began again
		}
	}
}

// ask requests a full report from a member, at most once in two heartbeats.
func (o *office) ask(p *peer) {
	if o.now.Sub(p.askedAt) < 2*o.timing.Heartbeat {
		return
	}
	p.askedAt = o.now
	o.send(p.id, &frame{Op: opAsk})
}

// acked applies a member's acknowledgement, after the Core has: if a stall has just ended leadership,
// nothing is requested any more.
func (o *office) acked(m *election.Message) {
	s := m.Shares
	if s == nil || !same(m.Token, o.token) {
		return
	}
	p := o.peerOf(m.From)
	if s.Stamp > p.stamp {
		o.heard(p, s.Stamp)
	}
	if s.Version != 0 && (!p.reported || s.Version != p.version) { // 0: its full report is still to come
		o.ask(p)
	}
}

// claimed applies a claim.
func (o *office) claimed(p *peer, cl claim) {
	k := o.contests.byName[cl.Name]
	if k == nil {
		if !cl.Stands && cl.Epoch == 0 || len(o.contests.byName) >= MaxElections {
			return
		}
		k = o.contests.contest(cl.Name)
	}
	o.claims(k, p, cl)
}

// claims takes in what a member claims of a contest.
func (o *office) claims(k *contest, p *peer, cl claim) {
	k.last = max(k.last, cl.Last, cl.Epoch, cl.Done)
	o.candidacy(k, p, cl)
	for _, s := range k.seats {
		if s.leader == p.id && s.epoch <= cl.Done && s.epoch != cl.Epoch {
			if cl.Resigned {
				s.avoid, s.pin = p.id, true
			}
			o.vacate(k, s, election.CauseResigned)
		}
	}
	if cl.Epoch > 0 {
		o.keeps(k, p.id, cl)
	}
	o.raise(k)
	o.lookAt(k)
}

// candidacy notes whether a member is a candidate.
func (o *office) candidacy(k *contest, p *peer, cl claim) {
	can := k.candidate(p)
	if can == nil {
		if !cl.Stands && cl.Epoch == 0 {
			return
		}
		can = k.enters(p, len(o.peers)+1)
	}
	if cl.Stands && !can.stands {
		p.names++
	} else if can.stands && !cl.Stands {
		p.names--
	}
	if can.stands != cl.Stands || can.prefer != cl.Prefer || int(can.weight) != cl.Weight || can.held != cl.Epoch {
		o.uneven = true
	}
	can.stands, can.weight, can.prefer, can.seats, can.held = cl.Stands, int32(cl.Weight), cl.Prefer, int8(cl.Seats), cl.Epoch
	if !cl.Stands && cl.Epoch == 0 {
		k.leaves(p)
	}
	o.choosy = o.choosy || cl.Prefer
	weight, want := 0, 0
	for i := range k.candidates {
		if other := &k.candidates[i]; other.stands {
			weight, want = max(weight, int(other.weight)), max(want, int(other.seats))
		}
	}
	if weight > 0 && (weight != k.weight || want != k.want) {
		for _, s := range k.seats {
			if s.charged != nil {
				s.charged.load += weight - k.weight
			}
			if s.index >= want && s.index < k.want && s.leader == election.None {
				o.changes(k, s) // it ends
			}
		}
		k.weight, k.want = weight, want
		o.uneven = true
	}
}

// keeps takes in that a member leads a seat, or still works for it. Of two that do the
// higher epoch stays.
func (o *office) keeps(k *contest, id election.ID, cl claim) {
	s := k.seat(cl.Seat)
	switch {
	case s.leader == id && s.epoch == cl.Epoch:
		s.expected = false
	case cl.Epoch > s.epoch, cl.Epoch == s.epoch && id.Compare(s.last) >= 0:
		o.noteName("keeps", k.name, id, cl.Epoch, "it reports that it holds it")
		s.epoch, s.expected, s.cause, s.pinned = cl.Epoch, false, election.CauseSuperseded, s.pinned && s.leader == id
		s.decided()
		o.seatAt(k, s, id)
		o.changes(k, s)
	}
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
	single := len(o.ordered()) == len(o.names) // as in unlike
	for _, k := range o.contests.ordered() {
		if k.reportedIn == o.reports {
			continue
		}
		e := k.entry
		if e == nil {
			e = o.at(key{k.name, 0})
		}
		if e == nil || e.Seat.Seat != 0 || !single && len(o.names[k.name]) != 1 {
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
