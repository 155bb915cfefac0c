package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file tells the removed so. Who is away when it is removed hears of it when it
// returns to any that is on its list; but one that has removed, on its side, all
// that could tell it would never ask. A leader therefore knocks at those it has still
// to tell.

// knocking is what a leader has still to tell to whom.
type knocking struct {
	untold    []election.ID // removed, and not known to have heard of it; never changed in place
	at        election.ID   // whose door it is at; None: at nobody's
	until     time.Time     // when it hangs up there
	nextKnock time.Time     // not before
	yields    bool          // it ends, for whom it has removed, when that is on disk
}

// untell notes whom a leader has to tell that it is a member no more.
func (m *Machine) untell(e election.Member) {
	if e.Gone == election.Removed && e.ID != m.cfg.Self.ID && !m.cfg.NoDetector && !slices.Contains(m.untold, e.ID) {
		m.untold = append(slices.Clone(m.untold), e.ID)
		m.nextKnock = later(m.nextKnock, m.now.Add(maxBackoff)) // it was told on its link, if there was one
	}
}

// knock dials one of the removed a second, in turn, until each has heard, or has
// refused.
func (m *Machine) knock() {
	if m.at != election.None {
		if m.now.Before(m.until) {
			return
		}
		m.leaveDoor()
	}
	if len(m.untold) == 0 || !m.leading() || m.now.Before(m.nextKnock) {
		return
	}
	id := m.untold[0]
	m.untold = append(slices.Clone(m.untold[1:]), id)
	e, _ := m.Entry(id)
	switch {
	case e.Gone != election.Removed:
		m.hasHeard(id)
	case m.isDeparting(id) < 0:
		m.at, m.until = id, m.now.Add(2*m.cfg.Timing.DialTime()+m.cfg.Timing.T())
		m.nextKnock = m.now.Add(maxBackoff)
		m.do(election.Action{Kind: election.Dial, To: id})
	}
}

// wakeForKnock adds what there is to tell to the deadline.
func (m *Machine) wakeForKnock() {
	switch {
	case m.at != election.None:
		m.wake(m.until)
	case len(m.untold) > 0 && m.leading():
		m.wake(later(m.nextKnock, m.now.Add(m.cfg.Timing.Heartbeat)))
	}
}

// leaveDoor hangs up.
func (m *Machine) leaveDoor() {
	m.do(election.Action{Kind: election.Hangup, To: m.at})
	m.at = election.None
}

func (m *Machine) hasHeard(id election.ID) {
	m.untold = slices.DeleteFunc(slices.Clone(m.untold), func(other election.ID) bool { return other == id })
}

// atDoor takes in what the driver says of the removed one at whose door we are.
func (m *Machine) atDoor(ev election.Event) {
	id := m.at
	switch {
	case ev.Kind == election.LinkUp:
		if e, ok := m.Entry(id); ok && e.Gone == election.Removed {
			m.note("tells", id, election.Token{}, "that it was removed")
			m.sendAside(id, election.Message{Kind: election.Members, List: []election.Member{e}})
		}
		m.until = m.now.Add(m.cfg.Timing.T()) // to hang up at once could lose it
		m.hasHeard(id)
		m.wake(m.until)
		return
	case ev.Kind == election.DialFailed && ev.Err == election.ErrRemoved:
		m.hasHeard(id)
		m.leaveDoor()
		m.removedBy(id, ev.Member)
		return
	case ev.Kind == election.DialFailed && (ev.Refused || ev.Err != nil && ev.Err != election.ErrSameID && ev.Err != election.ErrOldIncarnation):
		m.hasHeard(id) // its process is gone, or another: if it returns, it asks
	}
	m.leaveDoor()
}

// removedBy: one that we have removed has removed us. Whoever hears other members
// leaves it to them, who know of one of the removals first. Of two that are alone
// the lower ends, and takes its own removal back: exactly one of them is left.
func (m *Machine) removedBy(id election.ID, grave election.Member) {
	other, ok := m.Entry(id)
	if !ok || other.Gone != election.Removed || m.place != onList || m.linked() || m.outdates(grave) || !other.Above(m.cfg.Self) {
		return
	}
	m.note("yields", id, election.Token{}, "each has removed the other, and it ranks higher")
	m.yields = true
	other.Gone = election.Present
	m.change(other)
	if grave.ID == m.cfg.Self.ID && grave.Gone == election.Removed {
		m.merge([]election.Member{grave}, id)
	}
	if m.place == onList {
		m.evicted()
	}
}

// endYield ends this member as soon as its disk has it that the other one holds, or
// refuses: else it would send that one away when it is added again.
func (m *Machine) endYield() {
	if m.yields && !m.saving {
		m.yields = false
		m.do(election.Action{Kind: election.Halt, Err: election.ErrRemoved})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
