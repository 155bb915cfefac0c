package draw

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// A Kind is something that random schedules vary besides their faults. Each has its own random
// sequence, so a seed has the same meaning with and without it.
type Kind string

// The kinds.
const (
	Priorities Kind = "priorities"  // members rank by priority before the id
	Times      Kind = "times"       // heartbeat, t_max and t_process vary, T from 25 ms to 3 s
	Latencies  Kind = "latencies"   // each link has its own latency, up to t_max in a single direction, with jitter
	Hangs      Kind = "hangs"       // a disk takes minutes to write, or never ends
	Duplicates Kind = "duplicates"  // a second process starts under a member's id
	Stalls     Kind = "stalls"      // a process is stopped for less than T
	Elections  Kind = "elections"   // named elections, of a single slot or several: members are candidates, prefer some, hand over, are drained
	Cuts       Kind = "cuts"        // some cuts stay: every member is still reached through at most a third member
	Founding   Kind = "founding"    // no member leads before some have received from each other, or, if it joins, before it learns of a leader
	MinMembers Kind = "min-members" // a member leads only while it receives from so many members
	Handovers  Kind = "handovers"   // leaderships end while their work stops slowly and a second member asks for votes
	Full       Kind = "full"        // a disk has no more room, and a member joins; a quorum compacts its log after a few records
	Requests   Kind = "requests"    // users pause the cluster, have no work for a leader, start a second machine with an id, or move a member
	Absences   Kind = "absences"    // members may be silent for longer than T; where members join, a leader removes those that are absent
	Attested   Kind = "attested"    // in a quorum: a guard attests the end of a leader's process
	Claimants  Kind = "claimants"   // in a quorum: a second process with an empty disk claims a member's id
	Churn      Kind = "churn"       // in a quorum: changes of the members within milliseconds, and an outage in the midst of them
	Retimes    Kind = "retimes"     // in a quorum: members restart with other times
	Late       Kind = "late"        // a disk refuses a write, and has it after a crash
	Rivals     Kind = "rivals"      // candidacies and ranks change while a leader is elected
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Priorities, Times, Latencies, Hangs, Duplicates, Stalls, Cuts, Founding, Elections, MinMembers, Handovers, Full, Requests, Absences, Attested, Claimants, Churn, Retimes, Late, Rivals}
}

// Defaults returns the kinds that are drawn unless others are requested: those before [Elections].
func Defaults() []Kind { return Kinds()[:slices.Index(Kinds(), Elections)] }

// draw returns the sequence of a draw, and whether this seed uses it: a seed in three does.
func (g *generator) draw(d Kind) (*RNG, bool) {
	i := slices.Index(Kinds(), d)
	c := &RNG{}
	c.Seed(g.seed ^ uint64(i+1)<<40)
	return c, slices.Contains(g.c.Draws, d) && c.One(3)
}

// vary draws the settings, before all that depends on them.
func (g *generator) vary(s *scenario.Setup) {
	if c, ok := g.draw(Priorities); ok {
		for i := range s.Members {
			if c.One(2) {
				s.Members[i].Priority = c.Below(7) - 3
			}
		}
		slices.SortStableFunc(s.Members, election.Rank.Compare)
	}
	if c, ok := g.draw(Times); ok {
		t := &s.Timing
		t.TMax = max(5*time.Millisecond, c.upTo([...]time.Duration{10, 50, 200, 1000}[c.Below(4)]*time.Millisecond))
		t.TProcess = t.TMax/2 + c.upTo(2*t.TMax)
		t.Heartbeat = t.T()/10 + c.upTo(t.T()/4)
		if s.OneLeader() {
			t.Heartbeat = min(t.Heartbeat, t.TProcess/2) // a heartbeat must be answered before the lease ends
		}
		t.Secured = c.One(3)
	}
	if c, ok := g.draw(Absences); ok {
		t := s.Filled().Timing.T()
		s.Timing.Silence = t + c.upTo(2*t)
		if g.joins() && c.One(2) {
			s.ReapAfter = 4*t + c.upTo(8*t)
		}
	}
}

