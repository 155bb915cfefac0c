package draw

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file draws ends of a leadership while its work stops slowly, or while candidacies change. A
// member that cannot reach the leader asks for votes, and may be in a higher term when they meet.

// slowWork makes the work of a leadership stop slowly, most often on slow links.
func (g *generator) slowWork(s *scenario.Setup) {
	c, ok := g.draw(Handovers)
	if !ok {
		return
	}
	if s.Timing == (election.Timing{}) && !c.One(3) {
		s.Timing = election.Timing{Heartbeat: 300 * time.Millisecond, TProcess: 1800 * time.Millisecond} // longer than a link takes to come back
	}
	t := s.Filled().Timing
	s.Work, s.Drain = true, t.T()/4+c.upTo(2*t.T())
	if c.One(2) {
		s.Latency = scenario.Span{Min: time.Millisecond, Max: g.longestLatency(&scenario.Setup{Algorithm: s.Algorithm, Timing: t})}
	}
}

// handover draws such an end.
func (g *generator) handover() {
	c, m, t := g.handovers, g.s.Setup.Members, g.timing()
	if c == nil || len(m) < 2 || c.One(3) {
		return
	}
	leader, other := g.someone(c), m[c.Below(len(m))].ID
	if leader == other {
		return
	}
	g.reunite(c)
	apart := []scenario.Link{{A: leader, B: other, Both: !c.One(4)}}
	g.add(scenario.Step{Do: scenario.Cut, Links: apart})
	slow := g.slowDisk(c, []election.ID{leader, other, m[c.Below(len(m))].ID}[c.Below(3)])
	if c.One(3) {
		g.askAtOnce(c, leader, other)
	} else {
		apart = append(apart, g.inTurn(c, leader, other)...)
	}
	if c.One(4) {
		g.again(c, other)
	}
	if c.One(2) {
		g.run(c, t.T())
	}
	g.endLead(c, leader)
	if c.One(2) {
		slices.Reverse(apart)
	}
	for _, l := range apart {
		g.run(c, t.T()/2)
		g.add(scenario.Step{Do: scenario.Heal, Links: []scenario.Link{l}})
	}
	if c.One(4) {
		g.again(c, other)
	}
	if c.One(4) {
		g.add(scenario.Step{Do: scenario.Campaign, Members: []election.ID{other}})
	}
	g.run(c, 2*t.T())
	if slow != election.None {
		g.add(scenario.Step{Do: scenario.Disk, Members: []election.ID{slow}, Word: "ok"})
	}
}

// reunite heals all cuts, in every second case, and lets the members agree.
func (g *generator) reunite(c *RNG) {
	if c.One(2) {
		g.add(scenario.Step{Do: scenario.Heal})
		g.run(c, 3*g.timing().T())
	}
}

