package draw

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file draws what a lease has to withstand and random faults seldom cause. The leader is
// isolated; within T members that have promised it something restart, lose power, or have their
// clocks changed.

// siege draws such a schedule, for an algorithm that never has two leaders.
func (g *generator) siege() {
	if g.rng.Below(3) > 0 {
		return
	}
	g.wait()
	t := g.timing()
	leader := g.member()
	g.skew(leader)
	if g.rng.One(3) {
		g.delayAll(leader, t)
	} else {
		g.isolate(leader)
	}
	for range 1 + g.rng.Below(2*len(g.s.Setup.Members)) {
		g.run(&g.rng, t.T()/3)
		g.unsettle(leader)
	}
	g.run(&g.rng, 2*t.T())
	if g.rng.One(2) {
		g.add(scenario.Step{Do: scenario.Heal})
	}
}

// skew makes the leader's clock as slow as allowed, and the rest as fast.
func (g *generator) skew(leader election.ID) {
	if g.rng.One(2) {
		return
	}
	for _, r := range g.s.Setup.Members {
		ppm := int64(5000)
		if r.ID == leader {
			ppm = -ppm
		}
		g.add(scenario.Step{Do: scenario.Clock, Members: []election.ID{r.ID}, Word: "drift", PPM: ppm})
	}
}

// slow delays messages to or from the leader by up to twice T.
func (g *generator) delayAll(leader election.ID, t election.Timing) {
	for _, r := range g.s.Setup.Members {
		if l := (scenario.Link{A: leader, B: r.ID}); r.ID != leader && g.rng.Below(4) > 0 {
			if g.rng.One(2) {
				l.A, l.B = l.B, l.A
			}
			g.add(scenario.Step{Do: scenario.Delay, Links: []scenario.Link{l}, For: g.rng.upTo(2 * t.T())})
		}
	}
}

// isolate cuts the leader off, with a companion or alone.
func (g *generator) isolate(leader election.ID) {
	s := scenario.Step{Do: scenario.Partition, Sides: make([][]election.ID, 2)}
	for _, r := range g.s.Setup.Members {
		side := 1
		if r.ID == leader || g.rng.One(4) {
			side = 0
		}
		s.Sides[side] = append(s.Sides[side], r.ID)
	}
	if len(s.Sides[1]) > 0 {
		g.add(s)
	}
}

// unsettle disturbs a member that may have made a promise.
func (g *generator) unsettle(leader election.ID) {
	m := g.s.Setup.Members
	who := []election.ID{m[g.rng.Below(len(m))].ID}
	if who[0] == leader && g.rng.Below(4) > 0 {
		return
	}
	again := func(first scenario.Verb) {
		if g.add(scenario.Step{Do: first, Members: who}) {
			if g.rng.One(2) {
				g.run(&g.rng, 10*time.Millisecond)
			}
			g.add(scenario.Step{Do: scenario.Restart, Members: who})
		}
	}
	switch g.rng.Below(5) {
	case 0:
		again(scenario.Crash)
	case 1, 2:
		again(scenario.PowerOff)
	case 3:
		g.add(scenario.Step{Do: scenario.Clock, Members: who, Word: "jump", For: time.Hour})
	case 4:
		g.add(scenario.Step{Do: scenario.Campaign, Members: who})
	}
}
