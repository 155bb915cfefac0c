package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// SoakConfig is which random schedules to play. The zero value of each optional field works.
type SoakConfig struct {
	Algorithm string // required; passed to the [scenario.Maker]
	Option    string // the algorithm's own option; empty: varies among Options
	Options   []string
	Nodes     int             // members, 1 to n; default 5
	From, To  uint64          // seeds, both included
	Faults    []scenario.Verb // what may happen; default: everything ([SoakFaults])
	PerRun    int             // faults in a schedule; default 10
	Draws     []Draw          // what else varies; nil: [DefaultDraws]
	Timing    election.Timing // defaults: see [election.Timing]
	Workers   int             // default: a worker per core
	Progress  func(SoakResult)
}

// SoakFaults returns the verbs that random schedules are made of.
func SoakFaults() []scenario.Verb {
	return []scenario.Verb{scenario.Crash, scenario.PowerOff, scenario.Restart, scenario.Freeze, scenario.Thaw, scenario.Cut, scenario.Partition, scenario.Heal, scenario.Reset, scenario.Delay, scenario.Disk, scenario.Clock, scenario.Campaign, scenario.Resign, scenario.Health, scenario.Transfer}
}

// TellingFaults returns the verbs of schedules in which members publish changing metadata.
func TellingFaults() []scenario.Verb { return []scenario.Verb{scenario.Tell} }

// SoakResult is the result so far.
type SoakResult struct {
	Schedules  uint64
	Violations uint64
	Failing    []Failure         // the lowest failing seeds, at most 1000
	ByRule     map[string]uint64 // how many schedules broke each rule
	Simulated  time.Duration     // in all schedules together
	Agreed     time.Duration     // the longest time of an agreement after a schedule's last fault
	Share      float64           // the largest part of its bound that any agreement took
	Slowest    uint64            // the seed of Share
	Elapsed    time.Duration     // of real time; set by the caller, since sim has no clock
}

// Failure is a seed whose schedule broke a rule.
type Failure struct {
	Seed uint64 `json:"seed"`
	Rule string `json:"rule"`
}

// keepFailing is the length of SoakResult.Failing, at most.
const keepFailing = 1000

func (c SoakConfig) filled() SoakConfig {
	c.Nodes = cmp.Or(c.Nodes, 5)
	if len(c.Faults) == 0 {
		c.Faults = SoakFaults()
	}
	if c.Draws == nil {
		c.Draws = DefaultDraws()
	}
	c.PerRun = cmp.Or(c.PerRun, 10)
	c.Workers = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	return c
}

// Soak plays a schedule for each seed, in parallel. It ends early when ctx does.
func Soak(ctx context.Context, maker scenario.Maker, c SoakConfig) (SoakResult, error) {
	c = c.filled()
	if c.To < c.From {
		return SoakResult{}, fmt.Errorf("seeds %d to %d: the range runs backwards", c.From, c.To)
	}
	if _, err := maker(c.Algorithm, c.Option); err != nil {
		return SoakResult{}, err
	}
	s := soak{c: c, maker: maker, result: SoakResult{ByRule: map[string]uint64{}}}
	s.next.Store(c.From)
	var workers sync.WaitGroup
	for range c.Workers {
		workers.Go(func() { s.work(ctx) })
	}
	workers.Wait()
	return s.result, s.err
}

type soak struct {
	c     SoakConfig
	maker scenario.Maker
	next  atomic.Uint64

	mu     sync.Mutex
	result SoakResult
	err    error
}

// batch is how many seeds a worker takes at a time.
const batch = 64

func (s *soak) work(ctx context.Context) {
	w := newStory()
	for ctx.Err() == nil {
		from := s.next.Add(batch) - batch
		if from > s.c.To || from < s.c.From {
			return
		}
		part := SoakResult{}
		for seed := from; seed-from < batch && seed <= s.c.To; seed++ {
			o, err := playSafely(w, s.c.Schedule(seed), s.maker)
			part.Schedules++
			part.Simulated += o.Elapsed
			part.took(o.Agreed, o.Share, seed)
			if err == nil {
				continue
			}
			w = newStory() // whatever state the failure has left
			v, broken := errors.AsType[*invariant.Violation](err)
			if !broken {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
				return
			}
			part.Violations++
			part.Failing = append(part.Failing, Failure{seed, v.Rule})
		}
		s.add(part)
	}
}

func (s *soak) add(part SoakResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.result
	r.Schedules += part.Schedules
	r.Violations += part.Violations
	r.Simulated += part.Simulated
	r.took(part.Agreed, part.Share, part.Slowest)
	for _, f := range part.Failing {
		r.ByRule[f.Rule]++
	}
	r.Failing = append(r.Failing, part.Failing...)
	slices.SortFunc(r.Failing, func(a, b Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	r.Failing = r.Failing[:min(len(r.Failing), keepFailing)]
	if s.c.Progress != nil {
		s.c.Progress(*r)
	}
}

// took records how long an agreement took, and its share of its bound.
func (r *SoakResult) took(agreed time.Duration, share float64, seed uint64) {
	r.Agreed = max(r.Agreed, agreed)
	if share > r.Share || share == r.Share && seed < r.Slowest {
		r.Share, r.Slowest = share, seed
	}
}

// playSafely turns a panic into a violation, which can be shrunk like any violation.
func playSafely(w *story, s *scenario.Scenario, maker scenario.Maker) (o Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &invariant.Violation{Rule: invariant.Panic, Member: "?", At: w.now, What: fmt.Sprint(r)}
		}
	}()
	return w.play(s, maker, nil)
}
