package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file checks the rules of best effort: Bully and the rings.

// phaseChecker checks that a Machine's phase moves as its table allows.
type phaseChecker struct{ *history }

func (c *phaseChecker) stepped(w *scene, p *process) {
	if m, ok := p.machine.(*machine.Machine); ok {
		if from, to, wrong := m.Moved(); wrong {
			c.fail(w, p, invariant.Phases, "it goes from %v to %v", from, to)
		}
	}
}

// stalledChecker checks that a leader which was stopped for long loses leadership before it sends.
type stalledChecker struct{ *history }

func (c *stalledChecker) resumed(w *scene, p *process, actions []election.Action) {
	if does := invariant.BeforeLosing(p.view, actions); does != "" {
		c.fail(w, p, invariant.Stalled, "it was stopped for %v and %s", p.stall, does)
	}
}

// vouchChecker checks the age of a confirmation that a member accepts.
type vouchChecker struct {
	*history
	said map[*election.Message]time.Duration // when each REPORT was first sent
}

func (c *vouchChecker) begin(*scene) {
	if c.said == nil {
		c.said = map[*election.Message]time.Duration{}
	}
	clear(c.said)
}

// received checks a message that confirms the leader which p already follows, if p may have
// accepted it.
func (c *vouchChecker) received(w *scene, p *process, m *election.Message, _ []election.Action) {
	relayed := m.Kind == election.Relay && m.Carried != nil
	if relayed {
		m = m.Carried
	}
	if m.Kind != election.ProbeReply || m.To != p.rank.ID || m.From == m.Token.Leader.ID || m.Token != c.places[p.place].held || p.stall > 0 {
		return
	}
	t := w.setup.Timing
	until := epochOfTime.Add(p.clock.at(w.now) + t.Bears() - m.Age)
	if sparedUntil(p) != until || !until.After(c.places[p.place].spared) {
		return // it made no difference
	}
	if took := w.now - c.said[m]; invariant.LateVouch(t, took, relayed) {
		c.fail(w, p, invariant.Vouch, "%s confirmed %v ago that it receives %v, in answer to %d", m.From, took, m.Token, m.Stamp)
	}
}

// sends records when a REPORT is first sent.
func (c *vouchChecker) sends(w *scene, _ *process, m *election.Message) {
	if m.Kind == election.Relay && m.Carried != nil {
		m = m.Carried
	}
	if m.Kind != election.ProbeReply {
		return
	}
	if _, again := c.said[m]; !again {
		c.said[m] = w.now
	}
}

// lowerChecker checks that no member acts on a lower token than its own.
type lowerChecker struct{ *history }

func (c *lowerChecker) received(w *scene, p *process, m *election.Message, actions []election.Action) {
	s := &c.places[p.place]
	if s.wasDue || m.Kind != election.Beat && m.Kind != election.Coordinator {
		return
	}
	if !m.Token.Defined() || !s.held.Above(m.Token) { // a ring names its winner before the winner has an epoch
		return
	}
	for i := range actions {
		a := &actions[i]
		yields := p.unhealthy || p.machine.Standing() == election.IneligibleFew // to any that is healthy; or its time with too few members ends in this step
		resigns := yields && a.Kind == election.NotifyLost && a.Cause == election.CauseResigned
		if (a.Kind == election.NotifyElected || a.Kind == election.NotifyLost) && !resigns {
			c.fail(w, p, invariant.Lower, "it holds %v and acts on a %s of %v", s.held, m.Kind, m.Token)
		}
	}
}

// tellChecker checks that a leader reports its loss before it sends a message that reveals it.
type tellChecker struct{ *history }

func (c *tellChecker) sends(w *scene, p *process, m *election.Message) {
	if p.view.Leader.ID == p.rank.ID && invariant.GivesAway(p.view, m) {
		c.fail(w, p, invariant.Tells, "it sends a %s of %v while its watchers have it lead as %v", m.Kind, m.Token, p.view)
	}
}

// savedChecker checks that a token is on disk before it is announced. Where a majority decides,
// [termChecker] does.
type savedChecker struct{ *history }

func (c *savedChecker) tells(w *scene, p *process, a *election.Action) {
	if w.setup.NoDisk || a.Kind == election.NotifyLost || !a.Token.Above(p.disk.now.Token) {
		return
	}
	if a.Token.Leader.ID == p.rank.ID || !w.unsaved(p) {
		c.fail(w, p, invariant.Saved, "it announces %v and its disk has %v", a.Token, p.disk.now.Token)
	}
}

func (c *savedChecker) sends(w *scene, p *process, m *election.Message) {
	if d := &p.disk; m.Token != d.now.Token && !w.setup.NoDisk && m.Token.Above(d.now.Token) {
		if !d.failed && m.Token.Above(c.places[p.place].unsaved) || m.Token.Leader.ID == p.rank.ID {
			c.fail(w, p, invariant.Saved, "it sends a %s of %v and its disk has %v", m.Kind, m.Token, d.now.Token)
		}
	}
}

// claimChecker checks members that begin to lead, and members that follow an unclaimed token.
// Where a majority decides, [termChecker] does.
type claimChecker struct{ *history }

func (c *claimChecker) tells(w *scene, p *process, a *election.Action) {
	if a.Kind == election.NotifyLost {
		return
	}
	if _, ok := c.claims[a.Token]; a.Token.Leader.ID != p.rank.ID && !ok {
		c.fail(w, p, invariant.Claimed, "it follows %v, which no member has claimed", a.Token)
	}
	if a.Token.Leader.ID == p.rank.ID && a.Kind == election.NotifyElected && c.broken == nil {
		c.claimed(w, p, a.Token)
	}
}

