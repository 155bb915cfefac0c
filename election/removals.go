package election

import (
	"slices"
	"time"
)

// This file tells the removed so. Who is away when it is removed hears of it when it
// returns to any that is on its list; but one that has removed, on its side, all
// that could tell it would never ask. A leader therefore knocks at those it has still
// to tell.

// knocking is what a leader has still to tell to whom.
type knocking struct {
	untold    []ID      // removed, and not known to have heard of it; never changed in place
	at        ID        // whose door it is at; None: at nobody's
	until     time.Time // when it hangs up there
	nextKnock time.Time // not before
	yields    bool      // it ends, for whom it has removed, when that is on disk
}

// untell notes whom a leader has to tell that it is a member no more.
func (m *Machine) untell(e Member) {
	if e.Gone == Removed && e.ID != m.cfg.Self.ID && !m.cfg.NoDetector && !slices.Contains(m.untold, e.ID) {
		m.untold = append(slices.Clone(m.untold), e.ID)
		m.nextKnock = later(m.nextKnock, m.now.Add(maxBackoff)) // it was told on its link, if there was one
	}
}

// knock dials one of the removed a second, in turn, until each has heard, or has
// refused.
func (m *Machine) knock() {
	if m.at != None {
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
	case e.Gone != Removed:
		m.hasHeard(id)
	case m.isDeparting(id) < 0:
		m.at, m.until = id, m.now.Add(2*m.cfg.Timing.DialTime()+m.cfg.Timing.T())
		m.nextKnock = m.now.Add(maxBackoff)
		m.do(Action{Kind: Dial, To: id})
	}
}

// wakeForKnock adds what there is to tell to the deadline.
func (m *Machine) wakeForKnock() {
	switch {
	case m.at != None:
		m.wake(m.until)
	case len(m.untold) > 0 && m.leading():
		m.wake(later(m.nextKnock, m.now.Add(m.cfg.Timing.Heartbeat)))
	}
}

// leaveDoor hangs up.
func (m *Machine) leaveDoor() {
	m.do(Action{Kind: Hangup, To: m.at})
	m.at = None
}

func (m *Machine) hasHeard(id ID) {
	m.untold = slices.DeleteFunc(slices.Clone(m.untold), func(other ID) bool { return other == id })
}

// atDoor takes in what the driver says of the removed one at whose door we are.
func (m *Machine) atDoor(ev Event) {
	id := m.at
	switch {
	case ev.Kind == LinkUp:
		if e, ok := m.Entry(id); ok && e.Gone == Removed {
			m.note("tells", id, Token{}, "that it was removed")
			m.sendAside(id, Message{Kind: Members, List: []Member{e}})
		}
		m.until = m.now.Add(m.cfg.Timing.T()) // to hang up at once could lose it
		m.hasHeard(id)
		m.wake(m.until)
		return
	case ev.Kind == DialFailed && ev.Err == ErrRemoved:
		m.hasHeard(id)
		m.leaveDoor()
		m.removedBy(id, ev.Member)
		return
	case ev.Kind == DialFailed && (ev.Refused || ev.Err != nil && ev.Err != ErrSameID && ev.Err != ErrOldIncarnation):
		m.hasHeard(id) // its process is gone, or another: if it returns, it asks
	}
	m.leaveDoor()
}

// removedBy: one that we have removed has removed us. Whoever hears other members
// leaves it to them, who know of one of the removals first. Of two that are alone
// the lower ends, and takes its own removal back: exactly one of them is left.
func (m *Machine) removedBy(id ID, grave Member) {
	other, ok := m.Entry(id)
	if !ok || other.Gone != Removed || m.expelled || m.linked() || m.outdates(grave) || !other.Above(m.cfg.Self) {
		return
	}
	m.note("yields", id, Token{}, "each has removed the other, and it ranks higher")
	m.yields = true
	other.Gone = Present
	m.change(other)
	if grave.ID == m.cfg.Self.ID && grave.Gone == Removed {
		m.merge([]Member{grave}, id)
	}
	if !m.expelled {
		m.evicted()
	}
}

// endYield ends this member as soon as its disk has it that the other one holds, or
// refuses: else it would send that one away when it is added again.
func (m *Machine) endYield() {
	if m.yields && !m.saving {
		m.yields = false
		m.do(Action{Kind: Halt, Err: ErrRemoved})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
