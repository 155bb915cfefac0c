package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/detector"
	"github.com/batuta-dev/batuta/internal/core/epoch"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/outbox"
	"github.com/batuta-dev/batuta/internal/core/reaper"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// Machine is a member of an election: membership, detector, timers and the algorithm behind one
// Step.
//
// It is a stack of parts: each calls the parts below it, and cannot reach a part above.
// It is not safe for concurrent use; a single driver owns it.
type Machine struct{ listing }

// New checks c, reports every fault in it at once, and gives a Machine that
// waits for its Started event.
func New(c Config) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Election == "" {
		c.Election = "default"
	}
	c.Timing = c.Timing.WithDefaults()
	m := &Machine{}
	m.cfg, m.algorithm, m.tenure, m.detector = c, c.Algorithm, tenure.New(c.Self.ID, c.State.Token), detector.New(c.Timing)
	m.seen, m.disk, m.reaper = epoch.NewSeen(c.State.Token), epoch.NewDisk(c.State.Token), reaper.New(c.ReapAfter)
	m.random.Seed(c.Seed, c.Incarnation)
	for _, e := range m.enlist(c) {
		m.mustNotify(e, m.now)
	}
	m.wasRemoved = slices.ContainsFunc(c.State.Members, func(e election.Member) bool { return e.ID == c.Self.ID && e.Departure == election.Removed })
	m.metas = meta.New(c.Self.ID, c.Incarnation, c.Meta)
	m.unfounded = !m.founds()
	return m, nil
}

// Step handles an event and returns what to do about it, in order. now never runs backwards. The
// slice is valid until the next Step.
func (m *Machine) Step(now time.Time, ev election.Event) []election.Action {
	last := m.begin(now)
	switch {
	case !m.tenure.Started() || m.cfg.NoDetector:
	case m.detector.Stalled(last, m.now, m.alarms.Deadline(), m.tenure.Beats()):
		m.resumeAfterStall(last)
	default:
		m.detector.Oversleep(m.now, m.alarms.Deadline())
	}
	m.handle(&ev)
	if due, any := m.Deadline(); any && !m.now.Before(due) {
		m.runDue()
	}
	m.reviewRefusals()
	m.unfounded = m.unfounded && !(m.tenure.Started() && m.founds())
	m.watchPause()
	m.review()
	if m.tenure.Leading() {
		m.pause.Hold(m.now, m.cfg.Self.ID)
	}
	m.endPoll()
	m.resumeContest()
	m.missHeir()
	m.reap()
	return m.out
}

func (m *Machine) handle(ev *election.Event) {
	switch ev.Kind {
	case election.Started:
		m.start(ev)
	case election.Received:
		m.receive(ev.Message)
	case election.LinkUp, election.LinkDown, election.DialFailed:
		m.link(ev)
	case election.PeerDown:
		if i, ok := m.index[ev.Peer]; ok && i != m.me {
			m.markDown(i, election.CauseCrashed, false, "the detector reports it")
		}
	case election.PeerUp:
		if i, ok := m.index[ev.Peer]; ok {
			m.markUp(i)
		}
	case election.Saved:
		m.saved(ev.Err)
	case election.Working:
		m.setWorking(ev.On)
	case election.Campaign:
		m.campaign()
	case election.Resigned:
		m.resign()
	case election.Closing:
		m.close()
	case election.Transfer:
		m.transfer(ev.Peer)
	case election.TimerFired:
		m.fire(ev.Name)
	case election.Woke:
		if i, ok := m.index[ev.Peer]; ok && i != m.me && m.tenure.Started() {
			m.hear(i)
		}
	default:
		m.handleMembership(ev)
	}
}

