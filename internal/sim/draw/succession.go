package draw

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file draws what befalls the place of a quorum's member: the end of a leader that a guard
// attests, and second processes that claim a member's id.

// succession draws the end of a leader's process, which its guard attests: while members cannot reach
// that machine, while the work stops, or after a takeover.
func (g *generator) succession() {
	c := g.attested
	if c == nil || c.One(2) {
		return
	}
	t, leader := g.timing().T(), g.someone(c)
	if c.One(2) {
		g.add(scenario.Step{Do: scenario.Heal})
		g.run(c, 3*t)
	}
	switch id := []election.ID{leader}; c.Below(5) {
	case 0:
		g.cutSome(c, leader)
	case 1:
		g.add(scenario.Step{Do: scenario.Resign, Members: id})
	case 2:
		g.add(scenario.Step{Do: scenario.Freeze, Members: id})
		g.run(c, 2*t)
	case 3:
		g.add(scenario.Step{Do: scenario.Freeze, Members: []election.ID{g.someone(c)}}) // it receives the secret late
	}
	if c.One(2) {
		g.run(c, t/4)
	}
	g.add(scenario.Step{Do: scenario.Crash, Members: []election.ID{leader}})
	g.run(c, t)
	if !c.One(3) {
		g.again(c, g.someone(c))
	}
	if c.One(2) {
		g.add(scenario.Step{Do: scenario.Heal})
	}
	g.add(scenario.Step{Do: scenario.Restart, Members: []election.ID{leader}})
}

// cutSome cuts some members off from that member.
func (g *generator) cutSome(c *RNG, from election.ID) {
	for _, r := range g.s.Setup.Members {
		if r.ID != from && c.One(2) {
			g.add(scenario.Step{Do: scenario.Cut, Links: []scenario.Link{{A: from, B: r.ID, Both: !c.One(4)}}})
		}
	}
}

// claimant draws a second process with a member's id and an empty disk, on a machine of its own. It
// joins, as when a user replaces a machine, or starts with the list that all have. Of the latter all
// have the same id, since several could form a second cluster. Copies of a disk are not drawn: a
// quorum assumes that there are none.
func (g *generator) claimant() {
	c := g.claimants
	if c == nil || !c.One(3) {
		return
	}
	s := scenario.Step{Do: scenario.Duplicate, Members: []election.ID{g.someone(c)}}
	via := []election.ID{g.someone(c)}
	if g.joins() && via[0] != s.Members[0] && !c.One(4) {
		s.Via = via
	} else if g.claimed == election.None {
		g.claimed = s.Members[0]
	}
	if len(s.Via) == 0 && (g.claimed != s.Members[0] || len(g.s.Setup.Members)-len(g.s.Setup.Newcomers) < 2) {
		return // a list of a single member creates a cluster wherever it is
	}
	if len(s.Via) > 0 && c.One(2) {
		g.add(scenario.Step{Do: scenario.Remove, Members: s.Members, Via: via})
	}
	if !g.add(s) {
		return
	}
	switch c.Below(4) {
	case 0:
		g.add(scenario.Step{Do: scenario.Crash, Members: s.Members})
	case 1:
		g.add(scenario.Step{Do: scenario.PowerOff, Members: s.Members})
	case 2:
		g.add(scenario.Step{Do: scenario.Freeze, Members: s.Members})
	}
	if c.One(2) {
		g.run(c, 2*g.timing().T())
	}
}
