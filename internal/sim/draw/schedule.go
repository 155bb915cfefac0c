// Package draw makes the random scenarios of soaks: a cluster, and the faults that happen to it.
// A seed gives the same scenario in every release. The package has no access to a run, so no
// schedule depends on what the members do.
package draw

import (
	"slices"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Config is what schedules are drawn from. It has no defaults.
type Config struct {
	Algorithm string
	Option    string // the algorithm's own option; empty: one of Options
	Options   []string
	Nodes     int             // members, 1 to n
	Faults    []scenario.Verb // what may happen
	PerRun    int             // faults in a schedule
	Draws     []Kind          // what else varies
	Timing    election.Timing
}

// Schedule returns the random scenario of that seed.
func (c Config) Schedule(seed uint64) *scenario.Scenario {
	g := generator{c: &c, seed: seed}
	g.rng.Seed(seed ^ 0xba707a) // the world draws from the seed itself
	s := &scenario.Scenario{Name: "seed " + strconv.FormatUint(seed, 10), Setup: g.setup(seed), Steps: make([]scenario.Step, 0, 4*c.PerRun)}
	g.s = s
	g.allowed = scenario.NewPreconditions(&s.Setup)
	g.begin()
	g.born()
	g.standAll()
	g.wait()
	for range c.PerRun {
		g.happenings()
		if g.s.Setup.OneLeader() {
			g.siege()
			g.succession()
			g.claimant()
			g.churn()
			g.retime()
		}
		g.handover()
		g.contest()
		if g.drawFault() && !g.rng.One(4) {
			g.wait()
		}
	}
	g.finish()
	return s
}

type generator struct {
	c       *Config
	s       *scenario.Scenario
	seed    uint64
	rng     RNG
	allowed scenario.Preconditions

	hangs, duplicates, stalls, ranks, elections, handovers, full, requests, attested, claimants, churns, retimes, late, rivals *RNG // nil: they do not happen

	weights, seats map[string]int // of named elections
	claimed        election.ID    // the member of which second processes start with the list of all
}

// begin chooses the draws that happen repeatedly in this schedule.
func (g *generator) begin() {
	for d, c := range map[Kind]**RNG{Hangs: &g.hangs, Duplicates: &g.duplicates, Stalls: &g.stalls, Priorities: &g.ranks, Elections: &g.elections, Handovers: &g.handovers, Full: &g.full, Requests: &g.requests, Attested: &g.attested, Claimants: &g.claimants, Churn: &g.churns, Retimes: &g.retimes, Late: &g.late, Rivals: &g.rivals} {
		if drawn, ok := g.draw(d); ok {
			*c = drawn
		}
	}
}

// setup draws a cluster, most often with the defaults.
func (g *generator) setup(seed uint64) scenario.Setup {
	s := scenario.Setup{Algorithm: g.c.Algorithm, Option: g.c.Option, Timing: g.c.Timing, Seed: seed}
	if s.Option == "" && len(g.c.Options) > 0 {
		s.Option = g.c.Options[g.rng.Below(len(g.c.Options))]
	}
	nodes := g.c.Nodes
	if s.OneLeader() && g.rng.One(2) {
		nodes = 1 + g.rng.Below(nodes) // majorities of even and of small sets
	}
	if c, ok := g.draw(Handovers); ok && !c.One(4) {
		nodes = g.c.Nodes
	}
	for i := 1; i <= nodes; i++ {
		s.Members = append(s.Members, election.Rank{ID: election.ID(strconv.Itoa(i))})
	}
	g.vary(&s)
	g.newcomers(&s)
	g.founding(&s)
	s.NoPreempt = g.rng.One(4)
	if g.rng.One(2) {
		s.Work = true
		s.Drain = [...]time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second}[g.rng.Below(4)]
	}
	f := s.Filled()
	switch g.rng.Below(4) {
	case 0: // as slow as the timing allows
		s.Latency = scenario.Span{Min: time.Millisecond, Max: g.longestLatency(&f)}
	case 1:
		s.Latency = scenario.Span{Min: 50 * time.Microsecond, Max: time.Millisecond}
	}
	if g.rng.One(8) {
		s.Observers = []election.ID{s.Members[g.rng.Below(len(s.Members))].ID}
	}
	s.LeadUnhealthy = g.rng.One(3)
	if none := g.rng.One(8); none && !s.OneLeader() {
		s.NoDisk = true
	} else if g.rng.One(4) {
		s.Fsync = scenario.Span{Min: time.Millisecond, Max: 200 * time.Millisecond}
	}
	g.slowWork(&s)
	g.slowLinks(&s)
	g.compaction(&s)
	g.lateWrites(&s)
	if _, ok := g.draw(Attested); ok && s.OneLeader() && s.Option == "" {
		s.Option = "attested"
	}
	s.Fsync.Max = min(s.Fsync.Max, f.Timing.TProcess) // that is part of handling a message
	g.varyLinks(&s)
	return s
}

