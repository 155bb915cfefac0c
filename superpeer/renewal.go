package superpeer

import (
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// renewal is an unanswered renewal of a lease. It is sent a second time in the same round: a packet
// may be lost, and a client must not leave its super peer because of that.
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
	delete(d.trips, r.message.To) // it may be gone: the distance has to be measured again
	if k, ok := d.m.peers.at(r.message.To); ok {
		if raw, err := d.m.peers.encode(&r.message, d.round); err == nil {
			d.transmit(k, raw, false)
		}
	}
}
