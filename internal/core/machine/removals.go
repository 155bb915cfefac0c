package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/reaper"
)

// This file notifies the removed. A member that is away when it is removed learns of it when it
// returns to any that is on its list; but a member that has removed, on its side, all that could
// notify it would never ask. A leader therefore dials those it has still to notify.

// removalNotices is what a leader has still to send to the removed.
type removalNotices struct {
	unnotified  []election.ID // removed, and not known to have received that; never changed in place
	notifying   election.ID   // the removed member that is dialed for it, or notified; None: there is none
	notifyUntil time.Time     // when it hangs up
	nextNotice  time.Time     // not before
	yields      bool          // it ends, for the member that it has removed, when that is on disk
}

// reap removes a member that has been away for too long, if this member leads.
func reap(m *Machine) {
	all := make([]reaper.Member, 0, len(m.members))
	for i := range m.members {
		p := &m.members[i]
		relayed := !p.viaAt.IsZero() && m.now.Sub(p.viaAt) <= m.farT()
		away := i != m.me && !p.link && !relayed && (p.state == election.StateDown || p.state == election.StateUnreachable)
		all = append(all, reaper.Member{ID: p.ID, Away: away, Votes: !p.Observer})
	}
	m.reaper.Look(m.now, m.cfg.Timing.T(), m.View().Leader.ID, 0, all)
	if id := m.reaper.Due(); id != election.None && m.tenure.Leading() {
		m.note("reaps", id, m.View(), "it has been away for "+m.cfg.ReapAfter.String())
		m.remove(id)
	}
}

// mustNotify records which processes a leader has to notify that they are members no more.
func (n *removalNotices) mustNotify(e election.Member, now time.Time) {
	if e.Departure == election.Removed && !slices.Contains(n.unnotified, e.ID) {
		n.unnotified = append(slices.Clone(n.unnotified), e.ID)
		n.nextNotice = later(n.nextNotice, now.Add(maxBackoff)) // it was notified on its link, if there was any
	}
}

// notifyRemoved dials a removed member each second, in turn, until each was notified, or has
// refused.
func (m *Machine) notifyRemoved() {
	if m.notifying != election.None {
		if m.now.Before(m.notifyUntil) {
			return
		}
		m.endNotice()
	}
	if len(m.unnotified) == 0 || !m.tenure.Leading() || m.now.Before(m.nextNotice) {
		return
	}
	id := m.unnotified[0]
	m.unnotified = append(slices.Clone(m.unnotified[1:]), id)
	e, _ := m.Entry(id)
	switch {
	case e.Departure != election.Removed:
		m.notified(id)
	case m.isDeparting(id) < 0:
		m.notifying, m.notifyUntil = id, m.now.Add(2*m.cfg.Timing.DialTime()+m.cfg.Timing.T())
		m.nextNotice = m.now.Add(maxBackoff)
		m.do(election.Action{Kind: election.Dial, To: id})
	}
}

// noticeDue is when there is a notice to look at; zero: there is none.
func (n *removalNotices) noticeDue(leading bool, soon time.Time) time.Time {
	switch {
	case n.notifying != election.None:
		return n.notifyUntil
	case len(n.unnotified) > 0 && leading:
		return later(n.nextNotice, soon)
	}
	return time.Time{}
}

// endNotice hangs up.
func (m *Machine) endNotice() {
	m.do(election.Action{Kind: election.Hangup, To: m.notifying})
	m.notifying = election.None
}

func (n *removalNotices) notified(id election.ID) {
	n.unnotified = slices.DeleteFunc(slices.Clone(n.unnotified), func(other election.ID) bool { return other == id })
}

// noticeLink handles what the driver reports of the link to the removed member that is being
// notified.
func (m *Machine) noticeLink(ev election.Event) {
	id := m.notifying
	switch {
	case ev.Kind == election.LinkUp:
		if e, ok := m.Entry(id); ok && e.Departure == election.Removed {
			m.note("tells", id, election.Token{}, "that it was removed")
			m.sendOutside(id, election.Message{Kind: election.Members, List: []election.Member{e}})
		}
		m.notifyUntil = m.now.Add(m.cfg.Timing.T()) // to hang up at once could lose it
		m.notified(id)
		m.alarms.Wake(m.notifyUntil)
		return
	case ev.Kind == election.DialFailed && ev.Err == election.ErrRemoved:
		m.notified(id)
		m.endNotice()
		m.removedBy(id, ev.Member)
		return
	case ev.Kind == election.DialFailed && (ev.Refused || ev.Err != nil && ev.Err != election.ErrSameID && ev.Err != election.ErrOldIncarnation):
		m.notified(id) // its process is gone, or replaced: if it returns, it asks
	}
	m.endNotice()
}

// removedBy: a member that we have removed has removed us. A member that receives further members
// leaves it to them, which know of the first of the removals. Of two without further members the
// lower ends, and takes its own removal back: exactly one of them is left.
func (m *Machine) removedBy(id election.ID, tombstone election.Member) {
	other, ok := m.Entry(id)
	if !ok || other.Departure != election.Removed || m.place != onList || m.linked() || m.outdates(tombstone) || !other.Above(m.cfg.Self) {
		return
	}
	m.note("yields", id, election.Token{}, "each has removed the other, and it ranks higher")
	m.yields = true
	other.Departure = election.Present
	m.change(other)
	if tombstone.ID == m.cfg.Self.ID && tombstone.Departure == election.Removed {
		m.merge([]election.Member{tombstone}, id)
	}
	if m.place == onList {
		m.removedSelf()
	}
}

// Yields reports whether this member ends for a member that it has removed and that has removed it,
// as soon as its disk answers.
func (n *removalNotices) Yields() bool { return n.yields }

// endYield ends this member as soon as its disk has it that the winner holds, or refuses: otherwise
// it would remove the winner when it is added again.
func (m *Machine) endYield() {
	if m.yields && !m.disk.Busy() {
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
