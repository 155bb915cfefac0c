package ring

import "github.com/batuta-dev/batuta/election"

// Clone returns an independent copy.
func (c *ChangRoberts) Clone() election.Algorithm {
	d := *c
	return &d
}

// Clone returns an independent copy.
func (l *List) Clone() election.Algorithm {
	d := *l // missed is never changed, but replaced
	return &d
}

// AppendState appends all that decides the algorithm's further behavior.
func (l *List) AppendState(b []byte, base uint64) []byte {
	for _, id := range l.missed {
		b = append(append(b, id...), 0)
	}
	return l.ring.AppendState(append(b, 0), base)
}

// MinRound returns the lowest round number held, 0 for none.
func (r *ring) MinRound() uint64 {
	if n := r.passing.Round.Number; n > 0 {
		return min(n, r.round.Number)
	}
	return r.round.Number
}

// AppendState appends all that decides the algorithm's further behavior.
func (r *ring) AppendState(b []byte, base uint64) []byte {
	b = append(b, byte(r.phase))
	b = append(append(b, r.next...), 0)
	b = appendRound(b, r.round, base)
	b = appendRound(b, r.passing.Round, base)
	b = election.AppendRelative(b, uint64(r.passing.Hops), 1)
	for _, m := range r.passing.Ring {
		b = append(append(b, m.ID...), 0)
	}
	return append(append(b, 0), r.passing.Kind...)
}

func appendRound(b []byte, r election.Round, base uint64) []byte {
	b = election.AppendRelative(b, r.Number, base)
	return append(append(b, r.Initiator...), 0)
}
