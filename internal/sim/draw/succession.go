package draw

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file draws what befalls the place of a quorum's member: the end of a leader that a guard
// attests, second processes that claim a member's id, fast changes of the members and of their times.

// succession draws the end of a leader's process, which its guard attests: while members cannot reach
// that machine, while the work stops, or after a takeover.
func (g *generator) succession() {
	c := g.attested
	if c == nil || c.One(2) {
		return
	}
	t, leader := g.timing().T(), g.someone(c)
	g.reunite(c)
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

// churn draws requests of a user that change the members within milliseconds, and an outage in their midst.
func (g *generator) churn() {
	c := g.churns
	if c == nil || c.One(2) {
		return
	}
	t := g.timing().T()
	g.reunite(c)
	short := [...]time.Duration{2 * time.Millisecond, 20 * time.Millisecond, t / 4, t}[c.Below(4)]
	for range 1 + c.Below(5) {
		g.reshape(c)
		g.run(c, short)
	}
	g.outage(c)
}

// reshape draws a request that changes which members vote, or which leads.
func (g *generator) reshape(c *RNG) {
	id, at := []election.ID{g.anyone(c)}, []election.ID{g.anyone(c)}
	switch c.Below(9) {
	case 8: // a new machine, which joins
		if g.add(scenario.Step{Do: scenario.Remove, Members: id, Via: at}) {
			g.run(c, g.timing().T())
		}
		g.add(scenario.Step{Do: scenario.Crash, Members: id})
		if slices.Contains(g.s.Setup.Newcomers, id[0]) {
			g.add(scenario.Step{Do: scenario.Restart, Members: id, Word: "emptied"})
		}
	case 0, 1:
		g.add(scenario.Step{Do: scenario.Remove, Members: id, Via: at})
	case 2:
		if id[0] != at[0] {
			g.add(scenario.Step{Do: scenario.Add, Members: id, Via: at})
		}
	case 3, 4:
		if id[0] == at[0] {
			return
		}
		if c.One(2) {
			g.add(scenario.Step{Do: scenario.Crash, Members: id})
		}
		g.add(scenario.Step{Do: scenario.Join, Members: id, Via: at})
	case 5:
		g.add(scenario.Step{Do: scenario.Transfer, Members: id, Via: at})
	case 6:
		g.add(scenario.Step{Do: scenario.Resign, Members: id})
	default:
		g.add(scenario.Step{Do: scenario.Leave, Members: id})
	}
}

// anyone draws a member, each as often.
func (g *generator) anyone(c *RNG) election.ID {
	m := g.s.Setup.Members
	return m[c.Below(len(m))].ID
}

// outage draws what ends many members at the same moment, or separates them, or fills their disks.
func (g *generator) outage(c *RNG) {
	t := g.timing().T()
	kind, oneIn := c.Below(6), 1+c.Below(3)
	var hit []election.ID
	for _, r := range g.s.Setup.Members {
		if c.One(oneIn) {
			hit = append(hit, r.ID)
		}
	}
	do := func(s scenario.Step) {
		for _, id := range hit {
			s.Members = []election.ID{id}
			g.add(s)
		}
	}
	switch kind {
	case 0, 1:
		do(scenario.Step{Do: scenario.PowerOff})
		g.run(c, t)
		do(scenario.Step{Do: scenario.Restart})
	case 2:
		do(scenario.Step{Do: scenario.Crash, Word: [...]string{"", "torn"}[c.Below(2)]})
		g.run(c, t/4)
		do(scenario.Step{Do: scenario.Restart})
	case 3:
		do(scenario.Step{Do: scenario.Freeze})
		g.run(c, 2*t)
		do(scenario.Step{Do: scenario.Thaw})
	case 4:
		do(scenario.Step{Do: scenario.Disk, Word: [...]string{"full", "fail"}[c.Below(2)]})
		g.run(c, 2*t)
		do(scenario.Step{Do: scenario.Disk, Word: "ok"})
	default:
		g.cutSome(c, g.anyone(c))
		g.run(c, 2*t)
		g.add(scenario.Step{Do: scenario.Heal})
	}
}

// retime draws that members restart in turn, most often within a short while, with times that are
// shorter than the first, or with the first.
func (g *generator) retime() {
	c := g.retimes
	if c == nil || c.One(2) {
		return
	}
	t := g.timing()
	least := t.Heartbeat + t.TMax/10 // a heartbeat must be answered before the lease ends
	to := scenario.Step{Do: scenario.Times, For: t.TMax, Process: t.TProcess}
	if !c.One(3) {
		to.For, to.Process = t.TMax/time.Duration(1+c.Below(4)), least+c.upTo(t.TProcess-least)
	}
	most := [...]time.Duration{t.TMax, t.T(), 3 * t.T()}[c.Below(3)]
	for _, r := range g.s.Setup.Members {
		if c.One(4) {
			continue
		}
		to.Members = []election.ID{r.ID}
		g.add(to)
		g.again(c, r.ID)
		g.run(c, most)
	}
}

// retimed gives all members the first times, so that they can agree at the end.
func (g *generator) retimed() {
	if g.retimes == nil || !g.s.Setup.OneLeader() {
		return
	}
	t := g.timing()
	for _, r := range g.s.Setup.Members {
		g.add(scenario.Step{Do: scenario.Times, Members: []election.ID{r.ID}, For: t.TMax, Process: t.TProcess})
		if g.allowed.Lives(r.ID) {
			g.add(scenario.Step{Do: scenario.Crash, Members: []election.ID{r.ID}})
			g.add(scenario.Step{Do: scenario.Restart, Members: []election.ID{r.ID}})
		}
	}
}
