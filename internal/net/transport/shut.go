package transport

import (
	"maps"
	"slices"
	"time"
)

// Shut implements [network.Network]: it accepts no more, delivers what is written, and gives peers
// wait to close their ends.
func (t *Transport) Shut(wait time.Duration) {
	t.shutting = max(wait, 1)
	t.acceptor.shut()
	for _, id := range slices.Sorted(maps.Keys(t.peers)) {
		for _, c := range t.peers[id].conns {
			c.finish(wait)
		}
	}
	t.drain(wait)
	t.cancel()
	for _, p := range t.peers {
		t.drop(p)
		if p.dialing != nil {
			p.dialing.close()
		}
	}
	t.live.Wait()
}

// drain handles the ends of connections until none is left and no dial has frames to send, or until
// wait is over.
func (t *Transport) drain(wait time.Duration) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for t.Links() > 0 || t.dialsPending() {
		select {
		case f := <-t.Arrivals():
			f()
		case <-over.C:
			return
		}
	}
}

// takeLast handles what a connection goroutine passes on while the Transport shuts down.
func (t *Transport) takeLast(in incoming) {
	switch c := in.conn; {
	case in.err != nil && c.peer != nil:
		t.forget(c)
	case in.err != nil:
		if p := t.peers[c.to]; p != nil && p.dialing == c {
			p.dialing = nil
		}
	case in.handshake != nil && c.dialed:
		c.finish(t.shutting) // the frames were written right after our hello
	}
}

// dialsPending reports whether a dial is under way that has frames to send.
func (t *Transport) dialsPending() bool {
	for _, p := range t.peers {
		if p.dialing != nil && p.dialing.hasQueuedFrames {
			return true
		}
	}
	return false
}