// inTurn cuts followers off from the leader, each for longer than its promise lasts, and heals each
// cut before the next. A majority follows at any time, and a majority votes for a different member in
// the course of time. It returns the cut that lasts.
func (g *generator) inTurn(c *RNG, leader, other election.ID) (lasting []scenario.Link) {
	t := g.timing()
	var rest []election.ID
	for _, r := range g.s.Setup.Members {
		if r.ID != leader && r.ID != other {
			rest = append(rest, r.ID)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	at := c.Below(len(rest))
	for i := range 2 + c.Below(2) {
		if i > 0 {
			g.add(scenario.Step{Do: scenario.Heal, Links: lasting})
			g.run(c, t.T()/4)
		}
		lasting = []scenario.Link{{A: leader, B: rest[(at+i)%len(rest)], Both: true}}
		g.add(scenario.Step{Do: scenario.Cut, Links: lasting})
		g.add(scenario.Step{Do: scenario.Run, For: t.T() + c.upTo(t.T()/4)})
	}
	return lasting
}

// slowDisk makes a member's disk slow, and returns the member, or does nothing.
func (g *generator) slowDisk(c *RNG, id election.ID) election.ID {
	if !c.One(3) {
		return election.None
	}
	g.add(scenario.Step{Do: scenario.Disk, Members: []election.ID{id}, Word: "slow", For: c.upTo(g.timing().T())})
	return id
}

// askAtOnce makes members lose their leader at the same moment: they all ask for votes soon.
func (g *generator) askAtOnce(c *RNG, leader, other election.ID) {
	t := g.timing()
	switch c.Below(4) {
	case 0:
		g.add(scenario.Step{Do: scenario.Resign, Members: []election.ID{leader}})
	case 1:
		g.add(scenario.Step{Do: scenario.Transfer, Members: []election.ID{leader}, Via: []election.ID{other}})
	default: // the rest start again, and have no leader for a while
		for _, r := range g.s.Setup.Members {
			if r.ID != leader && r.ID != other || c.One(4) {
				g.again(c, r.ID)
			}
		}
	}
	g.run(c, t.T())
}

// again crashes a member and starts it again.
func (g *generator) again(c *RNG, id election.ID) {
	s := scenario.Step{Do: scenario.Crash, Members: []election.ID{id}}
	switch c.Below(3) {
	case 0:
		s.Do = scenario.PowerOff
	case 1:
		s.Word = "torn"
	}
	g.add(s)
	if c.One(2) {
		g.run(c, g.timing().T()/3)
	}
	g.add(scenario.Step{Do: scenario.Restart, Members: []election.ID{id}})
}

// endLead makes a leadership end: by a user, by the leader's own health, or not at all.
func (g *generator) endLead(c *RNG, leader election.ID) {
	s := scenario.Step{Members: []election.ID{leader}}
	third := []election.ID{g.someone(c)}
	switch c.Below(6) {
	case 0, 1:
		s.Do = scenario.Resign
	case 2:
		s.Do, s.Via = scenario.Transfer, third
	case 3:
		s.Do, s.Word = scenario.Health, "unhealthy"
	case 4:
		if s.Do, s.Via = scenario.Remove, third; !g.joins() {
			s.Do, s.Via = scenario.Resign, nil
		}
	default:
		return
	}
	if g.add(s); s.Do == scenario.Health && c.One(2) {
		g.run(c, g.timing().T())
		s.Word = "healthy"
		g.add(s)
	}
}

// What follows draws candidacies and ranks that change while a leader is elected.

// slowLinks makes links slow, most often, so that much happens during an election.
func (g *generator) slowLinks(s *scenario.Setup) {
	if c, ok := g.draw(Rivals); ok && !c.One(3) {
		f := s.Filled()
		s.Latency = scenario.Span{Min: time.Millisecond, Max: g.longestLatency(&f)}
	}
}

// contest draws the end of a leadership, with some members unhealthy before it: by a user, by the end of its
// process, or by a higher epoch as a cut heals. Users and faults make and unmake candidates within a short
// time.
func (g *generator) contest() {
	c := g.rivals
	if c == nil || c.One(2) {
		return
	}
	t := g.timing().T()
	g.reunite(c)
	leader := g.someone(c)
	for _, r := range g.s.Setup.Members {
		if r.ID != leader && c.One(2) {
			g.add(fitness(c, r.ID))
		}
	}
	g.run(c, 2*t)
	short := [...]time.Duration{t / 40, t / 8, t / 2}[c.Below(3)]
	if c.One(3) { // just before it
		g.candidacy(c, leader)
		g.run(c, short)
	}
	switch c.Below(6) {
	case 0, 1:
		g.endLead(c, leader)
	case 2:
		g.cutSome(c, leader)
		g.run(c, 3*t)
		g.add(scenario.Step{Do: scenario.Heal})
	case 3:
		g.add(scenario.Step{Do: scenario.Candidacy, Members: []election.ID{leader}, Word: "off"})
	default:
		g.add(scenario.Step{Do: [...]scenario.Verb{scenario.Crash, scenario.PowerOff, scenario.Freeze}[c.Below(3)], Members: []election.ID{leader}})
	}
	for range 2 + c.Below(6) {
		g.run(c, short)
		g.candidacy(c, leader)
	}
	g.run(c, 2*t)
	for _, r := range g.s.Setup.Members { // members without work for a leader need no leader
		if !c.One(8) {
			g.add(scenario.Step{Do: scenario.Candidacy, Members: []election.ID{r.ID}, Word: "on"})
		}
	}
}

// candidacy draws what makes a member a candidate, or none, or changes its rank or its place on the list.
func (g *generator) candidacy(c *RNG, leader election.ID) {
	id, at := g.anyone(c), g.anyone(c)
	if c.One(4) {
		id = leader
	}
	s := scenario.Step{Members: []election.ID{id}}
	switch c.Below(16) {
	case 0:
		s.Do = scenario.Resign
	case 1:
		s.Do = scenario.Campaign
	case 2:
		s.Do = scenario.Thaw
	case 3, 4:
		s.Do, s.Via = scenario.Transfer, []election.ID{at}
	case 5:
		s.Do, s.For = scenario.Pause, time.Duration(c.Below(3))*c.upTo(2*g.timing().T())
	case 6, 7, 8:
		if id == at || !g.joins() {
			return
		}
		s = enrollment(c, id, at)
	case 9:
		g.again(c, id)
		return
	case 10:
		s = scenario.Step{Do: scenario.Cut, Links: []scenario.Link{{A: id, B: at, Both: !c.One(3)}}}
		if c.One(2) {
			s.Do = scenario.Heal
		}
		if id == at {
			s = scenario.Step{Do: scenario.Heal}
		}
	default:
		s = fitness(c, id)
	}
	g.add(s)
}

// enrollment draws that a member's rank changes, or that it joins, leaves or is removed.
func enrollment(c *RNG, id, at election.ID) scenario.Step {
	s := scenario.Step{Members: []election.ID{id}, Via: []election.ID{at}}
	switch c.Below(5) {
	case 0, 1:
		s.Do, s.Ranked, s.Priority = scenario.Add, true, c.Below(7)-3
	case 2:
		s.Do = scenario.Remove
	case 3:
		s.Do, s.Via = scenario.Leave, nil
	default:
		s.Do = scenario.Join
	}
	return s
}

// fitness draws that a member is healthy, or is not, or that it has work for a leader, or has not.
func fitness(c *RNG, id election.ID) scenario.Step {
	if c.One(3) {
		return scenario.Step{Do: scenario.Candidacy, Members: []election.ID{id}, Word: [...]string{"off", "on"}[c.Below(2)]}
	}
	return scenario.Step{Do: scenario.Health, Members: []election.ID{id}, Word: [...]string{"unhealthy", "healthy"}[c.Below(2)]}
}
