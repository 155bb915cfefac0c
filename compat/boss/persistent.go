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
