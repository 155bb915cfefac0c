package scenario

import (
	"errors"
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// Validate reports every fault of s at once, or nil. The [Maker] checks Algorithm and Option.
func (s Setup) Validate() error {
	var faults []error
	if len(s.Members) == 0 || len(s.Members) > MaxMembers {
		faults = append(faults, fmt.Errorf("%d members: give 1 to %d", len(s.Members), MaxMembers))
	}
	s = s.Filled()
	spans := []Span{s.Latency, s.Fsync}
	for _, l := range s.Links {
		spans = append(spans, l.Span)
	}
	for _, span := range spans {
		if span.Min < 0 || span.Max < span.Min {
			faults = append(faults, fmt.Errorf("from %v to %v: give a range that starts at 0 or later and does not run backwards", span.Min, span.Max))
		}
	}
	if s.Settled && s.SettledLeader() == (election.Rank{}) {
		faults = append(faults, errors.New("settled, and every member is a newcomer or an observer: leave one that leads"))
	}
	for _, r := range s.Members {
		c := machine.Config{Self: r, Algorithm: nobody{}, Timing: s.Timing}
		for _, m := range s.Members {
			if len(s.Members) <= eachKnowsAll || m == r {
				c.Members = append(c.Members, election.Member{Rank: m})
			}
		}
		if err := c.Validate(); err != nil {
			return errors.Join(append(faults, err)...)
		}
	}
	return errors.Join(faults...)
}

// eachKnowsAll is the size up to which a cluster is checked by the Config of each member.
const eachKnowsAll = 64

// nobody is an algorithm that never runs. A Config needs an algorithm to be checked.
type nobody struct{}

func (nobody) Name() string                          { return "nobody" }
func (nobody) Step(election.Event, election.Actions) {}