// link handles what the driver reports of a connection.
func (m *Machine) link(ev *election.Event) {
	if ev.Peer == m.cfg.Self.ID {
		m.answeredElsewhere(*ev)
		return
	}
	if d := m.isDeparting(ev.Peer); d >= 0 {
		m.departingLink(d, *ev)
		return
	}
	if ev.Peer == m.notifying && m.notifying != election.None && !m.Knows(m.notifying) {
		m.noticeLink(*ev)
		return
	}
	switch ev.Kind {
	case election.LinkUp:
		m.linkUp(ev.Rank, ev.Incarnation)
	case election.LinkDown:
		m.linkDown(ev.Peer)
		m.notifyAgain()
	case election.DialFailed:
		m.dialFailed(ev.Peer, ev.Refused, ev.Err, ev.Member)
	}
}

func (m *Machine) handleMembership(ev *election.Event) {
	switch ev.Kind {
	case election.JoinRequested:
		m.joinRequested(ev.Member, ev.Token)
	case election.JoinAccepted:
		m.joinAccepted(ev.List, ev.Token, ev.Age)
	case election.MemberAdded:
		if m.AdmitChange(false, ev.Member.ID, false) == nil {
			m.add(ev.Member, ev.On)
		}
	case election.MemberRemoved:
		if m.AdmitChange(true, ev.Peer, false) == nil {
			m.remove(ev.Peer, false)
		}
	case election.Leaving:
		m.leave()
	case election.Health:
		m.setHealth(ev.On)
	case election.Candidacy:
		m.setCandidacy(ev.On)
	case election.Tells:
		if m.metas.Set(ev.Meta) {
			m.learn(m.metas.Own())
			m.spreadMeta(m.metas.Own())
		}
	case election.Pausing:
		m.pause.Set(m.now, ev.Age, m.View().Leader.ID)
		if m.tenure.Leaderless() {
			m.discover("a user has set or ended a pause")
		}
	}
}

func (m *Machine) start(ev *election.Event) {
	m.origin = m.now
	m.tenure.Enter(tenure.PhaseElecting)
	if t := m.cfg.Following; t.Defined() {
		m.tenure.Save(t, 0)
		m.disk = epoch.NewDisk(t)
		m.detector.Follow(m.now, time.Time{})
		for i := range m.members {
			m.members[i].state = election.StateUp
		}
		m.install()
		return
	}
	if !m.cfg.NoDetector {
		m.alarms.Wake(m.now)
	}
	m.joinAccepted(ev.List, ev.Token, ev.Age)
	switch {
	case !m.tenure.Leaderless():
	case len(ev.List) > 0:
		m.awaitLeader()
	default:
		m.discover("it has just started")
	}
}

// receive takes a message in. Damage and strangers are the driver's to refuse
// and count; what still makes no sense is dropped here.
func (m *Machine) receive(msg *election.Message) {
	i, ok := m.index[msg.From]
	top := max(msg.Token.Epoch, msg.Highest)
	if d := m.isDeparting(msg.From); d >= 0 && msg.Election == m.cfg.Election && top <= m.seen.Limit(m.now) {
		m.fromDeparting(d, msg)
		return
	}
	if !ok || i == m.me || msg.Election != m.cfg.Election || top > m.seen.Limit(m.now) {
		return
	}
	if !m.tenure.Started() && msg.Kind != election.Probe {
		return // it asks to be admitted first; but it can report what its disk knows
	}
	if m.cfg.Trace != nil && !routine(msg.Kind) {
		m.trace(election.Record{What: "receives", Peer: msg.From, Token: msg.Token, Message: msg})
	}
	m.hear(i)
	if msg.Kind == election.Pong {
		m.members[i].Confirms(m.origin.Add(time.Duration(msg.Stamp)))
	}
	m.compareLists(i, msg)
	m.heed(i, msg)
}

