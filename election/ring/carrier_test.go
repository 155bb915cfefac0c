package ring_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// The leader dies and, at each of 100 moments of the round that follows, one of
// the others: the carrier, sooner or later. One agreed leader is left, no flag
// stays set, and nothing of any round goes round any more.
func TestCarrierDies(t *testing.T) {
	const round = 60 * time.Millisecond // from the crash until all have heard
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			for victim := 1; victim <= 4; victim++ {
				for moment := range 100 {
					carrierDies(t, algorithm, victim, round*time.Duration(moment)/100)
				}
			}
		})
	}
}

func carrierDies(t *testing.T, algorithm string, victim int, offset time.Duration) {
	t.Helper()
	script := fmt.Sprintf(`
members 1 2 3 4 5
algorithm %s
seed %d
run 1s
crash 5
run %v
crash %d
settle
run 5s
mark
run 10s
expect messages election = 0
expect messages coordinator = 0
expect messages elected = 0
`, algorithm, offset, offset, victim)
	fault := func(err error) {
		t.Errorf("%v\n%s", err, script)
	}
	s, err := scenario.Parse("script", script)
	if err != nil {
		fault(err)
		return
	}
	members := &crew{}
	o, err := sim.Play(s, members.make, nil)
	if err != nil {
		fault(err)
		return
	}
	want := election.ID("4")
	if victim == 4 {
		want = "3"
	}
	if o.Leader != want {
		fault(fmt.Errorf("%s leads, not %s", o.Leader, want))
	}
	for i, m := range members.started[1:] {
		if id := i + 1; id != 5 && id != victim && m.Participating() {
			fault(fmt.Errorf("the flag of %d stays set", id))
		}
	}
}

// crew remembers the algorithms that are made: the first for its kinds of messages, then those of the
// members in the order in which they start.
type crew struct{ started []participant }

type participant interface {
	election.Algorithm
	Participating() bool
}

func (c *crew) make(algorithm, probe string) (func() election.Algorithm, error) {
	fresh, err := maker(algorithm, probe)
	return func() election.Algorithm {
		m := fresh().(participant)
		c.started = append(c.started, m)
		return m
	}, err
}
