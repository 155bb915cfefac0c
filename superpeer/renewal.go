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

// due reports, once, whether it has waited for that long.
func (r *renewal) due(after time.Duration) bool {
	late := r.waits && time.Since(r.at) >= after
	r.waits = r.waits && !late
	return late
}