// heed does what a message asks for, however it has come.
func (m *Machine) heed(i int, msg *election.Message) {
	stood := !m.members[i].saidAt.IsZero() && m.eligible(&m.members[i])
	if m.heardReport(i, msg, m.now) && msg.Eligibility == election.Eligible && m.lastResort {
		m.needsNoLastResort()
		if m.tenure.Leaderless() {
			m.reconsider()
		}
	}
	m.pause.Receive(m.now, msg.Pause)
	m.seen.Receive(msg.Token.Epoch, msg.Highest)
	if leads, ok := m.index[msg.Token.Leader.ID]; ok {
		m.reviewProof(leads, msg)
	}
	was := m.taking
	m.taking = msg
	defer func() { m.taking = was }()
	switch msg.Kind {
	case election.Beat:
		m.beaten(i, msg)
	case election.Ack:
		m.acked(i, msg)
	case election.Probe:
		m.probedBy(msg)
		m.replyToProbe(msg.From)
	case election.ProbeReply:
		m.probeReplied(i, msg)
	case election.Resign:
		m.leaderResigned(msg)
	case election.Handover:
		m.handOver(i, msg)
	case election.Ping:
		m.send(i, &election.Message{Kind: election.Pong, Stamp: msg.Stamp})
	case election.Relay:
		m.relayed(i, msg)
	case election.Pong:
		// Receiving it was all.
	case election.GetMembers:
		m.sendList(i, m.roster.All())
		if m.metas.Digest() != msg.MetaDigest {
			m.sendMeta(i, m.metas.List())
		}
	case election.Members:
		m.merge(msg.List, msg.From)
		m.askAgain()
		m.mergeMeta(msg.Meta)
	default:
		m.step(election.Event{Kind: election.Received, Peer: msg.From, Message: msg})
	}
	if !stood || !m.tenure.Leaderless() {
		return
	}
	if i, ok := m.index[msg.From]; ok && !m.eligible(&m.members[i]) { // the list may have changed
		if !msg.Token.Above(m.tenure.Held()) { // else it has led, and a member that had resigned before may claim
			m.seen.Ask() // that claim is given up
		}
		m.step(election.Event{Kind: election.Withdrawn, Peer: msg.From})
	}
}

// watch does what the detector has due by now.
func (m *Machine) watch() {
	m.hangUpSilent()
	if m.tenure.Beats() {
		if !m.now.Before(m.detector.BeatAt()) {
			m.forgetStrangers()
		}
		m.watchFollowers()
	} else if m.tenure.Live() {
		m.watchLeader()
	}
	m.ping()
	if !m.nextCorrection.IsZero() {
		m.correctRank()
	}
	m.watchRelays()
	m.dialAll()
	m.notifyRemoved()
	m.others(func(i int, peer *member) {
		if peer.differs {
			m.pull(i)
		}
	})
}

// linkUp records a connection. A different incarnation means that the old process is gone.
func (m *Machine) linkUp(rank election.Rank, incarnation uint64) {
	i, ok := m.index[rank.ID]
	if !ok || i == m.me {
		return
	}
	old := m.members[i].incarnation
	if old != incarnation {
		if incarnation < old && m.lives(&m.members[i], m.now) {
			return // a late message of a dead process
		}
		if old != 0 {
			m.answersAs(rank.ID)
			m.replaced(i)
		}
		m.members[i].incarnation = incarnation
		m.members[i].version, m.members[i].proof = 0, proof{}
		m.toldRank(rank)
		i = m.index[rank.ID]
	} else {
		m.refute(i)
	}
	peer := &m.members[i]
	peer.processIs(incarnation)
	again := !peer.replied && (!peer.awaited || !peer.rebuffedAt.IsZero()) // our question may have been lost
	lost := peer.Which(outbox.IsLost)
	if peer.link && !peer.Pending.IsZero() && m.now.Sub(peer.Pending) > 2*m.cfg.Timing.TMax {
		lost = peer.Unconfirmed // a second connection: the old connection was broken, it seems
	}
	peer.link, peer.dialing, peer.anew, peer.backoff, peer.rebuffedAt = true, false, false, 0, time.Time{}
	peer.pingers, peer.wants = nil, nil
	pending := peer.Pending
	m.hear(i)
	m.answersAs(election.None)
	if peer.Comes.After(m.now) {
		peer.Pending = pending // what goes with our own dial is still on its way
	}
	if m.tenure.LedBy(m.members[i].ID) {
		m.detector.Greet(m.now)
	}
	m.refuses(i, nil)
	m.setState(i, election.StateUp)
	m.alarms.Wake(m.now.Add(m.cfg.Timing.T()))
	m.repeat(i, lost)
	m.sendMeta(i, m.metas.Own())
	m.resumeDeferred()
	switch {
	case m.tenure.Beats():
		m.detector.CountFrom(m.now) // it has received us; only now can a heartbeat of ours reach it
		m.post(i, m.newBeat(peer.version != m.states.Version()))
	case m.mode == asks && again:
		m.probe(i)
	case m.tenure.Started() && m.undecided() && (m.eligibility() != election.Eligible || peer.mayLeadOn()):
		m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()}) // it calls no election that would show it, or waits for the report
	}
}

