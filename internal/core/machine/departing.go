package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps two members' work apart. Whose leadership has ended says in all
// its messages, and in beats, that its work still runs, until it has stopped; and
// nobody claims meanwhile, for as long as it is heard.

// othersWork is work of ended leaderships that may still run elsewhere.
type othersWork struct {
	departing   []departing // leaders that were removed and have still to stop
	contestHeld bool        // a contest waits for that
}

// departing is a leader that is on the list no more. Its link stays until it has
// stopped, or is gone.
type departing struct {
	id    election.ID
	heard time.Time // when it last said anything
	told  time.Time // when it was last told that it is no member any more
}

// drains reports whether a member's work may still run: it said so, and has not been
// silent since for longer than is borne.
func (peer *member) drains(now time.Time, bears time.Duration) bool {
	return peer.draining && !peer.down && now.Sub(peer.saidAt) <= bears
}

// saysDraining reports whether a member's work may run by what it says: it drains,
// or it beats under a leadership that has been superseded.
func (m *Machine) saysDraining(msg *election.Message) bool {
	late := msg.Kind == election.Beat && msg.Token.Leader.ID == msg.From && m.tenure.Held().Above(msg.Token)
	return (msg.Draining || late) && !m.cfg.NoDetector
}

// givesWay reports whether t has ended in its leader's own eyes, as that one says on a
// link that stands, though its work runs. Its beats tell when that has stopped: nobody
// need follow it until then.
func (m *Machine) givesWay(t election.Token) bool {
	i, ok := m.index[t.Leader.ID]
	return ok && m.members[i].link && m.members[i].drains(m.now, m.cfg.Timing.Bears()) && !m.cfg.NoDetector
}

// presumeDraining: t takes the place of a leadership whose leader, to whom a link
// stands, has still not said what has become of its work.
func (m *Machine) presumeDraining(t election.Token) {
	if i, ok := m.index[m.tenure.Held().Leader.ID]; ok && m.tenure.Live() && i != m.me && t.Leader.ID != m.tenure.Held().Leader.ID && m.members[i].link {
		m.members[i].draining = !m.cfg.NoDetector
	}
}

// othersDrain reports whether work of an ended leadership still runs somewhere.
func (m *Machine) othersDrain() bool {
	if m.cfg.NoDetector {
		return false // nobody is heard unless there is something to say
	}
	for i := range m.members {
		if i != m.me && m.members[i].drains(m.now, m.cfg.Timing.Bears()) {
			return true
		}
	}
	return len(m.departing) > 0
}

// holdsContest puts a contest off while work of an ended leadership still runs.
func (m *Machine) holdsContest() bool {
	if !m.othersDrain() {
		return false
	}
	if !m.contestHeld {
		m.contestHeld = true
		m.note("waits", m.firstDraining(), election.Token{}, "its work has still to stop")
	}
	m.wakeForDraining()
	return true
}

// firstDraining is the first of those whose work still runs.
func (m *Machine) firstDraining() election.ID {
	if len(m.departing) > 0 {
		return m.departing[0].id
	}
	i := slices.IndexFunc(m.members, func(peer member) bool { return peer.ID != m.cfg.Self.ID && peer.drains(m.now, m.cfg.Timing.Bears()) })
	return m.members[i].ID
}

// resumeContest begins the contest that was held up, once nothing does any more.
func (m *Machine) resumeContest() {
	m.expireDeparting()
	if !m.contestHeld || m.othersDrain() {
		return
	}
	m.contestHeld = false
	m.contestBegins()
	m.reconsider() // until now nobody could lead
	if m.undecided() {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	}
}

// wakeForDraining: whoever drains counts as down after the silence that is borne.
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

// keepDeparting keeps the link to a leader that is on the list no more.
func (m *Machine) keepDeparting(peer *member) {
	m.departing = append(slices.Clone(m.departing), departing{id: peer.ID, heard: peer.heard})
	m.note("awaits", peer.ID, election.Token{}, "the end of its work")
	m.wakeForDraining()
}

// isDeparting gives where id is among those who depart, negative: nowhere.
func (m *Machine) isDeparting(id election.ID) int {
	return slices.IndexFunc(m.departing, func(d departing) bool { return d.id == id })
}

// fromDeparting takes in what one says that is no member any more. It may not have
// heard of that: it is told when its list differs. One that has left may have been let
// in again since by a member that is gone: it is asked.
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
		m.letInElsewhere(d.id, msg.List)
	}
}

// letInElsewhere takes the word of one that has left, as we know, for its being on the list again. Who
// was removed is not believed.
func (m *Machine) letInElsewhere(id election.ID, list []election.Member) {
	if left, _ := m.Entry(id); left.Departure != election.Left {
		return
	}
	for _, e := range list {
		if e.ID == id && e.Departure == election.Present {
			m.merge([]election.Member{e}, id)
		}
	}
}

// sendOutside sends msg to one that is no member any more.
func (m *Machine) sendOutside(to election.ID, msg election.Message) {
	m.do(election.Action{Kind: election.Send, To: to, Message: m.fill(to, msg)})
}

// departed forgets one that has left the list and works no more, or is gone.
func (m *Machine) departed(i int, why string) {
	id := m.departing[i].id
	m.departing = slices.Delete(slices.Clone(m.departing), i, i+1)
	m.note("has departed", id, election.Token{}, why)
	m.do(election.Action{Kind: election.Notify, Member: id, Status: election.StateRemoved})
	m.do(election.Action{Kind: election.Hangup, To: id})
}

// departingLink takes in what the driver says of the link to one that departs.
func (m *Machine) departingLink(i int, ev election.Event) {
	switch {
	case ev.Kind == election.LinkDown:
		m.do(election.Action{Kind: election.Dial, To: ev.Peer}) // a refusal tells that its process is gone
	case ev.Kind == election.DialFailed && ev.Refused:
		m.departed(i, "it refuses the connection")
	case ev.Kind == election.DialFailed && ev.Err == election.ErrRemoved:
		m.removedBy(ev.Peer, ev.Member)
	}
}

// expireDeparting forgets those that were silent for longer than is borne.
func (m *Machine) expireDeparting() {
	for i := 0; i < len(m.departing); {
		if m.now.Sub(m.departing[i].heard) <= m.cfg.Timing.Bears() {
			i++
			continue
		}
		m.departed(i, "silent for "+bears(m.cfg.Timing))
	}
}
