package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps two members' work apart. A member whose leadership has ended reports in all its
// messages, and in beats, that its work still runs, until it has stopped. No member claims
// meanwhile, for as long as that member is received.

// othersWork is work of ended leaderships that may still run elsewhere.
type othersWork struct {
	departing   []departing // leaders that were removed and have still to stop
	contestHeld bool        // a contest waits for that
}

// departing is a leader that is on the list no more. Its link stays until it has
// stopped, or is gone.
type departing struct {
	id    election.ID
	heard time.Time // when it was last received
	told  time.Time // when it was last notified that it is no member any more
}

// drains reports whether a member's work may still run: it reported so, and has not been silent
// since for longer than is tolerated.
func (peer *member) drains(now time.Time, bears time.Duration) bool {
	return peer.draining && !peer.down && now.Sub(peer.saidAt) <= bears
}

// givesWay reports whether t has ended as its leader sees it, and as the leader reports on an
// existing link, though its work runs. Its beats show when that has stopped: no member need follow
// it until then.
func (r *roll) givesWay(t election.Token, now time.Time) bool {
	i, ok := r.index[t.Leader.ID]
	return ok && r.members[i].link && r.members[i].drains(now, r.timing.Bears()) && !r.noLinks
}

// drains is the first member whose work of an ended leadership still runs; None: there is none.
func (r *roll) drains(now time.Time) election.ID {
	i := slices.IndexFunc(r.members, func(peer member) bool { return peer.ID != r.self && peer.drains(now, r.timing.Bears()) })
	if i < 0 || r.noLinks {
		return election.None // without links no member is received unless it has something to send
	}
	return r.members[i].ID
}

// othersDrain is drains, members that depart included.
func (m *Machine) othersDrain() election.ID {
	if len(m.departing) > 0 {
		return m.departing[0].id
	}
	return m.drains(m.now)
}

// holdsContest puts a contest off while work of an ended leadership still runs.
func (m *Machine) holdsContest() bool {
	whose := m.othersDrain()
	if whose == election.None {
		return false
	}
	if !m.contestHeld {
		m.contestHeld = true
		m.note("waits", whose, election.Token{}, "its work has still to stop")
	}
	m.wakeForDraining()
	return true
}

// resumeContest begins the election that was held up, once nothing holds it up any more. Leaders that depart
// and were silent for longer than is tolerated are forgotten.
func (m *Machine) resumeContest() {
	for i := 0; i < len(m.departing); {
		if m.now.Sub(m.departing[i].heard) <= m.cfg.Timing.Bears() {
			i++
			continue
		}
		m.departed(i, "silent for "+bears(m.cfg.Timing))
	}
	if !m.contestHeld || m.othersDrain() != election.None {
		return
	}
	m.contestHeld = false
	m.contestBegins()
	m.reconsider() // until now no member could lead
	if m.undecided() {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	}
}

// wakeForDraining: a draining member counts as down after the silence that is tolerated.
func (m *Machine) wakeForDraining() {
	for i := range m.members {
		if peer := &m.members[i]; m.contestHeld && i != m.me && peer.drains(m.now, m.cfg.Timing.Bears()) {
			m.alarms.Wake(peer.saidAt.Add(m.cfg.Timing.Bears() + 1))
		}
	}
	for _, d := range m.departing {
		m.alarms.Wake(d.heard.Add(m.cfg.Timing.Bears() + 1))
	}
}

// keeps keeps the link to a leader that is on the list no more.
func (o *othersWork) keeps(peer *member) {
	o.departing = append(slices.Clone(o.departing), departing{id: peer.ID, heard: peer.heard})
}

// isDeparting returns where id is among the departing members, negative: nowhere.
func (o *othersWork) isDeparting(id election.ID) int {
	return slices.IndexFunc(o.departing, func(d departing) bool { return d.id == id })
}

// fromDeparting handles a message of a process that is no member any more. It may not know that: it
// is notified when its list differs. A member that has left may have been admitted again since by a
// member that is gone: it is asked.
func (m *Machine) fromDeparting(i int, msg *election.Message) {
	d := &m.departing[i]
	switch msg.Kind {
	case election.Beat:
		d.heard = m.now
		m.sendOutside(d.id, election.Message{Kind: election.Ack, Stamp: msg.Stamp}) // else it hangs up
		if e, ok := m.Entry(d.id); ok && msg.Digest != m.roster.Digest() && m.now.Sub(d.told) > m.cfg.Timing.T() {
			d.told = m.now
			m.sendOutside(d.id, election.Message{Kind: election.Members, List: []election.Member{e}})
			if e.Departure == election.Left {
				m.sendOutside(d.id, election.Message{Kind: election.GetMembers})
			}
		}
	case election.Resign:
		m.departed(i, "it has stopped")
	case election.Members:
		if own := slices.IndexFunc(msg.List, func(e election.Member) bool { return e.ID == m.cfg.Self.ID && e.Departure == election.Removed }); own >= 0 {
			m.removedBy(d.id, msg.List[own])
		}
		left, _ := m.Entry(d.id)
		for _, e := range msg.List { // it is believed that it is on the list again, unless it was removed
			if e.ID == d.id && e.Departure == election.Present && left.Departure == election.Left {
				m.merge([]election.Member{e}, d.id)
			}
		}
	}
}

// sendOutside sends msg to a process that is no member any more.
func (m *Machine) sendOutside(to election.ID, msg election.Message) {
	m.do(election.Action{Kind: election.Send, To: to, Message: m.fill(to, msg)})
}

// departed forgets a process that has left the list and works no more, or is gone.
func (m *Machine) departed(i int, why string) {
	id := m.departing[i].id
	m.departing = slices.Delete(slices.Clone(m.departing), i, i+1)
	m.note("has departed", id, election.Token{}, why)
	m.do(election.Action{Kind: election.Notify, Member: id, Status: election.StateRemoved})
	m.do(election.Action{Kind: election.Hangup, To: id})
}

// departingLink handles what the driver reports of the link to a departing process.
func (m *Machine) departingLink(i int, ev election.Event) {
	switch {
	case ev.Kind == election.LinkDown:
		m.do(election.Action{Kind: election.Dial, To: ev.Peer}) // a refusal proves that its process is gone
	case ev.Kind == election.DialFailed && ev.Refused:
		m.departed(i, "it refuses the connection")
	case ev.Kind == election.DialFailed && ev.Err == election.ErrRemoved:
		m.removedBy(ev.Peer, ev.Member)
	}
}
