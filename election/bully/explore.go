package bully

import "github.com/batuta-dev/batuta/election"

// Clone returns an independent copy.
func (b *Bully) Clone() election.Algorithm {
	c := *b
	return &c
}

// MinRound returns the round number in use, 0 before the first.
func (b *Bully) MinRound() uint64 { return b.round }

// AppendState appends all that decides the algorithm's further behavior.
func (b *Bully) AppendState(s []byte, base uint64) []byte {
	s = append(s, byte(b.probe), byte(b.state))
	s = election.AppendRelative(s, b.round, base)
	if b.more {
		s = append(s, 1)
	}
	s = append(append(append(append(s, b.asked.ID...), 0), b.askedDown...), 0)
	return append(append(s, b.answer...), 0)
}
