package overlay

import (
	"time"

	"github.com/batuta-dev/batuta/superpeer"
)

// renewal is a lease's renewal that is not answered yet. It is sent once more in the same
// round: a packet may be lost, and a client must not leave its super peer for that.
type renewal struct {
	to  superpeer.Peer
	raw []byte
	at  time.Time
}

func (r *renewal) answered(by superpeer.Peer) {
	if r.to == by {
		r.raw = nil
	}
}

func (r *renewal) repeat(d *driver) {
	if r.raw == nil || time.Since(r.at) < d.m.cfg.Round/2 {
		return
	}
	if k, ok := d.m.peers.at(r.to); ok {
		d.transmit(k, r.raw, false)
	}
	r.raw = nil
}
