package named

import (
	"cmp"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has what members receive from the coordinator.

// handle takes in a frame of the coordinator's.
func (m *member) handle(f *frame) {
	if f.Incarnation != 0 && f.Incarnation != m.incarnation {
		return // it is for an earlier process of this member
	}
	m.vouched(f.Echo)
	switch f.Op {
	case opAsk:
		m.reportAll()
	case opSame:
		if f.Digest != m.digest {
			m.ask()
			return
		}
		m.welcome()
		m.version = f.Version
		m.offers()
	case opAssign:
		m.assigned(f)
	case opRelease:
		for _, s := range f.Seats {
			if h := m.heldAs(s); h != nil {
				m.lose(s.Name, h, election.CauseResigned)
			}
		}
	case opReply:
		if m.requests[f.Number] {
			delete(m.requests, f.Number)
			m.replies = append(m.replies, Reply{f.Number, f.Error, f.Why})
		}
	}
}

func (m *member) welcome() { m.welcomed, m.retryAt, m.retries = true, time.Time{}, 0 }

// assigned takes in assignments: those that have changed, or all.
func (m *member) assigned(f *frame) {
	if !f.Whole {
		if !m.welcomed || f.Base != m.version {
			return // if it has missed some, it asks by the next heartbeat
		}
		m.learnAll(f.Seats)
		m.drain(f.Drained, f.Forced)
		m.version = f.Version
		return
	}
	if f = m.whole.add(f); f == nil {
		return
	}
	m.welcome()
	m.install(f.Seats)
	m.drain(f.Drained, f.Forced)
	m.version, m.askedAt = f.Version, 0
	m.offers()
}

// install takes in all assignments, which are in order.
func (m *member) install(all []Seat) {
	stays := make(map[key]bool, len(all))
	for _, s := range all {
		stays[s.key()] = true
	}
	var gone []Seat
	for _, e := range m.ordered() {
		if !stays[e.key()] {
			s := e.Seat
			s.Gone = true
			gone = append(gone, s)
		}
	}
	if len(gone) > 0 {
		all = append(gone, all...)
	}
	m.learnAll(all)
}

// learnAll applies the assignments of one frame.
func (m *member) learnAll(seats []Seat) {
	m.changes = slices.Grow(m.changes, 2*len(seats)) // each may be lost and led: growth would be garbage in the middle of a failover
	for _, s := range seats {
		m.learn(s)
	}
}

// learn applies an assignment.
func (m *member) learn(s Seat) {
	h := m.holds[s.Name]
	if h != nil && h.seat == s.Seat && (s.Leader != m.self || s.Epoch != h.epoch || s.Gone) {
		m.lose(s.Name, h, election.CauseSuperseded)
		m.touch(s.Name) // the coordinator learns of a higher epoch, or of work that still runs
	}
	k := s.key()
	if s.Gone {
		if e := m.at(k); e != nil {
			m.changes = append(m.changes, Change{Name: k.name, Seat: k.seat, Token: e.shown, Lost: e.shown.Defined(), Cause: election.CauseResigned, Gone: true})
		}
		m.drop(k)
		return
	}
	e := m.set(s)
	if s.Leader == m.self {
		m.offered(e)
	}
	m.show(e, s.Cause)
}

// offers looks at all that this member was assigned and does not lead.
func (m *member) offers() {
	for _, e := range m.ordered() {
		if e.Leader == m.self {
			m.offered(e)
			m.show(e, "")
		}
	}
}

// offered takes a seat that was assigned to this member, or declines it. An epoch that it has seen before, and does
// not hold now, has ended: the coordinator has yet to receive that, or has it from a report that was late.
func (m *member) offered(e *entry) {
	if !m.lacks(e) {
		return
	}
	_, stands := m.campaigns[e.Name]
	if e.Epoch <= e.top || m.holds[e.Name] != nil || !stands || !m.fit || !m.now.Before(m.until) {
		m.touch(e.Name)
	} else {
		m.holds[e.Name] = &hold{seat: e.Seat.Seat, epoch: e.Epoch}
		m.leading++
	}
	e.top = max(e.top, e.Epoch)
}

// show notifies watchers if what they see of a seat has changed.
func (m *member) show(e *entry, cause election.Cause) {
	now := e.token()
	if !m.sees || e.Leader == m.self && !m.leads(e.Seat) {
		now = election.Token{}
	}
	if m.sees && e.Epoch < e.top {
		now = election.Token{} // its epoch is about to be raised:
		m.touch(e.Name)        // the coordinator is to learn of the higher epoch
	}
	if now == e.shown {
		return
	}
	if e.shown.Defined() {
		cause = cmp.Or(cause, election.CauseSuperseded)
		m.changes = append(m.changes, Change{Name: e.Name, Seat: e.Seat.Seat, Token: e.shown, Lost: true, Cause: cause})
	}
	if e.shown, e.top = now, max(e.top, now.Epoch); now.Defined() {
		m.changes = append(m.changes, Change{Name: e.Name, Seat: e.Seat.Seat, Token: now})
	}
}

// look updates what is shown. Without a coordinator the last leaders are shown for as long as a
// lead lasts, and none after that. All is shown again when a coordinator has sent the present
// state.
func (m *member) look() {
	sees := m.sees
	switch {
	case m.view.Defined():
		sees = sees || m.welcomed
	case !m.now.Before(m.until):
		sees = false
	}
	if sees == m.sees {
		return
	}
	m.sees = sees
	for _, e := range m.ordered() {
		m.show(e, election.CauseSilent)
	}
}