// compaction draws that a quorum compacts its log after a few records: full disks refuse that.
func (g *generator) compaction(s *scenario.Setup) {
	if c, ok := g.draw(Full); ok && s.OneLeader() {
		s.CompactAfter = 1 + c.Below(16)
	}
}

// founding draws which member may lead first.
func (g *generator) founding(s *scenario.Setup) {
	if c, ok := g.draw(MinMembers); ok && !s.OneLeader() {
		s.MinMembers = 1 + c.Below(len(s.Members))
	}
	c, ok := g.draw(Founding)
	if !ok || s.OneLeader() {
		return
	}
	if len(s.Newcomers) > 0 && c.One(2) {
		s.Newcomer = true
		return
	}
	s.Expect = 1 + c.Below(len(s.Members))
}

// upTo draws from 1 ns to d, in whole microseconds if d is that long.
func (c *RNG) upTo(d time.Duration) time.Duration {
	if d < time.Microsecond {
		return 1
	}
	return time.Duration(1+c.Below(int(d/time.Microsecond))) * time.Microsecond
}

// varyLinks sets the latency of some links. Messages over the same link take similar times;
// latencies of two links may differ by a factor of ten.
func (g *generator) varyLinks(s *scenario.Setup) {
	c, ok := g.draw(Latencies)
	if !ok {
		return
	}
	f := s.Filled()
	tMax := g.longestLatency(&f)
	for i, a := range s.Members {
		for _, b := range s.Members[i+1:] {
			if c.One(4) {
				continue
			}
			both := c.One(2)
			s.Links = append(s.Links, scenario.LinkLatency{Link: scenario.Link{A: a.ID, B: b.ID, Both: both}, Span: c.someSpan(tMax)})
			if !both {
				s.Links = append(s.Links, scenario.LinkLatency{Link: scenario.Link{A: b.ID, B: a.ID, Both: false}, Span: c.someSpan(tMax)})
			}
		}
	}
}

func (c *RNG) someSpan(most time.Duration) scenario.Span {
	high := c.upTo(most)
	if c.One(4) {
		high = most
	}
	return scenario.Span{Min: high - c.upTo(high), Max: high}
}

// happenings adds the steps of draws, besides the faults.
func (g *generator) happenings() {
	if g.elections != nil {
		g.nameSomething(g.elections)
	}
	if g.hangs != nil && g.hangs.One(6) {
		s := scenario.Step{Do: scenario.Disk, Members: []election.ID{g.someone(g.hangs)}, Word: "hang"}
		if g.hangs.One(2) {
			s.Word, s.For = "slow", time.Minute+g.hangs.upTo(9*time.Minute)
		}
		g.add(s)
	}
	if g.duplicates != nil && !g.s.Setup.OneLeader() && g.duplicates.One(8) && len(g.s.Setup.Newcomers) == 0 {
		g.add(scenario.Step{Do: scenario.Duplicate, Members: []election.ID{g.someone(g.duplicates)}})
	}
	if c := g.full; c != nil && c.One(4) {
		g.fill(c, [...]string{"full", "full", "ok"})
	}
	if c := g.late; c != nil && g.s.Setup.LateWrites && c.One(4) {
		g.refuseLate(c)
	}
	if g.requests != nil && g.requests.One(3) {
		g.request(g.requests)
	}
	if g.stalls != nil && g.stalls.One(4) {
		who := []election.ID{g.someone(g.stalls)}
		if g.add(scenario.Step{Do: scenario.Freeze, Members: who}) {
			g.run(g.stalls, g.timing().T()-1)
			g.add(scenario.Step{Do: scenario.Thaw, Members: who})
		}
	}
}

