package boss

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Lead implements network.Network: the boss is presented to, and no other
// connection is kept (docs/sources.md, "Scrapper").
func (n *connections) Lead(t election.Token) {
	if !t.Defined() {
		return
	}
	for _, p := range n.peers.sorted() {
		p.rival, p.probed = time.Time{}, time.Now()
		switch l := p.persistent; {
		case l == nil:
		case !l.dialed && p.kind == legacy && p.id != t.Leader.ID:
			l.idle, l.shown = time.Time{}, false // see release
		case l.dialed && p.id != t.Leader.ID, !l.dialed && t.Leader.ID != n.site.Self:
			p.persistent = nil
			l.finish() // what waits for a batuta member may be who leads now
			for _, spare := range p.spares {
				spare.close()
			}
			p.spares = nil
		}
		if p.id == t.Leader.ID && p.persistent == nil {
			n.openPersistent(p)
		}
	}
}

// identified hears a member say who it is.
func (n *connections) identified(p *peer, f *frame) {
	switch {
	case p.kind != legacy:
	case f.boss():
		n.site.claimed(p)
	default:
		n.site.deposed(p)
	}
}

// known hears a foreign member's reply to "who are you?", or to an announcement.
func (n *connections) known(p *peer, f *frame, asked bool) {
	switch {
	case f.boss() && n.site.leads():
		n.rivalled(p)
	case f.boss() && asked:
		n.site.hear(p, election.Message{Kind: election.ProbeReply, Token: n.site.term(p)})
	case f.boss() && n.site.View().Defined() && !n.site.follows(p):
		n.beside(p)
	case f.boss():
		n.site.claimed(p)
	case asked:
		n.site.hear(p, election.Message{Kind: election.ProbeReply, Age: -1})
	}
	if !f.boss() {
		p.rival = time.Time{}
		n.site.deposed(p)
	}
}

// translate does what a foreign member would make of a message that it does not
// understand.
func (n *connections) translate(p *peer, m *election.Message) {
	switch {
	case m.Kind == election.Probe:
		n.identify(p, m)
	case m.Kind == election.Handover:
		n.depose(p)
	case m.Kind == election.Resign: // it hears of the next boss
	case !p.up:
		n.identify(p, nil)
	}
}

// keep keeps the persistent connection to a foreign member. What a boss says there
// counts as its beat.
func (n *connections) keep(p *peer, now time.Time) {
	l := p.persistent
	for _, spare := range p.spares {
		if now.Sub(spare.heard) > n.wire.Options.Silence {
			spare.close()
		}
	}
	if now.Sub(l.heard) > n.wire.Options.Silence {
		n.log.Warn("a foreign member is silent on its persistent connection", "member", p.id, "for", n.wire.Options.Silence)
		l.close() // its end is told by the reader
		return
	}
	if view := n.site.View(); n.site.follows(p) && (l.heard != l.passed || l.under != view) {
		l.passed, l.under = l.heard, view
		n.site.hear(p, election.Message{Kind: election.Beat, Token: view, Stamp: now.UnixNano()})
	}
	if now.Sub(l.beat) >= n.wire.Heartbeat {
		n.heartbeat(p, now)
	}
	if wait := min(n.site.Timing.T(), n.wire.Heartbeat); l.asked.IsZero() && now.Sub(l.began) > wait || !l.asked.IsZero() && now.Sub(l.asked) > n.wire.Heartbeat {
		l.asked = now
		n.identify(p, nil) // who has lost an election says so to those that ask
	}
}

// heartbeat sends one to a foreign member.
func (n *connections) heartbeat(p *peer, now time.Time) {
	p.persistent.beat = now
	b := n.self.heartbeat(nil)
	for _, l := range append(slices.Clone(p.spares), p.persistent) {
		l.send(b)
	}
}
