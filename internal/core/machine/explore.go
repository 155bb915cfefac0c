package machine

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// This file has what an exhaustive search needs of a Machine: an independent copy, the state that
// decides what it does next, and the timers to fire.

// Clone returns an independent copy of a Machine whose Algorithm is [Explorable], for exhaustive
// search. The copy shares nothing that either may change; its trace goes where the original's goes.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out, c.tenure = nil, m.tenure.Clone()
	c.members = slices.Clone(m.members)
	c.alarms, c.roster = m.alarms.Clone(), m.roster.Clone()
	c.algorithm = m.algorithm.(election.Explorable).Clone()
	return &c
}

// MinRound is the lowest round number that the Algorithm remembers, 0 for none.
func (m *Machine) MinRound() uint64 { return m.algorithm.(election.Explorable).MinRound() }

// AppendState appends all that decides the later behavior of a Machine without a detector, epochs
// and rounds written relative to the bases. Two Machines of the same configuration that append the
// same behave the same.
func (m *Machine) AppendState(b []byte, baseEpoch, baseRound uint64) []byte {
	epoch := func(e uint64) { b = election.AppendRelative(b, e, baseEpoch) }
	for _, t := range [...]election.Token{m.tenure.Held(), m.tenure.Next(), m.disk.OnDisk(), m.disk.Writing()} {
		epoch(t.Epoch)
		b = append(append(b, t.Leader.ID...), 0)
	}
	epoch(m.seen.Highest())
	epoch(m.seen.Asked())
	epoch(m.seen.Held())
	epoch(m.tenure.Base())
	epoch(m.resigned)
	b = append(append(b, m.tenure.Ended()...), 0)
	b = append(b, bits(m.tenure.Certain(), m.disk.Busy(), m.disk.Failing(), m.working, m.replied, m.unacknowledged, m.contestHeld, m.closing), bits(m.detector.Reported(), m.polledAt.IsZero()), byte(m.tenure.Phase()), byte(m.mode))
	b = append(append(append(append(b, m.doubts...), 0), m.stood...), 0)
	for _, d := range m.departing {
		b = append(append(b, d.id...), 0)
	}
	b = append(b, 0)
	for i := range m.members {
		peer := &m.members[i]
		b = append(b, bits(peer.down, peer.awaited, peer.probed, peer.draining, peer.polled, peer.gaveTurn))
		b = append(append(b, peer.eligibility...), 0)
	}
	names := m.Timers()
	slices.Sort(names)
	for _, name := range names {
		b = append(append(b, name...), 0)
	}
	return m.algorithm.(election.Explorable).AppendState(append(b, 0), baseRound)
}

func bits(flags ...bool) (b byte) {
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return b
}

// MinEpoch is the lowest epoch that the Machine remembers, 0 for none.
func (m *stance) MinEpoch() uint64 {
	lowest := uint64(0)
	for _, e := range [...]uint64{m.tenure.Held().Epoch, m.tenure.Next().Epoch, m.tenure.Base(), m.disk.OnDisk().Epoch, m.disk.Writing().Epoch,
		m.seen.Highest(), m.seen.Asked(), m.seen.Held(), m.resigned} {
		if e > 0 && (lowest == 0 || e < lowest) {
			lowest = e
		}
	}
	return lowest
}

// Timers names the timers that are armed, in the order they were set. A search
// fires one by stepping the Machine with TimerFired.
func (m *ground) Timers() []string { return m.alarms.Names() }