// fill changes how a member's disk works. In best effort the list most often grows right after a disk is
// full: it needs room that this disk does not have.
func (g *generator) fill(c *RNG, states [3]string) {
	s := scenario.Step{Do: scenario.Disk, Members: []election.ID{g.someone(c)}, Word: states[c.Below(3)]}
	if !g.add(s) || s.Word != "full" || !g.joins() || g.s.Setup.OneLeader() || len(g.s.Setup.Newcomers) == 0 || c.One(4) {
		return
	}
	grows := scenario.Step{Do: scenario.Join, Members: []election.ID{g.s.Setup.Newcomers[c.Below(len(g.s.Setup.Newcomers))]}, Via: s.Members}
	if c.One(3) {
		grows.Do = scenario.Add
	}
	if grows.Members[0] != s.Members[0] {
		g.add(grows)
	}
}

// fillLast fills some disks before the last members join, and reports whether it has. Most often no leader
// is elected after that, whose leadership would be written together with the list.
func (g *generator) fillLast() bool {
	if g.full == nil || g.s.Setup.OneLeader() || len(g.s.Setup.Newcomers) == 0 || g.full.One(3) {
		return false
	}
	g.add(scenario.Step{Do: scenario.Heal})
	g.run(g.full, 4*g.timing().T())
	for _, r := range g.s.Setup.Members {
		if g.full.One(2) {
			g.add(scenario.Step{Do: scenario.Disk, Members: []election.ID{r.ID}, Word: "full"})
		}
	}
	return true
}

// lateWrites draws that a write that a disk refused may be there after a crash.
func (g *generator) lateWrites(s *scenario.Setup) {
	_, ok := g.draw(Late)
	s.LateWrites = ok && !s.NoDisk
}

// refuseLate makes a disk refuse writes, and most often its member crash after an election.
func (g *generator) refuseLate(c *RNG) {
	id, asked := g.someone(c), []election.ID{g.someone(c)}
	g.add(scenario.Step{Do: scenario.Disk, Members: []election.ID{id}, Word: [...]string{"fail", "fail", "full"}[c.Below(3)]})
	g.add(scenario.Step{Do: [...]scenario.Verb{scenario.Resign, scenario.Campaign}[c.Below(2)], Members: asked})
	if g.run(c, 2*g.timing().T()); c.One(4) {
		return
	}
	if c.One(2) {
		g.again(c, id)
	}
	if c.One(2) {
		g.add(scenario.Step{Do: scenario.Disk, Members: []election.ID{id}, Word: "ok"})
	}
	g.again(c, id)
}

// request adds what a user asks for.
func (g *generator) request(c *RNG) {
	s := scenario.Step{Do: scenario.Candidacy, Members: []election.ID{g.someone(c)}, Word: [...]string{"off", "on"}[c.Below(2)]}
	switch via := g.someone(c); c.Below(5) {
	case 0:
		s.Do, s.Word, s.For = scenario.Pause, "", time.Duration(c.Below(3))*c.upTo(2*g.timing().T())
	case 1:
		if g.joins() && !g.s.Setup.OneLeader() && via != s.Members[0] {
			s.Do, s.Word, s.Via = scenario.Duplicate, "", []election.ID{via}
		}
	case 2:
		if slices.Contains(g.s.Setup.Newcomers, s.Members[0]) {
			g.add(scenario.Step{Do: scenario.Crash, Members: s.Members})
			s.Do, s.Word = scenario.Restart, "moved"
		}
	}
	g.add(s)
}

// someone draws a member, the highest as often as all lower members together.
func (g *generator) someone(c *RNG) election.ID {
	m := g.s.Setup.Members
	if c.One(2) {
		return m[len(m)-1].ID
	}
	return m[c.Below(len(m))].ID
}

// settle ends the schedule: every fault except death ends, but sometimes cuts or hung disks stay, in
// a quorum full disks too.
func (g *generator) settle() {
	if c, ok := g.draw(Cuts); ok && !g.joins() {
		if cuts := g.fewCuts(c); len(cuts) > 0 {
			g.add(scenario.Step{Do: scenario.Heal})
			g.add(scenario.Step{Do: scenario.Cut, Links: cuts})
			g.add(scenario.Step{Do: scenario.Settle, Word: scenario.ButCuts})
			return
		}
	}
	if g.hangs != nil && g.hangs.One(2) {
		g.add(scenario.Step{Do: scenario.Settle, Word: scenario.ButDisks})
		return
	}
	if g.full != nil && g.s.Setup.OneLeader() && g.full.One(2) {
		g.add(scenario.Step{Do: scenario.Settle, Word: scenario.ButDisks})
		return
	}
	g.add(scenario.Step{Do: scenario.Settle})
}

