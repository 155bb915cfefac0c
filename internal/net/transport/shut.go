package transport

import (
	"context"
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
	ctx, cancel := context.WithTimeout(t.ctx, wait)
	defer cancel()
	if t.drained = cancel; t.busy() {
		t.Await(ctx.Done())
	}
	t.cancel()
	for _, p := range t.peers {
		t.drop(p)
		if p.dialing != nil {
			p.dialing.close()
		}
	}
	t.live.Wait()
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
	if !t.busy() {
		t.drained()
	}
}

// busy reports whether a link is left, or a dial that has frames to send.
func (t *Transport) busy() bool {
	if t.Links() > 0 {
		return true
	}
	for _, p := range t.peers {
		if p.dialing != nil && p.dialing.hasQueuedFrames {
			return true
		}
	}
	return false
}
