package explore

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// This file lists the moves of a state and makes them.

// moves appends all that may happen next.
func (x *untimed) moves(c *untimedState, to []move) []move {
	quiet := c.quiet()
	for link, pipe := range c.pipes {
		if len(pipe) > 0 {
			to = append(to, move{kind: deliverHead, a: uint8(link / x.n), b: uint8(link % x.n)})
		}
	}
	for i, m := range c.machines {
		a := uint8(i)
		if m == nil {
			if c.restarts > 0 {
				to = append(to, move{kind: startMember, a: a})
			}
			continue
		}
		if quiet || c.faults > 0 {
			for no := range m.timers {
				to = append(to, move{kind: fireTimer, a: a, no: uint8(no)})
			}
		}
		if c.crashes > 0 {
			to = append(to, move{kind: crashMember, a: a})
		}
		if c.starts > 0 {
			to = append(to, move{kind: callElection, a: a})
		}
		to = x.suspecting(c, i, quiet, to)
	}
	return to
}

// suspecting appends what the detector of a member may do. Heartbeats and corrections come only
// when nothing else is left to happen: they put a false suspicion right in the end.
func (x *untimed) suspecting(c *untimedState, i int, quiet bool, to []move) []move {
	for j, m := range c.machines {
		if m == nil && quiet && c.told[i].Leader.ID == x.ranks[j].ID {
			to = append(to, move{kind: suspectPeer, a: uint8(i), b: uint8(j)}) // rightly
		}
		if j == i || m == nil {
			continue
		}
		suspected := c.suspicions>>(i*x.n+j)&1 == 1
		if !suspected && c.faults > 0 {
			to = append(to, move{kind: suspectPeer, a: uint8(i), b: uint8(j)})
		}
		if suspected && quiet {
			to = append(to, move{kind: trustPeer, a: uint8(i), b: uint8(j)})
		}
		if quiet && c.told[i].Leader.ID == x.ranks[i].ID && c.told[j] != c.told[i] {
			to = append(to, move{kind: beatPeer, a: uint8(i), b: uint8(j)})
		}
	}
	return to
}

func (x *untimed) reduced(_ *untimedState, all []move) []move { return all }

func (x *untimed) timers(c *untimedState, a int) []string {
	if c.machines[a] == nil {
		return nil
	}
	return c.machines[a].timers
}

// rests reports whether only new faults may happen.
func (x *untimed) rests(c *untimedState, moves []move) bool {
	for _, mv := range moves {
		switch mv.kind {
		case crashMember, startMember, callElection:
		case suspectPeer:
			if c.machines[mv.b] == nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (x *untimed) tooFar(c *untimedState) bool {
	if x.c.Epochs == 0 {
		return false
	}
	var rounds [16]uint64
	low, high := x.bases(c, &rounds), uint64(0)
	for _, t := range c.disks {
		high = max(high, t.Epoch)
	}
	return high > low+uint64(x.c.Epochs)
}

// after returns the state that a move leads to, and the rule that it breaks, if any.
func (x *untimed) after(c *untimedState, mv move) (*untimedState, *invariant.Violation) {
	next := *c
	next.machines, next.disks = slices.Clone(c.machines), slices.Clone(c.disks)
	next.told, next.floor = slices.Clone(c.told), slices.Clone(c.floor)
	next.pipes = slices.Clone(c.pipes)
	x.ticks += time.Millisecond
	return &next, x.do(&next, mv)
}

func (x *untimed) do(c *untimedState, mv move) *invariant.Violation {
	a, b := int(mv.a), int(mv.b)
	switch mv.kind {
	case deliverHead:
		return x.arrive(c, a, b)
	case fireTimer:
		if !c.quiet() {
			c.faults, c.asked = c.faults-1, true
		}
		name := c.machines[a].timers[mv.no]
		x.note(a, "timer runs out:", name)
		return x.step(c, a, cause{kind: election.TimerFired, name: name})
	case crashMember:
		x.crash(c, a)
	case startMember:
		return x.restart(c, a)
	case suspectPeer:
		if c.machines[b] != nil {
			c.faults, c.asked = c.faults-1, true
			c.suspicions |= 1 << (a*x.n + b)
		}
		x.note(a, "is notified that it is down:", string(x.ranks[b].ID))
		return x.step(c, a, cause{kind: election.PeerDown, peer: x.ranks[b].ID})
	case trustPeer:
		c.suspicions &^= 1 << (a*x.n + b)
		x.note(a, "is notified that it is up:", string(x.ranks[b].ID))
		return x.step(c, a, cause{kind: election.PeerUp, peer: x.ranks[b].ID})
	case callElection:
		c.starts--
		x.note(a, "is asked to call an election", "")
		return x.step(c, a, cause{kind: election.Campaign})
	case beatPeer:
		x.push(c, a, b, x.store.envelope(x, &election.Message{Kind: election.Beat, Election: "default", From: x.ranks[a].ID,
			To: x.ranks[b].ID, Token: c.told[a], Highest: c.told[a].Epoch}))
	}
	return nil
}

func (x *untimed) crash(c *untimedState, a int) {
	x.note(a, "crashes", "")
	c.crashes--
	c.machines[a], c.told[a] = nil, election.Token{}
	clear(c.floor) // a member that was asked may be dead now
	for j := range x.n {
		c.suspicions &^= 1<<(a*x.n+j) | 1<<(j*x.n+a)
		c.pipes[j*x.n+a] = nil
		if j != a && c.machines[j] != nil {
			x.push(c, a, j, goodbye)
		}
	}
}

func (x *untimed) restart(c *untimedState, a int) *invariant.Violation {
	x.note(a, "starts", "")
	incarnation := uint64(2 + x.c.Restarts - int(c.restarts))
	c.restarts--
	c.floor[a] = 0
	for j, m := range c.machines {
		if m != nil {
			c.floor[a] = max(c.floor[a], c.disks[j].Epoch)
		}
	}
	return x.boot(c, a, machine.Config{Incarnation: incarnation,
		State: election.State{ID: x.ranks[a].ID, Incarnation: incarnation - 1, Token: c.disks[a]}})
}

func (x *untimed) push(c *untimedState, from, to int, m *envelope) {
	pipe := c.pipes[from*x.n+to]
	c.pipes[from*x.n+to] = append(pipe[:len(pipe):len(pipe)], m)
}

func (x *untimed) arrive(c *untimedState, from, to int) *invariant.Violation {
	link := from*x.n + to
	l := c.pipes[link][0]
	msg := l.m
	c.pipes[link] = c.pipes[link][1:]
	if c.machines[to] == nil {
		return nil
	}
	if l == goodbye {
		return x.step(c, to, cause{kind: election.PeerDown, peer: x.ranks[from].ID})
	}
	c.suspicions &^= 1 << (to*x.n + from)
	x.passes(msg, msg.To, "receives", msg.From)
	announces := msg.Kind == election.Coordinator || msg.Kind == election.Beat
	lower := announces && msg.Token.Defined() && c.told[to].Above(msg.Token)
	before := c.told[to]
	v := x.step(c, to, cause{kind: election.Received, msg: l})
	if v == nil && lower && c.told[to] != before {
		return x.broken(to, invariant.Lower, "it held %v and acts on a %s of %v", before, msg.Kind, msg.Token)
	}
	return v
}