// fewCuts draws cuts that leave each two live members a link, or links to a common third member;
// or that form two sides without a link between them. It may find none.
func (g *generator) fewCuts(c *RNG) (cuts []scenario.Link) {
	var living []election.ID
	for _, r := range g.s.Setup.Members {
		if g.allowed.Lives(r.ID) {
			living = append(living, r.ID)
		}
	}
	n := len(living)
	for range 8 {
		linked := make([][]bool, n)
		for i := range linked {
			linked[i] = make([]bool, n)
		}
		cuts = cuts[:0]
		oneIn := 2 + c.Below(3)
		for i := range n {
			for j := range i {
				linked[i][j] = !c.One(oneIn)
				if linked[j][i] = linked[i][j]; !linked[i][j] {
					cuts = append(cuts, scenario.Link{A: living[j], B: living[i], Both: true})
				}
			}
		}
		if narrow(linked) {
			return cuts
		}
	}
	return nil
}

// narrow reports whether any two connected members have a link, or links to a common third member.
func narrow(linked [][]bool) bool {
	for a := range linked {
		reached := map[int]bool{a: true}
		for way := []int{a}; len(way) > 0; way = way[1:] {
			for b, ok := range linked[way[0]] {
				if ok && !reached[b] {
					reached[b] = true
					way = append(way, b)
				}
			}
		}
		for b := range reached {
			between := func(c int) bool { return linked[a][c] && linked[c][b] }
			if a != b && !linked[a][b] && !slices.ContainsFunc(slices.Sorted(maps.Keys(reached)), between) {
				return false
			}
		}
	}
	return true
}

// drawnNames are the elections of random schedules.
var drawnNames = [...]string{"a", "b", "c", "d", "e", "f", "g"}

// standAll makes most members candidates of most names.
func (g *generator) standAll() {
	if g.elections == nil {
		return
	}
	g.weights, g.seats = map[string]int{}, map[string]int{} // without an entry: 1
	for _, name := range drawnNames {
		if g.elections.One(4) {
			g.weights[name] = 2 + g.elections.Below(2)
		}
		if g.elections.One(3) {
			g.seats[name] = 2 + g.elections.Below(2)
		}
		for _, r := range g.s.Setup.Members {
			if !g.elections.One(4) {
				g.add(g.stand(r.ID, name))
			}
		}
	}
}

// stand makes a member a candidate of a name: most often like the rest, sometimes for more or
// fewer slots.
func (g *generator) stand(id election.ID, name string) scenario.Step {
	s := scenario.Step{Do: scenario.Stand, Members: []election.ID{id}, Word: name, Weight: g.weights[name], Seats: g.seats[name]}
	if g.elections.One(8) {
		s.Seats = 1 + g.elections.Below(4)
	}
	s.Prefer = g.elections.One(6)
	return s
}

// nameSomething adds a user's request about a named election.
func (g *generator) nameSomething(c *RNG) {
	if c.One(2) {
		return
	}
	who, other := []election.ID{g.someone(c)}, []election.ID{g.someone(c)}
	s := scenario.Step{Members: who, Word: drawnNames[c.Below(len(drawnNames))]}
	switch c.Below(7) {
	case 0, 1:
		s = g.stand(who[0], s.Word)
	case 2:
		s.Do = scenario.Withdraw
	case 3:
		s.Do = scenario.Yield
	case 4:
		s.Do, s.Via = scenario.Give, other
	case 5:
		s.Do, s.Via, s.Word = scenario.Drain, other, ""
	case 6:
		s.Do, s.Via, s.Word = scenario.Undrain, other, ""
	}
	g.add(s)
}