// dialFailed: refused means that the process is gone; silence is only silence.
// With why, a live member refuses us, by entry, which it has of us.
func (m *Machine) dialFailed(id election.ID, refused bool, why error, entry election.Member) {
	if (why == election.ErrOldIncarnation || why == election.ErrSameID) && entry.ID == m.cfg.Self.ID {
		m.merge([]election.Member{entry}, id) // a member that refuses us sends us no list
	}
	i, ok := m.index[id]
	if !ok {
		return
	}
	peer := &m.members[i]
	refused = refused && !peer.proof.refuted
	again := m.now.Sub(peer.missed) > m.cfg.Timing.Heartbeat
	peer.dialing, peer.anew, peer.missed = false, false, m.now
	if peer.link {
		m.repeat(i, peer.Which(outbox.NeedsProof)) // it reached us meanwhile, but what went with our dial is lost
		if peer.awaited && again {
			m.probe(i)
		}
		return
	}
	peer.DialLost(m.now, m.farT())
	if why != nil || peer.refusal != election.ErrNotMember || !m.tenure.Live() || m.tenure.Leading() {
		m.refuses(i, why) // a follower goes on to dial a member that refused it, and is refused while that one is away
	}
	if refused || why != nil && why != election.ErrForeign {
		peer.via, peer.viaAt, peer.pingers = election.None, time.Time{}, nil
	}
	m.dialedInVain(i)
	switch why {
	case election.ErrRemoved, election.ErrSameID, election.ErrOldIncarnation:
		// It still knows an earlier process with our id, or a newer process, or does not know that
		// we were added again. Its answer is owed: we ask until it knows better, or until no member
		// has accepted us for T.
		if why == election.ErrRemoved && m.removedForGood(entry) {
			m.removedSelf()
			return
		}
		peer.redial = m.now.Add(m.cfg.Timing.Heartbeat)
		m.alarms.Wake(peer.redial)
		if peer.rebuffs(m.now, m.farT()); why == election.ErrRemoved && m.outdates(entry) && m.linked() {
			peer.rebuffedAt = time.Time{} // we need not wait: a member will correct it
			m.unreached(i)
		}
		return
	}
	if (why == election.ErrNotMember || why == election.ErrJoining) && !m.disagree(peer) {
		m.rejoin(id)
	}
	peer.rebuffedAt = time.Time{}
	peer.backoff = min(max(2*peer.backoff, m.cfg.Timing.Heartbeat), maxBackoff)
	peer.redial = m.now.Add(peer.backoff - jitter(&m.random, peer.backoff/4))
	m.alarms.Wake(peer.redial)
	if refused {
		if peer.proof.taken = cmp.Or(peer.proof.taken, m.now); m.tenure.LedBy(peer.ID) {
			peer.proof.under = m.tenure.Held().Epoch
		}
		m.markDown(i, election.CauseCrashed, true, "it refuses the connection")
		return
	}
	m.unreached(i)
}

