package boss

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// known handles a foreign member's reply to a question, or to an announcement.
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

// translate sends a foreign member the closest equivalent of a message that it does not understand.
func (n *connections) translate(p *peer, m *election.Message) {
	switch {
	case m.Kind == election.Probe:
		n.identify(p, m)
	case m.Kind == election.Handover:
		n.depose(p)
	case m.Kind == election.Resign: // it receives the announcement of the next boss
	case !p.up:
		n.identify(p, nil)
	}
}

// keep checks the persistent connection to a foreign member. A frame of a boss there counts as
// its heartbeat.
func (n *connections) keep(p *peer, now time.Time) {
	l := p.persistent
	for _, spare := range p.spares {
		if now.Sub(spare.heard) > n.wire.Options.Silence {
			spare.close()
		}
	}
	if now.Sub(l.heard) > n.wire.Options.Silence {
		n.log.Warn("a foreign member is silent on its persistent connection", "member", p.id, "for", n.wire.Options.Silence)
		l.close() // the reader reports its end
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
		n.identify(p, nil) // a member that has lost an election reports that only when asked
	}
}