func (c *claimChecker) claimed(w *scene, p *process, t election.Token) {
	if _, again := c.claims[t]; again && c.places[p.place].intact && !(w.setup.Settled && w.now == 0) && !w.everDoubled(p.slot) {
		c.fail(w, p, invariant.Once, "it claims %v, which has been claimed before", t)
	}
	if p.working {
		c.fail(w, p, invariant.Work, "it leads as %v", t)
	}
	if !w.mayLead(p) {
		c.fail(w, p, invariant.Stands, "it leads as %v", t)
	}
	if t.Epoch == 1 {
		c.founds(w, p)
	}
	if w.roster && !p.onOwnList() {
		c.fail(w, p, invariant.Member, "it claims %v, and on its own list it has departed", t)
	}
	if len(c.calm) == 0 || w.setup.NoDetector || w.net.slowest > w.setup.Timing.TMax {
		return
	}
	for _, q := range w.procs[:c.n] {
		if q != p && q.condition == scenario.Alive {
			c.overlaps(w, p, q, t)
			if p.sameTimes(q) != nil || q.moves > 0 {
				continue // each refuses the other's dial, or p may dial a former address: q has nothing to report
			}
			c.belowFile(w, p, q, t)
			c.takesOver(w, p, q)
		}
	}
}

// founds checks a member that begins to lead without an earlier leadership.
func (c *claimChecker) founds(w *scene, p *process) {
	switch {
	case w.setup.Expect > 0:
		heard := 1
		for i := range p.peers { // the Machine has dropped its record of a member that left and came back
			if p.peers[i].heard {
				heard++
			}
		}
		if heard < w.setup.Expect {
			c.fail(w, p, invariant.Founding, "it has received %d members, itself included, and is to wait for %d", heard, w.setup.Expect)
		}
	case w.setup.Newcomer && len(p.through) > 0:
		c.fail(w, p, invariant.Founding, "it joins, and has received no leader")
	}
}

// overlaps checks that p does not begin to lead, without faults, while q's work runs. It applies if the
// two agree which of them outranks the other. If p has dropped q, it must have had q on its list while q
// led, and time to follow it: q was removed.
func (c *claimChecker) overlaps(w *scene, p, q *process, t election.Token) {
	lead := &c.places[q.place]
	if !c.calmFor(w, p, q) || c.eachOutranks(p, q, t) {
		return
	}
	of := &p.peers[q.slot]
	known := max(of.since, lead.begun, c.whole[p.slot*c.n+q.slot])
	removed := of.dropped > known && of.dropped-known >= recovery(w.setup.Timing)
	if w.roster && !removed && !c.acquainted(p, q, min(lead.begun, w.now-recovery(w.setup.Timing))) {
		return
	}
	if q.working {
		c.fail(w, p, invariant.Overlap, "it leads as %v, and the work of %s still runs, which it began as %v", t, q.rank.ID, lead.own)
	}
	if lead.own.Epoch == t.Epoch && (c.fault == 0 || c.fault < w.now-recovery(w.setup.Timing)) {
		c.fail(w, p, invariant.OneEpoch, "it leads as %v, and %s has led as %v", t, q.rank.ID, lead.own)
	}
}

// belowFile checks a claim of p: if p could reach q ever since it started, it must exceed the
// token on q's disk. A follower may claim at once: its leader had seen that token if it could
// reach q too, for longer than a healed link may go unnoticed. If members join, or two processes
// claim the same id, the leader need not have had q on its list.
func (c *claimChecker) belowFile(w *scene, p, q *process, t election.Token) {
	if s := &c.places[p.place]; s.told {
		leader, noticed := w.procs[w.slots[s.held.Leader.ID]], max(p.started-recovery(w.setup.Timing), 1)
		if w.roster || len(w.procs) > w.net.n || leader != p && !c.clear(w, leader, q, noticed) {
			return
		}
	}
	if c.clear(w, p, q, p.started) && q.heldAt < p.started && q.disk.now.Token.Epoch >= t.Epoch {
		c.fail(w, p, invariant.Asked, "it claims %v, and %s, which it can reach, has %v on disk", t, q.rank.ID, q.disk.now.Token)
	}
}

// takesOver checks that p does not claim while q leads, or hands over and still works. It
// applies if p holds no higher token and has received from q, or from a member that does, for
// long enough: three times the tolerated silence, and the dials after a heal.
func (c *claimChecker) takesOver(w *scene, p, q *process) {
	if w.everDoubled(p.slot) {
		return // the messages may come from either process
	}
	lead := &c.places[q.place]
	leads := q.view.Leader.ID == q.rank.ID || q.working && lead.yields
	if w.roster && (!p.machine.Knows(q.rank.ID) || w.listed(p, q.slot) != q) {
		return // it was removed, has left, or a second process of its id has its place on p's list
	}
	if !leads || c.places[p.place].held.Above(lead.held) {
		return
	}
	if !c.places[p.place].told && lead.since < p.started && c.clear(w, p, q, p.started) {
		c.fail(w, p, invariant.Takeover, "%s leads as %v and its messages arrive", q.rank.ID, lead.held)
	}
	long := w.now - 3*w.setup.Timing.Bears() - 2*w.setup.Timing.DialTime()
	if p.started > long || lead.since > long || p.peers[q.slot].dropped > long {
		return
	}
	for _, v := range w.procs[:c.n] {
		hears := v == q || v.view == lead.held && c.places[v.place].since < long
		if v != p && v.condition == scenario.Alive && hears && c.clear(w, p, v, long) && c.clear(w, v, q, long) {
			c.fail(w, p, invariant.Takeover, "%s leads as %v, and %s receives it", q.rank.ID, lead.held, v.rank.ID)
		}
	}
}
