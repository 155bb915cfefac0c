package boss

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
)

// peers are the remote members, by id.
type peers map[election.ID]*peer

// sorted returns the peers by address.
func (all peers) sorted() []*peer {
	return slices.SortedFunc(maps.Values(all), func(a, b *peer) int { return a.id.Compare(b.id) })
}

// up counts the peers that have a link.
func (all peers) up() (up int) {
	for _, p := range all {
		if p.up {
			up++
		}
	}
	return up
}

// textOrder returns two members that would rank in the opposite order if addresses were compared
// as text.
func (all peers) textOrder(self election.ID) (lower, higher election.ID, found bool) {
	ids := append(slices.Collect(maps.Keys(all)), self)
	slices.SortFunc(ids, election.ID.Compare)
	for i := 1; i < len(ids); i++ {
		if strings.Compare(string(ids[i-1]), string(ids[i])) > 0 {
			return ids[i-1], ids[i], true
		}
	}
	return "", "", false
}

// peer is a remote member.
type peer struct {
	id          election.ID
	addr        string
	kind        kind
	incarnation uint64 // of a foreign member: made up here
	fresh       bool   // on the list, but not yet reported to the Machine
	gone        bool   // foreign: its process has ended; the next is a new process
	up          bool   // the Machine has a link to it
	heard       time.Time
	persistent  *persistent
	spares      []*persistent  // foreign: a subordinate that received two announcements at once may come twice
	opening     bool           // the dial of a persistent connection is under way
	retry       time.Time      // earliest time of the next attempt
	flights     int            // exchanges under way
	told        time.Time      // when a heartbeat last went over an exchange; foreign: the last announcement to it
	rival       time.Time      // foreign: since when it claims to lead besides the leader; zero: it does not
	pushed      time.Time      // foreign: when it was last made to hold an election
	firm        bool           // foreign: it has announced itself after that; it ranks itself above this member
	point       time.Time      // foreign: when to send it the leader; zero: never
	pointed     time.Time      // foreign: when it last asked for the leader; zero: long ago
	probed      time.Time      // foreign: when it was last asked whether it leads, besides the foreign boss
	slot        *inbound       // its latest frame, while the Machine decides on the reply
	token       election.Token // foreign: the leadership that it last had here
}

type kind uint8

const (
	unknown kind = iota
	native       // batuta
	legacy       // without support for batuta
)

// endPersistent closes the persistent connections to the member. It reports no event.
func (p *peer) endPersistent() {
	if p.persistent == nil {
		return
	}
	for _, l := range append(p.spares, p.persistent) {
		l.close()
	}
	p.persistent, p.spares = nil, nil
}

// setPersistent takes a connection into use, and ends the previous connection. A foreign
// subordinate may go on with either of the two, so its earlier connection becomes a spare.
func (p *peer) setPersistent(l *persistent) {
	if old := p.persistent; p.kind == legacy && old != nil && !old.dialed && !l.dialed {
		p.spares = append(p.spares, old)
		if len(p.spares) > maxSpares {
			p.spares[0].close()
			p.spares = p.spares[1:]
		}
	} else {
		p.endPersistent()
	}
	p.persistent = l
}

// losePersistent removes a connection that has ended, and reports whether it was the last.
func (p *peer) losePersistent(l *persistent) bool {
	if i := slices.Index(p.spares, l); i >= 0 {
		p.spares = slices.Delete(p.spares, i, i+1)
		return false
	}
	if p.persistent != l {
		return false
	}
	if last := len(p.spares) - 1; last >= 0 {
		p.persistent, p.spares = p.spares[last], p.spares[:last]
		return false
	}
	p.persistent = nil
	return true
}

func peerAt(a netip.Addr, port string) batuta.Peer {
	ip := a.String()
	return batuta.Peer{ID: batuta.ID(ip), Addr: net.JoinHostPort(ip, port)}
}

// inbound is a frame that has come in on a new connection.
type inbound struct {
	*frame
	nc    net.Conn
	reply chan reply // decided in a turn of the node

	// Used in a turn of the node.
	from     *peer             // nil: ignored
	answered bool              // an election of a lower member
	message  *election.Message // for a batuta member, in the reply
}

// reply is what to do with a connection.
type reply struct {
	frame []byte      // to write; nil: nothing
	keep  *persistent // nil: close it then
}

// answer makes the reply answer an election; m may be nil.
func (in *inbound) answer(m *election.Message) {
	if in.Type == typeElection {
		in.answered = true
		in.message = cmp.Or(in.message, m)
	}
}

// report puts a Report into the reply to a question; false: there is no room.
func (in *inbound) report(m *election.Message) bool {
	if in.Type != typeIdentification || !in.temporary() || in.message != nil {
		return false
	}
	in.message = m
	return true
}

// called returns the round of the election that the frame calls.
func (in *inbound) called() election.Round {
	if in.Batuta == nil || in.Batuta.Message == nil {
		return election.Round{}
	}
	return in.Batuta.Message.inward().Round
}

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