// relayed handles what a member passes on, or asks this member to pass on.
func (m *Machine) relayed(from int, msg *election.Message) {
	inner := msg.Carried
	if inner == nil || inner.Election != m.cfg.Election || max(inner.Token.Epoch, inner.Highest) > m.seen.Limit(m.now) {
		return
	}
	to, known := m.index[inner.To]
	switch {
	case !known:
	case msg.Ended:
		m.cannot(m.members[from].ID, to)
	case to == m.me:
		m.receivePassed(from, inner)
	case inner.From == msg.From && to != from && passes(inner.Kind):
		m.passOn(from, to, inner)
	}
}

// receivePassed handles a message that came by a relay. It shows that its sender lives and how to
// reach it, and is not received from itself.
func (m *Machine) receivePassed(by int, msg *election.Message) {
	i, ok := m.index[msg.From]
	if !ok || i == m.me || i == by || !passes(msg.Kind) {
		return
	}
	if m.cfg.Trace != nil && !routine(msg.Kind) {
		m.trace(election.Record{What: "receives", Peer: msg.From, Token: msg.Token, Message: msg, Why: "by " + string(m.members[by].ID)})
	}
	m.byRelay = true
	defer func() { m.byRelay = false }()
	m.reached(i, m.members[by].ID)
	m.heed(m.index[msg.From], msg)
}

// reap removes a member that has been away for too long, if this member leads.
func (m *Machine) reap() {
	if m.cfg.ReapAfter <= 0 || !m.tenure.Started() {
		return
	}
	all := make([]reaper.Member, 0, len(m.members))
	for i := range m.members {
		p := &m.members[i]
		relayed := m.now.Sub(p.viaAt) <= m.farT()
		away := !p.link && !relayed && (p.state == election.StateDown || p.state == election.StateUnreachable)
		all = append(all, reaper.Member{ID: p.ID, Away: away, Votes: !p.Observer})
	}
	m.reaper.Look(m.now, m.cfg.Timing.T(), m.View().Leader.ID, 0, all)
	if id := m.reaper.Due(); id != election.None && m.tenure.Leading() {
		m.note("reaps", id, m.View(), "it has been absent for "+m.cfg.ReapAfter.String())
		m.remove(id, true)
	}
}

// What follows keeps the time: what is due when, for the Machine and its Algorithm.

// The Machine's own timers begin so; an Algorithm's have names of its own.
const (
	ownTimers      = "machine:"
	timerDiscovery = "machine:discovery" // give up waiting for replies about the highest epoch
	timerVouch     = "machine:vouch"     // stop waiting for confirmations
	timerHandover  = "machine:handover"  // ask the lower leader again
	timerEligible  = "machine:eligible"  // there is no leader: a resigned member is a candidate again
	timerSave      = "machine:save"      // try a failing disk again
	timerHung      = "machine:hung"      // the disk has not answered for T
	timerHeir      = "machine:heir"      // give up waiting for the claim of the member to which the lead was left
	timerElsewhere = "machine:elsewhere" // no process with this member's id was where the list has it: ask again
	timerPoll      = "machine:poll"      // give up waiting for members that may be candidates again
)

// fire acts on a timer that has run out.
func (m *Machine) fire(name string) {
	if !m.alarms.Cancel(name) {
		return
	}
	switch name {
	case timerDiscovery:
		if m.mode == awaitsLeader {
			m.discover("no leader has reached the newcomer within T")
			return
		}
		m.discovered("no more reports within T")
	case timerVouch:
		m.unvouched("no member confirms it within 2·t_max")
	case timerHandover:
		m.preempt()
	case timerEligible:
		m.resignUntilAbove(0)
		m.disk.Forgive()
		m.tryLastResort()
	case timerHeir:
		m.unclaimed(m.heir, "it has not claimed within T", true)
	case timerElsewhere:
		m.askElsewhere()
	case timerPoll:
		m.pollTimedOut()
	case timerSave:
		m.save()
	case timerHung:
		m.waited()
	default:
		m.step(election.Event{Kind: election.TimerFired, Name: name})
	}
}

