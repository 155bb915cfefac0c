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
	"github.com/batuta-dev/batuta/internal/sim/draw"
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
	Draws     []draw.Kind     // what else varies; nil: [draw.Defaults]
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
		c.Draws = draw.Defaults()
	}
	c.PerRun = cmp.Or(c.PerRun, 10)
	c.Workers = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	return c
}

// Schedule returns the random scenario of that seed.
func (c SoakConfig) Schedule(seed uint64) *scenario.Scenario {
	c = c.filled()
	return draw.Config{Algorithm: c.Algorithm, Option: c.Option, Options: c.Options, Nodes: c.Nodes,
		Faults: c.Faults, PerRun: c.PerRun, Draws: c.Draws, Timing: c.Timing}.Schedule(seed)
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
	slices.SortStableFunc(r.Failing, func(a, b Failure) int { return cmp.Compare(a.Seed, b.Seed) })
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

// Shrink shortens a scenario that breaks a rule while it still breaks the same rule. It returns
// the result with its violation, which is nil if s breaks no rule.
func Shrink(s *scenario.Scenario, maker scenario.Maker) (*scenario.Scenario, *invariant.Violation) {
	k := shrinker{maker: maker, plays: 4000}
	v := k.violation(s)
	if v == nil {
		return s, nil
	}
	k.rule, k.best, k.found = v.Rule, s, v
	for before := -1; before != k.size() && k.plays > 0; {
		before = k.size()
		k.dropSteps()
		k.dropMembers()
		k.shorten()
		k.simplify()
	}
	return k.best, k.found
}

type shrinker struct {
	maker scenario.Maker
	rule  string
	best  *scenario.Scenario
	found *invariant.Violation
	plays int // how many more may be tried
}

func (k *shrinker) violation(s *scenario.Scenario) *invariant.Violation {
	k.plays--
	_, err := playSafely(newStory(), s, k.maker)
	v, _ := errors.AsType[*invariant.Violation](err)
	return v
}

// size falls with every improvement except a change of settings.
func (k *shrinker) size() int {
	n := 0
	for _, s := range k.best.Steps {
		n += 1_000_000 + int(s.For/time.Millisecond)
	}
	return n + len(k.best.Setup.Members)
}

// try keeps a change if the rule is still broken.
func (k *shrinker) try(change func(*scenario.Scenario)) bool {
	if k.plays <= 0 {
		return false
	}
	s := *k.best
	s.Steps = slices.Clone(s.Steps)
	s.Setup.Members = slices.Clone(s.Setup.Members)
	change(&s)
	if _, err := s.Check(); err != nil || s.Setup.Validate() != nil || tooFar(&s) && !tooFar(k.best) {
		return false
	}
	v := k.violation(&s)
	if v == nil || v.Rule != k.rule {
		return false
	}
	k.best, k.found = &s, v
	return true
}

// tooFar reports whether a link is slower than t_max. Then nothing is promised, and a violation
// differs from that with the former times.
func tooFar(s *scenario.Scenario) bool {
	f := s.Setup.Filled()
	return f.Latency.Max > f.Timing.TMax ||
		slices.ContainsFunc(f.Links, func(l scenario.LinkLatency) bool { return l.Max > f.Timing.TMax })
}

// dropSteps leaves out runs of steps, long runs first.
func (k *shrinker) dropSteps() {
	for n := len(k.best.Steps) / 2; n > 0; n /= 2 {
		for at := len(k.best.Steps) - n; at >= 0; at-- {
			if at+n <= len(k.best.Steps) {
				k.try(func(s *scenario.Scenario) { s.Steps = slices.Delete(s.Steps, at, at+n) })
			}
		}
	}
}

// dropMembers leaves out members that no step needs.
func (k *shrinker) dropMembers() {
	for i := len(k.best.Setup.Members) - 1; i >= 0 && len(k.best.Setup.Members) > 1; i-- {
		k.try(func(s *scenario.Scenario) { s.Drop(s.Setup.Members[i].ID) })
	}
}

// shorten makes times short and round.
func (k *shrinker) shorten() {
	for i := range k.best.Steps {
		d := k.best.Steps[i].For
		for _, shorter := range []time.Duration{time.Millisecond, d / 4, d / 2, d * 3 / 4,
			d.Truncate(100 * time.Millisecond), d.Truncate(10 * time.Millisecond), d.Truncate(time.Millisecond)} {
			if shorter > 0 && shorter < k.best.Steps[i].For {
				if k.try(func(s *scenario.Scenario) { s.Steps[i].For = shorter }) {
					break
				}
			}
		}
	}
}

// simplify returns settings to their defaults.
func (k *shrinker) simplify() {
	for _, change := range scenario.Simpler() {
		k.try(func(s *scenario.Scenario) { change(&s.Setup) })
	}
}
