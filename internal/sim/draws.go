package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Draw is something that random schedules vary beside their faults. Each draws from
// a sequence of its own: what a seed means without it stays as it is.
type Draw string

// The draws.
const (
	DrawPriorities Draw = "priorities"  // members rank by priority before the id
	DrawTimes      Draw = "times"       // heartbeat, t_max and t_process are others, T from 25 ms to 3 s
	DrawLatencies  Draw = "latencies"   // each link has a latency of its own, up to t_max one way, with jitter
	DrawHangs      Draw = "hangs"       // a disk takes minutes to write, or does not end
	DrawDuplicates Draw = "duplicates"  // another process starts under a member's id
	DrawStalls     Draw = "stalls"      // a process is stopped for less than T
	DrawElections  Draw = "elections"   // many elections on one membership, of one seat or several: members stand for them, prefer some, give them away, are drained
	DrawCuts       Draw = "cuts"        // some cuts stay: everyone is still reached over one member between at most
	DrawFounding   Draw = "founding"    // nobody leads before some have heard each other; of those that join, before it is told of a leader
	DrawMinMembers Draw = "min-members" // a member leads only while it receives so many members
)

// Draws are all that there are.
func Draws() []Draw {
	return []Draw{DrawPriorities, DrawTimes, DrawLatencies, DrawHangs, DrawDuplicates, DrawStalls, DrawCuts, DrawFounding, DrawElections, DrawMinMembers}
}

// DefaultDraws are those of which no schedule is known to break a rule, but for
// [DrawElections] and [DrawMinMembers], which are to be asked for.
func DefaultDraws() []Draw {
	return slices.DeleteFunc(Draws(), func(d Draw) bool { return d == DrawElections || d == DrawMinMembers })
}

// draw gives the sequence of a draw that this seed makes use of, one seed in oneIn.
func (g *generator) draw(d Draw, oneIn int) (*rng, bool) {
	i := slices.Index(Draws(), d)
	c := &rng{}
	c.seed(g.seed ^ uint64(i+1)<<40)
	return c, slices.Contains(g.c.Draws, d) && c.one(oneIn)
}

// vary draws the settings, before anything is drawn that depends on them.
func (g *generator) vary(s *scenario.Setup) {
	if c, ok := g.draw(DrawPriorities, 3); ok {
		for i := range s.Members {
			if c.one(2) {
				s.Members[i].Priority = c.below(7) - 3
			}
		}
		slices.SortFunc(s.Members, election.Rank.Compare)
	}
	if c, ok := g.draw(DrawTimes, 3); ok {
		t := &s.Timing
		t.TMax = max(5*time.Millisecond, c.upTo([...]time.Duration{10, 50, 200, 1000}[c.below(4)]*time.Millisecond))
		t.TProcess = t.TMax/2 + c.upTo(2*t.TMax)
		t.Heartbeat = t.T()/10 + c.upTo(t.T()/4)
		if s.OneLeader() {
			t.Heartbeat = min(t.Heartbeat, t.TProcess/2) // a beat must be answered before the lease ends
		}
		t.Secured = c.one(3)
	}
}

// founding draws who may lead first.
func (g *generator) founding(s *scenario.Setup) {
	if c, ok := g.draw(DrawMinMembers, 3); ok && !s.OneLeader() {
		s.MinMembers = 1 + c.below(len(s.Members))
	}
	c, ok := g.draw(DrawFounding, 3)
	if !ok || s.OneLeader() {
		return
	}
	if len(s.Newcomers) > 0 && c.one(2) {
		s.Newcomer = true
		return
	}
	s.Expect = 1 + c.below(len(s.Members))
}

// upTo draws from 1 ns to d, in whole microseconds if d is that long.
func (c *rng) upTo(d time.Duration) time.Duration {
	if d < time.Microsecond {
		return 1
	}
	return time.Duration(1+c.below(int(d/time.Microsecond))) * time.Microsecond
}

// varyLinks gives some links a latency of their own. What is sent over one link takes
// about as long as what was sent before; that of another may take ten times as long.
func (g *generator) varyLinks(s *scenario.Setup) {
	c, ok := g.draw(DrawLatencies, 3)
	if !ok {
		return
	}
	f := s.Filled()
	tMax := g.slowest(&f)
	for i, a := range s.Members {
		for _, b := range s.Members[i+1:] {
			if c.one(4) {
				continue
			}
			both := c.one(2)
			s.Links = append(s.Links, scenario.LinkLatency{Link: scenario.Link{A: a.ID, B: b.ID, Both: both}, Span: c.someSpan(tMax)})
			if !both {
				s.Links = append(s.Links, scenario.LinkLatency{Link: scenario.Link{A: b.ID, B: a.ID, Both: false}, Span: c.someSpan(tMax)})
			}
		}
	}
}