// slowest returns how long a message may take: t_max, also by a fast clock.
func (g *generator) longestLatency(s *scenario.Setup) time.Duration {
	if s.OneLeader() {
		return s.Timing.TMax - s.Timing.TMax/50
	}
	return s.Timing.TMax
}

// wait lets time pass: next to nothing, about a message's time, or about a suspicion's.
func (g *generator) wait() {
	t := g.timing()
	longest := [...]time.Duration{5 * time.Millisecond, 2 * t.TMax, t.T(), 2 * t.T()}[g.rng.Below(4)]
	g.add(scenario.Step{Do: scenario.Run, For: time.Duration(1+g.rng.Below(int(longest/time.Microsecond))) * time.Microsecond})
}

// do adds a step if the preconditions allow it.
func (g *generator) add(s scenario.Step) bool {
	if g.allowed.Take(s) != nil {
		return false
	}
	g.s.Steps = append(g.s.Steps, s)
	return true
}

// run lets time pass, at most that much.
func (g *generator) run(c *RNG, most time.Duration) {
	g.add(scenario.Step{Do: scenario.Run, For: c.upTo(most)})
}

// timing returns the times of the cluster, defaults filled in.
func (g *generator) timing() election.Timing { return g.s.Setup.Filled().Timing }

// member draws a member, the highest (the leader) as often as all lower members together.
func (g *generator) member() election.ID {
	m := g.s.Setup.Members
	i := len(m) - 1
	for i > 0 && g.rng.One(2) {
		i--
	}
	if g.rng.One(3) {
		i = g.rng.Below(len(m))
	}
	return m[i].ID
}

func (g *generator) drawLink() (scenario.Link, bool) {
	l := scenario.Link{A: g.member(), B: g.member(), Both: g.rng.One(2)}
	if g.rng.One(2) {
		l.A, l.B = l.B, l.A
	}
	return l, l.A != l.B
}

// fault adds a fault and reports whether it could.
func (g *generator) drawFault() bool {
	s := scenario.Step{Do: g.c.Faults[g.rng.Below(len(g.c.Faults))]}
	switch s.Do {
	case scenario.Cut, scenario.Reset, scenario.Delay:
		l, ok := g.drawLink()
		if !ok {
			return false
		}
		s.Links = []scenario.Link{l}
		if s.Do == scenario.Delay {
			s.For = time.Duration(1+g.rng.Below(1200)) * time.Millisecond
		}
	case scenario.Partition:
		return g.partition(s)
	case scenario.Heal:
		if l, ok := g.drawLink(); ok && g.rng.One(3) {
			s.Links = []scenario.Link{l}
		}
	case scenario.Restart, scenario.Start:
		return g.restart(s)
	case scenario.Join:
		return g.join()
	case scenario.Add, scenario.Remove:
		s.Members, s.Via = []election.ID{g.member()}, []election.ID{g.member()}
		if s.Do == scenario.Add && g.ranks != nil && g.ranks.One(2) {
			s.Ranked, s.Priority = true, g.ranks.Below(7)-3
		}
		if s.Do == scenario.Add && s.Members[0] == s.Via[0] {
			return false
		}
	default:
		s.Members = []election.ID{g.member()}
		g.detail(&s)
	}
	return g.add(s)
}

