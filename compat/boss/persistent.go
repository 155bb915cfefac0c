package boss

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
)

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

	// The loop's alone.
	heard  time.Time
	passed time.Time      // foreign boss: when it had been heard as that last went to the Machine as a beat
	under  election.Token // and under which leadership
	beat   time.Time      // when a heartbeat last went to a foreign member
	asked  time.Time      // when it was last asked who it is
	idle   time.Time      // since when this subordinate has had no boss here; zero: it has one
	shown  bool           // it has been shown its new boss
}

// maxSpares is how many connections a foreign subordinate may have beside the last.
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

// finish closes the connection once all is written that waits.
func (l *persistent) finish() { l.end() }

// send queues a frame; a reader that has fallen far behind loses the connection.
func (l *persistent) send(b []byte) {
	select {
	case l.out <- b:
	default:
		l.close()
	}
}

// setPersistent takes a connection into use; an older one has served.
func (n *connections) setPersistent(p *peer, l *persistent) {
	if old := p.persistent; p.kind == legacy && old != nil && !old.dialed && !l.dialed {
		p.persistent = nil
		p.spares = append(p.spares, old) // which of the two it takes for the one is its own affair
		if len(p.spares) > maxSpares {
			p.spares[0].close()
			p.spares = p.spares[1:]
		}
	}
	n.endPersistent(p)
	p.persistent = l
	if p.kind == legacy {
		n.heartbeat(p, time.Now())
	}
}

// endPersistent closes the persistent connection to a member and tells nothing of it.
func (n *connections) endPersistent(p *peer) {
	if p.persistent == nil {
		return
	}
	for _, l := range append(p.spares, p.persistent) {
		l.close()
	}
	p.persistent, p.spares = nil, nil
}

func (n *connections) sendPersistent(p *peer, f *frame) {
	if b := n.bytes(f); b != nil {
		p.persistent.send(b)
	}
}

// servePersistent moves frames until the connection ends.
func (n *connections) servePersistent(l *persistent) {
	n.live.Go(func() { n.writePersistent(l) })
	for {
		l.nc.SetReadDeadline(time.Time{})
		f, err := readFrame(l.nc, func() { l.nc.SetReadDeadline(time.Now().Add(n.timeout)) })
		if err != nil {
			n.broken(l.nc, err)
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

func (n *connections) writePersistent(l *persistent) {
	for {
		select {
		case b := <-l.out:
			if !n.write(l, b) {
				return
			}
		case <-l.ending:
			for {
				select {
				case b := <-l.out:
					if !n.write(l, b) {
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

func (n *connections) write(l *persistent, b []byte) bool {
	l.nc.SetWriteDeadline(time.Now().Add(n.timeout))
	if _, err := l.nc.Write(b); err != nil {
		l.close()
		return false
	}
	return true
}

func (n *connections) persistentEnded(l *persistent) {
	p := l.peer
	if i := slices.Index(p.spares, l); i >= 0 {
		p.spares = slices.Delete(p.spares, i, i+1)
		return
	}
	if p.persistent != l || n.peers[p.id] != p {
		return
	}
	if last := len(p.spares) - 1; last >= 0 {
		p.persistent, p.spares = p.spares[last], p.spares[:last]
		return
	}
	p.persistent, p.told = nil, time.Now()
	n.linkDown(p)
}

// persistentFrame hears a boss or a subordinate. What is not ours is skipped.
func (n *connections) persistentFrame(l *persistent, f *frame) {
	p := l.peer
	if p.persistent != l && !slices.Contains(p.spares, l) || n.peers[p.id] != p {
		return
	}
	l.heard, p.heard = time.Now(), time.Now()
	if f.IP != "" && f.id() != p.id {
		n.site.Counters.Bad("id")
		l.close() // its end is told by the reader
		return
	}
	switch f.Type {
	case typeIdentification:
		n.identified(p, f)
	case typeNewBoss:
		if p.kind == legacy {
			n.claimed(p)
		}
	case typeHeartbeat, typeBatuta:
		if p.kind == native {
			n.deliver(p, f.Batuta)
		}
	}
}
