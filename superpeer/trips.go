package superpeer

import (
	"cmp"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// trips are recently measured round trips. They change slowly and the Node asks for the same
// repeatedly: most of its requests need no packet.
type trips map[rules.Peer]way

type way struct {
	rtt float32 // milliseconds
	at  rules.Round
}

const (
	keepTrip  = 60  // rounds for which a round trip is valid
	maxTrips  = 512 // that are kept
	samples   = 3   // of which a round trip is the least
	sampleGap = 16  // between two samples: that part of a round
)

// least returns the shortest of samples that begin gap apart: a queue on the route makes a round
// trip longer and never shorter, and the value decides for keepTrip rounds. It fails if all samples
// fail.
func least(gap time.Duration, sample func() (time.Duration, error)) (best time.Duration, err error) {
	type result struct {
		rtt time.Duration
		err error
	}
	results := make(chan result, samples)
	for i := range samples {
		time.AfterFunc(time.Duration(i)*gap, func() {
			rtt, err := sample()
			results <- result{rtt, err}
		})
	}
	best = -1
	for range samples {
		switch r := <-results; {
		case r.err != nil:
			err = r.err
		case r.rtt >= 0 && (best < 0 || r.rtt < best):
			best = r.rtt
		}
	}
	if best >= 0 {
		return best, nil
	}
	return 0, cmp.Or(err, errSilent)
}

func (t trips) of(peer rules.Peer, now rules.Round) (rtt float32, ok bool) {
	m, ok := t[peer]
	return m.rtt, ok && now-m.at < keepTrip
}

// keep records a round trip; it replaces any if there is no room.
func (t trips) keep(peer rules.Peer, rtt float32, now rules.Round) {
	if _, ok := t[peer]; !ok && len(t) >= maxTrips {
		for other := range t {
			delete(t, other)
			break
		}
	}
	t[peer] = way{rtt, now}
}
