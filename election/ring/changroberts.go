package ring

import "github.com/batuta-dev/batuta/election"

// ChangRoberts is one member's side of Chang and Roberts' algorithm (1979), as
// docs/sources.md, "Leader election", tells it.
//
//	ELECTION  to the successor: this candidate is the highest so far
//	ELECTED   to the successor: this leadership has begun
//
// ELECTION's Ring is the candidate alone, or empty when nobody that it passed
// stands for election.
type ChangRoberts struct{ ring }

// NewChangRoberts gives the algorithm for one member.
func NewChangRoberts(options ...Option) *ChangRoberts {
	c := &ChangRoberts{}
	for _, o := range options {
		o(&c.ring)
	}
	return c
}

// Name is "chang-roberts".
func (c *ChangRoberts) Name() string { return "chang-roberts" }

// Step handles one event.
func (c *ChangRoberts) Step(ev election.Event, out election.Actions) {
	if c.mend(out) && c.phase == participating {
		c.restart("its successor is gone", out)
	}
	switch ev.Kind {
	case election.Started, election.LeaderLost, election.Campaign:
		if c.phase != participating && out.Eligible(out.Self().ID) {
			c.start(out)
		}
	case election.Received:
		c.receive(ev.Message, out)
	case election.TimerFired:
		c.expire(out)
	case election.LeaderElected:
		c.settled(ev.Token, out)
	case election.Withdrawn:
		if ev.Peer == out.Self().ID {
			c.restart("it cannot take its lead", out) // the round that it won is void
		}
	}
}

// start: "p marks itself as participating, and sends a message along the ring,
// saying that it is the leader" ("Leader election").
func (c *ChangRoberts) start(out election.Actions) {
	c.join(c.own(out), out)
	switch stands := out.Eligible(out.Self().ID); {
	case c.next != election.None:
		c.nominate(own(out), out)
	case stands:
		c.win(out) // a ring of one: the message is home
	default:
		c.rest(out)
	}
}

// own is this member as a candidate, nobody if it does not stand.
func own(out election.Actions) []election.Rank {
	if !out.Eligible(out.Self().ID) {
		return nil
	}
	return []election.Rank{out.Self()}
}

// nominate sends this member's message on its way round.
func (c *ChangRoberts) nominate(candidate []election.Rank, out election.Actions) {
	c.round.Initiator = out.Self().ID
	c.send(election.Message{Kind: election.Election, Round: c.round, Ring: candidate}, far, out)
}

// restart makes a lost round good by a new one.
func (c *ChangRoberts) restart(why string, out election.Actions) {
	out.Note("restarts", c.next, why)
	c.start(out)
}

// expire: a flag does not stay set for ever, nor does a winner have for ever.
func (c *ChangRoberts) expire(out election.Actions) {
	c.rest(out)
	if !out.Leader().Defined() {
		c.restart("the round is lost", out)
	}
}

func (c *ChangRoberts) receive(m *election.Message, out election.Actions) {
	switch m.Kind {
	case election.Election:
		out.Vouch(m.Round.Initiator) // its link to the leader may be all that is down
		c.electionFrom(m, out)
	case election.Elected:
		// "It changes its state to not participating, and registers the new
		// leader. If the id is not its own, it passes the message on" ("Leader election").
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
		c.restart("a late message asks for a leader", out)
		return
	case !participant:
		return // late: its round is over, or has been started again
	}
	switch home := origin(m); {
	case home == out.Self().ID:
		c.cameHome(m, participant, out)
	case c.skips(home, out), c.astray(m, out):
		c.meet(m, out)
		c.restart("its candidate is gone", out)
	default:
		c.compare(m, participant, out)
	}
}

// origin is whom the message is on its way home to: the candidate.
func origin(m *election.Message) election.ID {
	if len(m.Ring) == 0 {
		return m.Round.Initiator
	}
	return m.Ring[0].ID
}

// astray reports whether m has passed everyone without coming home: its candidate
// is no member any more, or is gone and has its place elsewhere in some members'
// rings, which have not heard of its priority.
func (c *ChangRoberts) astray(m *election.Message, out election.Actions) bool {
	return far-m.Hops > len(out.Members())
}

// cameHome: "if it is equal to its own, then it is the leader" ("Leader election").
func (c *ChangRoberts) cameHome(m *election.Message, participant bool, out election.Actions) {
	switch {
	case !participant:
		// From an earlier life of this process.
	case len(m.Ring) == 0:
		c.rest(out) // nobody stands
	default:
		c.win(out)
	}
}

// compare passes the message on, with this member for its candidate or as it
// is, or keeps it.
func (c *ChangRoberts) compare(m *election.Message, participant bool, out election.Actions) {
	stands := out.Eligible(out.Self().ID)
	higher := len(m.Ring) == 1 && m.Ring[0].Above(out.Self())
	switch {
	case higher && out.Leader().Leader == out.Self():
		// The leader outranked: it stays until it hands over, which the Machine
		// of the higher one asks of it.
		c.meet(m, out)
		c.win(out)
	case higher || !stands:
		c.meet(m, out)
		c.send(*m, m.Hops-1, out)
	case !participant:
		c.meet(m, out)
		c.nominate(own(out), out)
	}
	// Lower than its own, which is on its way already: it goes no further.
}

// meet marks this member as participating in the round of m.
func (c *ChangRoberts) meet(m *election.Message, out election.Actions) {
	c.join(m.Round, out)
}

// win: "when a process sees that it is the leader, it changes its state to not
// participating, and sends ELECTED" ("Leader election"): at once if it leads already,
// else when its epoch is on disk.
func (c *ChangRoberts) win(out election.Actions) {
	if out.Leader().Leader == out.Self() {
		c.announce(election.Message{Kind: election.Elected}, out)
		return
	}
	c.claim(out)
}

// settled: the leadership t is safe on disk.
func (c *ChangRoberts) settled(t election.Token, out election.Actions) {
	switch {
	case t.Leader != out.Self():
		c.passOn(t, out)
	case c.round.Number > 0: // else it led before there was any contest
		c.announce(election.Message{Kind: election.Elected}, out)
	}
}
