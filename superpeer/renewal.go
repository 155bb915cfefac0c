package superpeer

import (
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// renewal is a lease's renewal that is not answered yet. It is sent once more in the same
// round: a packet may be lost, and a client must not leave its super peer for that.
type renewal struct {
	message rules.Message
	waits   bool
	at      time.Time
}

func (r *renewal) answered(by rules.Peer) {
	if r.message.To == by {
		r.waits = false
	}
}

func (r *renewal) repeat(d *driver) {
	if !r.waits || time.Since(r.at) < d.m.cfg.Round/2 {
		return
	}
	r.waits = false
	delete(d.trips, r.message.To) // it may be gone: whoever asks how far it is must try
	if k, ok := d.m.peers.at(r.message.To); ok {
		if raw, err := d.m.peers.encode(&r.message, d.round); err == nil {
			d.transmit(k, raw, false)
		}
	}
}
