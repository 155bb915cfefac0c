package boss

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
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

// persistent is the connection that a subordinate keeps with its boss.
type persistent struct {
	peer   *peer
	nc     net.Conn
	dialed bool // by this side: the peer is the boss
	out    chan []byte
	ending chan struct{} // write what waits, then close
	end    func()        // closes ending, once
	done   chan struct{}
	close  func() // at once; closes done, once

	began time.Time

	// Used in a turn of the node.
	heard  time.Time
	passed time.Time      // foreign boss: when it was last passed to the Machine as a heartbeat
	under  election.Token // and under which leadership
	beat   time.Time      // when a heartbeat last went to a foreign member
	asked  time.Time      // when it was last asked to identify itself
	idle   time.Time      // since when this subordinate has had no boss here; zero: it has a boss
	shown  bool           // the new boss was announced to it
}

// maxSpares is how many connections a foreign subordinate may have besides the last.
const maxSpares = 2

// maxQueue is how many frames may wait for a slow reader; more closes the connection.
const maxQueue = 64

func newPersistent(p *peer, nc net.Conn, dialed bool) *persistent {
	l := &persistent{peer: p, nc: nc, dialed: dialed, out: make(chan []byte, maxQueue),
		ending: make(chan struct{}), done: make(chan struct{}), began: time.Now(), heard: time.Now()}
	l.end = sync.OnceFunc(func() { close(l.ending) })
	l.close = sync.OnceFunc(func() { close(l.done); nc.Close() })
	return l
}

// finish closes the connection once all queued frames are written.
func (l *persistent) finish() { l.end() }

// send queues a frame, unless it is nil. A reader that is far behind loses the connection.
func (l *persistent) send(b []byte) {
	if b == nil {
		return
	}
	select {
	case l.out <- b:
	default:
		l.close()
	}
}

// write writes what is queued, until the connection ends or a frame takes longer than timeout.
func (l *persistent) write(timeout time.Duration) {
	for {
		select {
		case b := <-l.out:
			if !l.writeFrame(b, timeout) {
				return
			}
		case <-l.ending:
			for {
				select {
				case b := <-l.out:
					if !l.writeFrame(b, timeout) {
						return
					}
				default:
					l.close()
					return
				}
			}
		case <-l.done:
			return
		}
	}
}

func (l *persistent) writeFrame(b []byte, timeout time.Duration) bool {
	l.nc.SetWriteDeadline(time.Now().Add(timeout))
	if _, err := l.nc.Write(b); err != nil {
		l.close()
		return false
	}
	return true
}

func (n *connections) setPersistent(p *peer, l *persistent) {
	p.setPersistent(l)
	if p.kind == legacy {
		n.heartbeat(p, time.Now())
	}
}

// heartbeat sends a heartbeat to a foreign member.
func (n *connections) heartbeat(p *peer, now time.Time) {
	p.persistent.beat = now
	b := n.self.heartbeat(nil)
	for _, l := range append(slices.Clone(p.spares), p.persistent) {
		l.send(b)
	}
}

// servePersistent moves frames until the connection ends.
func (n *connections) servePersistent(l *persistent) {
	n.live.Go(func() { l.write(n.timeout) })
	for {
		l.nc.SetReadDeadline(time.Time{})
		f, err := readFrame(l.nc, func() { l.nc.SetReadDeadline(time.Now().Add(n.timeout)) })
		if err != nil {
			n.faults.connection(l.nc, err)
			l.close()
			n.Post(func() { n.persistentEnded(l) })
			return
		}
		if !n.Post(func() { n.persistentFrame(l, f) }) {
			l.close()
			return
		}
	}
}

func (n *connections) persistentEnded(l *persistent) {
	if p := l.peer; p.losePersistent(l) && n.peers[p.id] == p {
		p.told = time.Now()
		n.site.linkDown(p)
	}
}

// persistentFrame handles a frame of a boss or a subordinate. Unknown types are skipped.
func (n *connections) persistentFrame(l *persistent, f *frame) {
	p := l.peer
	if p.persistent != l && !slices.Contains(p.spares, l) || n.peers[p.id] != p {
		return
	}
	l.heard, p.heard = time.Now(), time.Now()
	if f.IP != "" && f.id() != p.id {
		n.site.Counters.Bad("id")
		l.close() // the reader reports its end
		return
	}
	switch f.Type {
	case typeIdentification:
		n.site.identified(p, f)
	case typeNewBoss:
		if p.kind == legacy {
			n.site.claimed(p)
		}
	case typeHeartbeat, typeBatuta:
		if p.kind == native {
			n.site.deliver(p, f.Batuta)
		}
	}
}