func (c *rng) someSpan(most time.Duration) scenario.Span {
	high := c.upTo(most)
	if c.one(4) {
		high = most
	}
	return scenario.Span{Min: high - c.upTo(high), Max: high}
}

// happenings has what a draw brings happen beside the faults.
func (g *generator) happenings() {
	if g.elections != nil {
		g.nameSomething(g.elections)
	}
	if g.hangs != nil && g.hangs.one(6) {
		s := scenario.Step{Do: scenario.Disk, Members: []election.ID{g.someone(g.hangs)}, Word: "hang"}
		if g.hangs.one(2) {
			s.Word, s.For = "slow", time.Minute+g.hangs.upTo(9*time.Minute)
		}
		g.do(s)
	}
	if g.duplicates != nil && !g.s.Setup.OneLeader() && g.duplicates.one(8) && len(g.s.Setup.Newcomers) == 0 {
		g.do(scenario.Step{Do: scenario.Duplicate, Members: []election.ID{g.someone(g.duplicates)}})
	}
	if g.stalls != nil && g.stalls.one(4) {
		who := []election.ID{g.someone(g.stalls)}
		if g.do(scenario.Step{Do: scenario.Freeze, Members: who}) {
			g.do(scenario.Step{Do: scenario.Run, For: g.stalls.upTo(g.s.Setup.Filled().Timing.T() - 1)})
			g.do(scenario.Step{Do: scenario.Thaw, Members: who})
		}
	}
}

// someone draws a member, the highest as often as all others together.
func (g *generator) someone(c *rng) election.ID {
	m := g.s.Setup.Members
	if c.one(2) {
		return m[len(m)-1].ID
	}
	return m[c.below(len(m))].ID
}

// settle ends the schedule: every fault ends but death, and now and then some cuts, or
// disks that hang.
func (g *generator) settle() {
	if c, ok := g.draw(DrawCuts, 3); ok && !g.joins() {
		if cuts := g.fewCuts(c); len(cuts) > 0 {
			g.do(scenario.Step{Do: scenario.Heal})
			g.do(scenario.Step{Do: scenario.Cut, Links: cuts})
			g.do(scenario.Step{Do: scenario.Settle, Word: scenario.ButCuts})
			return
		}
	}
	if g.hangs != nil && g.hangs.one(2) {
		g.do(scenario.Step{Do: scenario.Settle, Word: scenario.ButDisks})
		return
	}
	g.do(scenario.Step{Do: scenario.Settle})
}

// fewCuts draws cuts that leave each two of the living with a link, or with a member
// that both have a link to; or with nobody between them, on two sides. None: it did
// not come to that.
func (g *generator) fewCuts(c *rng) (cuts []scenario.Link) {
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
		oneIn := 2 + c.below(3)
		for i := range n {
			for j := range i {
				linked[i][j] = !c.one(oneIn)
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

// narrow says that any two members between which there is a way have a link, or each
// a link to a third.
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

// standAll has most members stand for most names.
func (g *generator) standAll() {
	if g.elections == nil {
		return
	}
	g.weights, g.seats = map[string]int{}, map[string]int{} // of which there are none: 1
	for _, name := range drawnNames {
		if g.elections.one(4) {
			g.weights[name] = 2 + g.elections.below(2)
		}
		if g.elections.one(3) {
			g.seats[name] = 2 + g.elections.below(2)
		}
		for _, r := range g.s.Setup.Members {
			if !g.elections.one(4) {
				g.do(g.stand(r.ID, name))
			}
		}
	}
}

// stand has a member stand for a name: most often as the others do, now and then for more
// or fewer seats.
func (g *generator) stand(id election.ID, name string) scenario.Step {
	s := scenario.Step{Do: scenario.Stand, Members: []election.ID{id}, Word: name, Weight: g.weights[name], Seats: g.seats[name]}
	if g.elections.one(8) {
		s.Seats = 1 + g.elections.below(4)
	}
	s.Prefer = g.elections.one(6)
	return s
}

// nameSomething has a user do something about a named election.
func (g *generator) nameSomething(c *rng) {
	if c.one(2) {
		return
	}
	who, other := []election.ID{g.someone(c)}, []election.ID{g.someone(c)}
	s := scenario.Step{Members: who, Word: drawnNames[c.below(len(drawnNames))]}
	switch c.below(7) {
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
	g.do(s)
}