// runDue does all that is due by now and finds the next deadline.
func (m *Machine) runDue() {
	for name, ok := m.alarms.Due(m.now); ok; name, ok = m.alarms.Due(m.now) {
		m.fire(name)
	}
	m.alarms.Review()
	if !m.cfg.NoDetector {
		m.watch()
		m.wakeForDetector()
	}
}

// What follows is what an exhaustive search needs of a Machine: an independent copy, the state that
// decides what it does next, and the timers to fire.

// Clone returns an independent copy of a Machine whose Algorithm is [Explorable], for exhaustive
// search. The copy shares nothing that either may change; its trace goes where the original's goes.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out, c.tenure = nil, m.tenure.Clone()
	c.members = slices.Clone(m.members)
	c.alarms, c.roster = m.alarms.Clone(), m.roster.Clone()
	c.algorithm = m.algorithm.(election.Explorable).Clone()
	return &c
}

// MinRound is the lowest round number that the Algorithm remembers, 0 for none.
func (m *Machine) MinRound() uint64 { return m.algorithm.(election.Explorable).MinRound() }

// AppendState appends all that decides the later behavior of a Machine without a detector, epochs
// and rounds written relative to the bases. Two Machines of the same configuration that append the
// same behave the same.
func (m *Machine) AppendState(b []byte, baseEpoch, baseRound uint64) []byte {
	epoch := func(e uint64) { b = election.AppendRelative(b, e, baseEpoch) }
	for _, t := range [...]election.Token{m.tenure.Held(), m.tenure.Next(), m.disk.OnDisk(), m.disk.Writing()} {
		epoch(t.Epoch)
		b = append(append(b, t.Leader.ID...), 0)
	}
	epoch(m.seen.Highest())
	epoch(m.seen.Asked())
	epoch(m.seen.Held())
	epoch(m.tenure.Base())
	epoch(m.resigned)
	b = append(append(b, m.tenure.Ended()...), 0)
	b = append(b, bits(m.tenure.Certain(), m.disk.Busy(), m.disk.Failing(), m.working, m.replied, m.unacknowledged, m.contestHeld, m.closing), bits(m.detector.Reported(), m.polledAt.IsZero()), byte(m.tenure.Phase()), byte(m.mode))
	b = append(append(append(append(b, m.doubts...), 0), m.stood...), 0)
	for _, d := range m.departing {
		b = append(append(b, d.id...), 0)
	}
	b = append(b, 0)
	for i := range m.members {
		peer := &m.members[i]
		b = append(b, bits(peer.down, peer.awaited, peer.probed, peer.draining, peer.polled, peer.gaveTurn), byte(peer.turns))
		b = append(append(b, peer.eligibility...), 0)
	}
	names := m.Timers()
	slices.Sort(names)
	for _, name := range names {
		b = append(append(b, name...), 0)
	}
	return m.algorithm.(election.Explorable).AppendState(append(b, 0), baseRound)
}

func bits(flags ...bool) (b byte) {
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return b
}

// MinEpoch is the lowest epoch that the Machine remembers, 0 for none.
func (m *stance) MinEpoch() uint64 {
	lowest := uint64(0)
	for _, e := range [...]uint64{m.tenure.Held().Epoch, m.tenure.Next().Epoch, m.tenure.Base(), m.disk.OnDisk().Epoch, m.disk.Writing().Epoch,
		m.seen.Highest(), m.seen.Asked(), m.seen.Held(), m.resigned} {
		if e > 0 && (lowest == 0 || e < lowest) {
			lowest = e
		}
	}
	return lowest
}

// Timers names the timers that are armed, in the order they were set. A search
// fires one by stepping the Machine with TimerFired.
func (m *ground) Timers() []string { return m.alarms.Names() }
