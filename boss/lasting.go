package boss

import (
	"net"
	"slices"
	"sync"
	"time"
)

// lasting is the connection that a subordinate keeps with its boss.
type lasting struct {
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
	heard time.Time
	beat  time.Time // when a heartbeat last went to a foreign member
	asked time.Time // when it was last asked who it is
	idle  time.Time // since when this subordinate has had no boss here; zero: it has one
	shown bool      // it has been shown its new boss
}

// maxSpares is how many connections a foreign subordinate may have beside the last.
const maxSpares = 2

// maxQueue is how many frames may wait for a slow reader; more closes the connection.
const maxQueue = 64

func newLasting(p *peer, nc net.Conn, dialed bool) *lasting {
	l := &lasting{peer: p, nc: nc, dialed: dialed, out: make(chan []byte, maxQueue),
		ending: make(chan struct{}), done: make(chan struct{}), began: time.Now(), heard: time.Now()}
	l.end = sync.OnceFunc(func() { close(l.ending) })
	l.close = sync.OnceFunc(func() { close(l.done); nc.Close() })
	return l
}

// watch has the kernel find out when the other end's machine is gone, long before
// its silence says so. A process that is merely busy or frozen it does not accuse.
func (l *lasting) watch(wait time.Duration) {
	if tcp, ok := l.nc.(*net.TCPConn); ok {
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true,
			Idle: max(wait, time.Second), Interval: max(wait/keepAlives, time.Second), Count: keepAlives})
	}
}

// keepAlives is how many go unanswered before the other end counts as gone.
const keepAlives = 3

// finish closes the connection once all is written that waits.
func (l *lasting) finish() { l.end() }

// send queues a frame; a reader that has fallen far behind loses the connection.
func (l *lasting) send(b []byte) {
	select {
	case l.out <- b:
	default:
		l.close()
	}
}

// setLasting takes a connection into use; an older one has served.
func (n *network) setLasting(p *peer, l *lasting) {
	if old := p.lasting; p.kind == alien && old != nil && !old.dialed && !l.dialed {
		p.lasting = nil
		p.spares = append(p.spares, old) // which of the two it takes for the one is its own affair
		if len(p.spares) > maxSpares {
			p.spares[0].close()
			p.spares = p.spares[1:]
		}
	}
	n.endLasting(p)
	p.lasting = l
	if p.kind == alien { // it waits for much longer than the kernel would
		n.heartbeat(p, time.Now())
		return
	}
	l.watch(n.timeout)
}

// endLasting closes the lasting connection to a member and tells nothing of it.
func (n *network) endLasting(p *peer) {
	if p.lasting == nil {
		return
	}
	for _, l := range append(p.spares, p.lasting) {
		l.close()
	}
	p.lasting, p.spares = nil, nil
}

func (n *network) sendLasting(p *peer, f *frame) {
	if b := n.bytes(f); b != nil {
		p.lasting.send(b)
	}
}

// serveLasting moves frames until the connection ends.
func (n *network) serveLasting(l *lasting) {
	n.live.Go(func() { n.writeLasting(l) })
	for {
		l.nc.SetReadDeadline(time.Time{})
		f, err := readFrame(l.nc, func() { l.nc.SetReadDeadline(time.Now().Add(n.timeout)) })
		if err != nil {
			n.broken(l.nc, err)
			l.close()
			n.site.Post(func() { n.lastingEnded(l) })
			return
		}
		if !n.site.Post(func() { n.lastingFrame(l, f) }) {
			l.close()
			return
		}
	}
}

func (n *network) writeLasting(l *lasting) {
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

func (n *network) write(l *lasting, b []byte) bool {
	l.nc.SetWriteDeadline(time.Now().Add(n.timeout))
	if _, err := l.nc.Write(b); err != nil {
		l.close()
		return false
	}
	return true
}

func (n *network) lastingEnded(l *lasting) {
	p := l.peer
	if i := slices.Index(p.spares, l); i >= 0 {
		p.spares = slices.Delete(p.spares, i, i+1)
		return
	}
	if p.lasting != l || n.peers[p.id] != p {
		return
	}
	if last := len(p.spares) - 1; last >= 0 {
		p.lasting, p.spares = p.spares[last], p.spares[:last]
		return
	}
	p.lasting, p.told = nil, time.Now()
	n.linkDown(p)
}

// lastingFrame hears a boss or a subordinate. What is not ours is skipped.
func (n *network) lastingFrame(l *lasting, f *frame) {
	p := l.peer
	if p.lasting != l && !slices.Contains(p.spares, l) || n.peers[p.id] != p {
		return
	}
	l.heard, p.heard = time.Now(), time.Now()
	if f.IP != "" && f.id() != p.id {
		n.site.Bad("id")
		l.close() // its end is told by the reader
		return
	}
	switch f.Type {
	case typeIdentification:
		n.identified(p, f)
	case typeNewBoss:
		if p.kind == alien {
			n.claimed(p)
		}
	case typeHeartbeat, typeBatuta:
		if p.kind == native {
			n.deliver(p, f.Batuta)
		}
	}
}