func (g *generator) detail(s *scenario.Step) {
	switch s.Do {
	case scenario.Crash:
		if g.rng.One(4) {
			s.Word = "torn"
		}
	case scenario.Disk:
		s.Word = [...]string{"slow", "fail", "ok"}[g.rng.Below(3)]
		if s.Word == "slow" {
			s.For = time.Duration(1+g.rng.Below(800)) * time.Millisecond
		}
	case scenario.Transfer:
		s.Via = []election.ID{g.member()}
	case scenario.Health:
		s.Word = [...]string{"unhealthy", "healthy"}[g.rng.Below(2)]
	case scenario.Tell:
		s.Word = [...]string{"a", "b", "c", scenario.Nothing}[g.rng.Below(4)]
	case scenario.Clock:
		s.Word = [...]string{"drift", "jump"}[g.rng.Below(2)]
		if s.Word == "drift" {
			s.PPM = int64(g.rng.Below(2001) - 1000)
			if g.s.Setup.OneLeader() {
				s.PPM *= 5 // half the tolerated drift: another clock may err as far in the opposite direction
			}
		} else {
			s.For = time.Hour
		}
	}
}

// restart brings back a dead member.
func (g *generator) restart(s scenario.Step) bool {
	for range len(g.s.Setup.Members) {
		s.Members = []election.ID{g.member()}
		s.Word = ""
		if !g.s.Setup.NoDisk && g.rng.One(6) && !g.s.Setup.OneLeader() {
			s.Word = "rollback"
		}
		if g.add(s) {
			return true
		}
	}
	return false
}

// joins reports whether members come and go in these schedules.
func (g *generator) joins() bool { return slices.Contains(g.c.Faults, scenario.Join) }

// newcomers draws which members are on no list: some, or, to create a cluster, all or all but
// the founder.
func (g *generator) newcomers(s *scenario.Setup) {
	if !g.joins() {
		return
	}
	oneIn := 3
	if g.rng.One(6) {
		oneIn = 1
	}
	founder := g.rng.Below(len(s.Members) + 1) // the last: none
	for i, r := range s.Members {
		if i != founder && g.rng.One(oneIn) {
			s.Newcomers = append(s.Newcomers, r.ID)
		}
	}
}

// born makes most newcomers join at once.
func (g *generator) born() {
	if c := g.full; c != nil && !g.s.Setup.OneLeader() && c.One(2) {
		g.fill(c, [...]string{"full", "full", "full"})
	}
	for range g.s.Setup.Newcomers {
		if g.rng.One(3) {
			g.wait()
		}
		if g.rng.Below(4) > 0 {
			g.join()
		}
	}
}

// join makes a dead member join through up to three members.
func (g *generator) join() bool {
	m := g.s.Setup.Members
	for range m {
		s := scenario.Step{Do: scenario.Join, Members: []election.ID{g.member()}}
		for range 1 + g.rng.Below(3) {
			if via := g.member(); via != s.Members[0] && !slices.Contains(s.Via, via) {
				s.Via = append(s.Via, via)
			}
		}
		if len(s.Via) > 0 && g.add(s) {
			return true
		}
	}
	return false
}

func (g *generator) partition(s scenario.Step) bool {
	s.Sides = make([][]election.ID, 2)
	for _, r := range g.s.Setup.Members {
		side := g.rng.Below(2)
		s.Sides[side] = append(s.Sides[side], r.ID)
	}
	return len(s.Sides[0]) > 0 && len(s.Sides[1]) > 0 && g.add(s)
}

// finish brings some of the dead members back and demands agreement.
func (g *generator) finish() {
	g.retimed()
	for _, r := range g.s.Setup.Members {
		if g.rng.One(2) {
			g.add(scenario.Step{Do: scenario.Restart, Members: []election.ID{r.ID}})
		}
	}
	full := g.fillLast()
	for range g.s.Setup.Newcomers {
		g.join()
	}
	if full {
		g.run(g.full, 4*g.timing().T())
	}
	g.settle()
}
