package boss

import (
	"net"
	"strconv"
	"time"
)

// This file has foreign members that have lost their way find a boss again: those
// that wait for an announcement which will not come, those whose boss leads no
// longer, and a boss beside another.

// rivalled hears a foreign member say that it leads although we do. A node of source
// 002 that leads goes on doing so when it hears of another boss, so it is made to hold
// an election.
func (n *connections) rivalled(p *peer) {
	if n.still(p) {
		n.depose(p)
	}
}

// beside hears a foreign member say that it leads although we follow another. A boss
// that is batuta's sees to it. Of two foreign ones the higher is followed, and the
// lower made to hold an election if it will ask us in it.
func (n *connections) beside(p *peer) {
	boss := n.boss()
	if boss == nil || boss.kind != legacy || !n.still(p) {
		return
	}
	switch {
	case p.id.Compare(boss.id) > 0:
		n.site.claimed(p)
	case n.site.Self.Compare(p.id) > 0 && !p.firm:
		n.depose(p)
	default:
		p.rival = time.Time{} // nothing is to be done; it is asked again at the next heartbeat
	}
}

// still reports whether a member has said for a while that it leads beside another:
// some follow by themselves.
func (n *connections) still(p *peer) bool {
	now := time.Now()
	if p.rival.IsZero() {
		p.rival = now
	}
	if now.Sub(p.rival) < n.site.Timing.T()/2 {
		return false
	}
	p.rival = now
	n.log.Debug("two lead", "member", p.id, "leader", n.site.View().Leader.ID)
	return true
}

// depose has a foreign member hold an election. If it ranks us above itself it asks
// us and leads no longer; if not, it announces itself anew, and we follow.
func (n *connections) depose(p *peer) {
	p.pushed = time.Now()
	f := n.self.begin(typeElection, nil)
	f.IP, f.Batuta = n.self.nobody(), nil
	n.log.Debug("sends", "type", typeElection, "to", p.id, "ip", f.IP)
	n.start(&exchange{to: p, frames: [][]byte{n.self.bytes(f)}, silent: true})
}

// settled hears a foreign member call an election; true: while another leads there
// is no need of one, and the caller is told who that is.
func (n *connections) settled(p *peer) bool {
	above := n.site.Self.Compare(p.id) > 0
	boss := n.boss()
	switch {
	case boss == nil || !above:
		return false
	case boss == p: // it leads no longer if we answer
		n.site.deposed(p)
		return false
	}
	p.slot.answer(nil)
	if boss.kind == legacy && !p.pointed.IsZero() && time.Since(p.pointed) < n.wire.Options.Silence {
		// It has not got there: the boss still keeps an earlier connection with it, and
		// closes this one. An election has the boss drop them all, and announce itself.
		p.pointed = time.Time{}
		n.depose(boss)
		return true
	}
	p.pointed = time.Now()
	p.point = time.Now().Add(n.site.Timing.T() / 2) // it has to take the answer in first
	return true
}

// boss is the member that leads, if it is another.
func (n *connections) boss() *peer { return n.peers[n.site.View().Leader.ID] }

// pointOut tells a foreign member who leads: an announcement in the boss's name. A
// foreign boss is asked first whether it still is one.
func (n *connections) pointOut(p *peer) {
	boss := n.boss()
	switch {
	case p == nil || p.kind != legacy || boss == nil || boss == p:
	case boss.kind == native:
		n.introduce(p, boss)
	default:
		p.point = time.Now().Add(n.site.Timing.T()) // again, if the boss does not answer: its link may be down
		n.start(&exchange{to: boss, frames: n.question(nil), done: func(f *frame) {
			if boss.kind == legacy {
				n.known(boss, f, false)
			}
			if f.boss() {
				p.point = time.Time{}
				n.introduce(p, boss)
			}
		}})
	}
}

func (n *connections) introduce(p, boss *peer) {
	f := &frame{Type: typeNewBoss, NodeType: n.wire.NodeType, IP: string(boss.id), Port: n.self.Port}
	if _, port, err := net.SplitHostPort(boss.addr); err == nil {
		f.Port, _ = strconv.Atoi(port)
	}
	n.log.Debug("sends", "type", typeNewBoss, "to", p.id, "ip", boss.id)
	n.start(&exchange{to: p, frames: [][]byte{n.self.bytes(f)}, mute: true})
}

// lead leads a foreign member to its boss, when it does not find there by itself.
func (n *connections) lead(p *peer, now time.Time) {
	l := p.persistent
	if l != nil && !l.dialed {
		n.release(p, now)
	}
	if !p.point.IsZero() && now.After(p.point) {
		p.point = time.Time{}
		n.pointOut(p)
	}
	switch boss := n.boss(); {
	case p.flights > 0:
	case !p.rival.IsZero():
		if now.Sub(p.rival) > n.site.Timing.T()/2 {
			n.identify(p, nil)
		}
	case boss != nil && boss.kind == legacy && boss != p:
		if now.Sub(p.probed) > n.wire.Heartbeat {
			p.probed = now
			n.identify(p, nil)
		}
	case !n.site.leads() || !p.up:
	case l != nil:
	case p.told.IsZero():
		p.told = now // it has just come, and will present itself
	case now.Sub(p.told) > n.timeout:
		p.told = now
		n.court(p)
	}
}

// court announces this member to a foreign one that does not lead itself.
func (n *connections) court(p *peer) {
	n.start(&exchange{to: p, frames: n.question(nil), done: func(f *frame) {
		switch {
		case p.kind != legacy:
			n.site.deliver(p, f.Batuta)
			return
		case !f.boss() && n.site.leads() && p.persistent == nil:
			n.announce(p, nil)
		}
		n.known(p, f, false)
	}})
}

// announceAgain announces this member to the foreign ones, but for but, that keep no
// connection with it.
func (n *connections) announceAgain(but *peer) {
	for _, p := range n.peers.sorted() {
		if p != but && p.kind == legacy && p.up && p.persistent == nil {
			n.announce(p, nil)
		}
	}
}

// release lets a foreign subordinate go when this member leads no longer. It keeps its
// connection until the next boss has announced itself to it; if that boss does not,
// we do; if there is none, the end of the connection tells it.
func (n *connections) release(p *peer, now time.Time) {
	l, view := p.persistent, n.site.View()
	if n.site.leads() {
		l.idle, l.shown = time.Time{}, false
		return
	}
	if l.idle.IsZero() {
		l.idle = now
	}
	if now.Sub(l.idle) <= n.site.Timing.T() {
		return
	}
	if view.Defined() && !l.shown {
		l.idle, l.shown = now, true
		n.pointOut(p)
		return
	}
	n.log.Info("a subordinate is let go", "member", p.id)
	l.close() // its end is told by the reader
}
