package ring

import "github.com/batuta-dev/batuta/election"

// ChangRoberts is the state of a member in Chang and Roberts' algorithm (1979), as described in
// docs/sources.md, "Leader election".
//
//	ELECTION  to the successor: this candidate is the highest so far
//	ELECTED   to the successor: this leadership has begun
//
// ELECTION's Ring is only the candidate, or empty if no member that it passed is a candidate.
type ChangRoberts struct {
	ring
	nominee []election.Rank // this member, as it last nominated itself in the round; empty: it has not
}

// NewChangRoberts returns the algorithm of a member.
func NewChangRoberts(options ...Option) *ChangRoberts {
	return &ChangRoberts{ring: newRing(options)}
}

// Name returns "chang-roberts".
func (c *ChangRoberts) Name() string { return "chang-roberts" }

// Step handles an event.
func (c *ChangRoberts) Step(ev election.Event, out election.Actions) { c.step(c, ev, out) }

// start begins an election: "p marks itself as participating, and sends a message along the
// ring, saying that it is the leader" ("Leader election").
func (c *ChangRoberts) start(out election.Actions) {
	c.join(c.own(out), out)
	switch stands := out.Eligible(out.Self().ID); {
	case c.next != election.None:
		c.nominate(own(out), out)
	case stands:
		c.win(out) // a ring of a single member: the message is home
	default:
		c.rest(out)
	}
}

// own returns this member as a candidate, nil if it is not.
func own(out election.Actions) []election.Rank {
	if !out.Eligible(out.Self().ID) {
		return nil
	}
	return []election.Rank{out.Self()}
}

// nominate sends this member's message around the ring.
func (c *ChangRoberts) nominate(candidate []election.Rank, out election.Actions) {
	c.round.Initiator, c.nominee = out.Self().ID, candidate
	c.send(election.Message{Kind: election.Election, Round: c.round, Ring: candidate}, far, out)
}

func (c *ChangRoberts) receive(m *election.Message, out election.Actions) {
	switch m.Kind {
	case election.Election:
		out.Vouch(m.Round.Initiator) // its link to the leader may be all that is down
		c.electionFrom(m, out)
	case election.Elected:
		// "It changes its state to not participating, and registers the new leader. If the id is
		// not its own, it passes the message on" ("Leader election").
		c.announced(m, out)
	}
}

// electionFrom compares the candidate with this member ("Leader election").
func (c *ChangRoberts) electionFrom(m *election.Message, out election.Actions) {
	if !c.sane(m.Round.Number) || len(m.Ring) > 1 {
		return
	}
	participant := c.phase == participating && m.Round.Number == c.round.Number
	switch {
	case m.Round.Number > c.round.Number:
	case !participant && c.forgotten(out):
		c.restart(c, "a late message asks for a leader", out)
		return
	case !participant:
		return // late: its round is over, or has been started again
	}
	switch home := origin(m); {
	case home == out.Self().ID:
		c.cameHome(m, participant, out)
	case c.skips(home, out):
		c.meet(m, out)
		c.restart(c, "its candidate is down or removed", out)
	default:
		c.compare(m, participant, out)
	}
}

// origin returns the member at which the message ends: the candidate.
func origin(m *election.Message) election.ID {
	if len(m.Ring) == 0 {
		return m.Round.Initiator
	}
	return m.Ring[0].ID
}

// cameHome handles a member's own message: "if it is equal to its own, then it is the leader"
// ("Leader election").
func (c *ChangRoberts) cameHome(m *election.Message, participant bool, out election.Actions) {
	switch {
	case !participant:
		// From an earlier life of this process.
	case len(m.Ring) == 0:
		c.foundNone(c, out)
	default:
		c.win(out)
	}
}

// compare passes the message on, with this member as its candidate or unchanged, or drops it.
func (c *ChangRoberts) compare(m *election.Message, participant bool, out election.Actions) {
	stands := out.Eligible(out.Self().ID)
	higher := len(m.Ring) == 1 && m.Ring[0].Above(out.Self())
	switch {
	case higher && out.Leader().Leader.ID == out.Self().ID:
		// The leader has a lower rank. It stays until it hands over, as the Machine of the
		// higher member requests.
		c.meet(m, out)
		c.win(out)
	case higher || !stands:
		c.meet(m, out)
		c.send(*m, m.Hops-1, out)
	case !participant || !c.outranks(m): // it may be a candidate, or rank higher, only since it took part
		c.meet(m, out)
		c.nominate(own(out), out)
	}
	// Lower than its own, which is on its way already: it goes no further.
}

// outranks reports whether a message of this member in the round has a higher candidate than m.
func (c *ChangRoberts) outranks(m *election.Message) bool {
	return len(c.nominee) > 0 && (len(m.Ring) == 0 || c.nominee[0].Above(m.Ring[0]))
}

// meet marks this member as participating in the round of m.
func (c *ChangRoberts) meet(m *election.Message, out election.Actions) {
	if m.Round.Number > c.round.Number {
		c.nominee = nil
	}
	c.join(m.Round, out)
}

// win handles that this member has won: "when a process sees that it is the leader, it changes
// its state to not participating, and sends ELECTED" ("Leader election"). It sends at once if it
// leads already, else when its epoch is on disk.
func (c *ChangRoberts) win(out election.Actions) {
	if out.Leader().Leader.ID == out.Self().ID {
		c.announce(c.leads(), out)
		return
	}
	c.claim(c, out)
}

func (c *ChangRoberts) leads() election.Message { return election.Message{Kind: election.Elected} }
