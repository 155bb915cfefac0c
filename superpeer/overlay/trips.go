package overlay

import "github.com/batuta-dev/batuta/superpeer"

// trips are the round trips measured of late. They change slowly and the Node asks for the same
// ones again and again: most of its questions need no packet.
type trips map[superpeer.Peer]way

type way struct {
	rtt float32 // milliseconds
	at  superpeer.Round
}

const (
	keepTrip = 60  // rounds for which a round trip is believed
	maxTrips = 512 // that are kept
)

func (t trips) of(peer superpeer.Peer, now superpeer.Round) (rtt float32, ok bool) {
	m, ok := t[peer]
	return m.rtt, ok && now-m.at < keepTrip
}

// keep notes what was measured, in place of any other where there is no room.
func (t trips) keep(peer superpeer.Peer, rtt float32, now superpeer.Round) {
	if _, ok := t[peer]; !ok && len(t) >= maxTrips {
		for other := range t {
			delete(t, other)
			break
		}
	}
	t[peer] = way{rtt, now}
}
