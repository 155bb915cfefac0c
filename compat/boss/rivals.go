package boss

import (
	"net"
	"strconv"
	"time"
)

// This file makes lost foreign members find a boss again: members that wait for an announcement
// which will not come, members that have lost their boss, and a second boss.

// rivalled handles that a foreign member claims to lead although this member does. A node of the
// original keeps leading when it receives a different boss, so it is made to hold an election.
func (n *connections) rivalled(p *peer) {
	if n.still(p) {
		n.depose(p)
	}
}

// beside handles that a foreign member claims to lead although this member follows a different
// boss. A boss that runs batuta handles it itself. Of two foreign bosses the higher is followed.
// The lower is made to hold an election if it will ask this member in it.
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

// still reports whether a member has claimed for a while to lead besides the leader: some follow
// by themselves.
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

// depose makes a foreign member hold an election. If it ranks this member above itself, it asks
// this member and leads no longer. If not, it announces itself again and is followed.
func (n *connections) depose(p *peer) {
	p.pushed = time.Now()
	f := n.self.begin(typeElection, nil)
	f.IP, f.Batuta = n.self.nobody(), nil
	n.log.Debug("sends", "type", typeElection, "to", p.id, "ip", f.IP)
	n.start(&exchange{to: p, frames: [][]byte{n.self.bytes(f)}, silent: true})
}

// settled handles a foreign member's call for an election. It returns true if there is a leader:
// then no election is needed, and the caller gets the leader instead.
func (n *connections) settled(p *peer) bool {
	above := n.site.Self.Compare(p.id) > 0
	boss := n.boss()
	switch {
	case boss == nil || !above:
		return false
	case boss == p: // it leads no longer if this member answers
		n.site.deposed(p)
		return false
	}
	p.slot.answer(nil)
	if boss.kind == legacy && !p.pointed.IsZero() && time.Since(p.pointed) < n.wire.Options.Silence {
		// It has not arrived there: the boss still keeps an earlier connection with it, and closes
		// the new connection. An election makes the boss drop them all, and announce itself.
		p.pointed = time.Time{}
		n.depose(boss)
		return true
	}
	p.pointed = time.Now()
	p.point = time.Now().Add(n.site.Timing.T() / 2) // it must handle the answer first
	return true
}

// boss returns the member that leads; nil if it is this member.
func (n *connections) boss() *peer { return n.peers[n.site.View().Leader.ID] }

// pointOut sends a foreign member the leader: an announcement in the boss's name. A foreign boss
// is first asked whether it still leads.
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

// lead leads a foreign member to its boss if it does not find the boss by itself.
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

// court announces this member to a foreign member that does not lead itself.
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

// announceAgain announces this member to all foreign members without a connection to it, except
// but.
func (n *connections) announceAgain(but *peer) {
	for _, p := range n.peers.sorted() {
		if p != but && p.kind == legacy && p.up && p.persistent == nil {
			n.announce(p, nil)
		}
	}
}

// release drops a foreign subordinate when this member leads no longer. It keeps the connection
// until the next boss is announced to the subordinate, by that boss or else by this member. If
// there is no boss, the end of the connection shows it.
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
	l.close() // the reader reports its end
}
