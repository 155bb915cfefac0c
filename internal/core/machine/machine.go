package machine

import (
	"math/rand/v2"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/alarm"
	"github.com/batuta-dev/batuta/internal/core/detector"
	"github.com/batuta-dev/batuta/internal/core/epoch"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/pause"
	"github.com/batuta-dev/batuta/internal/core/reaper"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// Machine is a member of an election: membership, detector, timers and the algorithm behind one
// Step.
//
// It is not safe for concurrent use; a single driver owns it.
type Machine struct {
	cfg       Config
	algorithm election.Algorithm
	random    rand.PCG

	now    time.Time // of the current or last Step
	origin time.Time // of the first Step; Stamps count from it
	out    []election.Action
	taking *election.Message // what is being taken in

	// The parts. Each owns its fields: the file that declares it alone writes them.
	alarms alarm.Alarms
	roll
	membership
	metas meta.Metas
	removalNotices
	duplicate
	othersWork
	connections
	refusals
	relaying
	detector detector.Detector
	beating
	discovery
	poll
	standing
	founding
	company
	tenure tenure.Tenure
	seen   epoch.Seen
	inheritance
	handover
	disk        epoch.Disk
	reaper      reaper.Reaper
	maintenance pause.Pause
}

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
	m := &Machine{cfg: c, algorithm: c.Algorithm, tenure: tenure.New(c.Self.ID, c.State.Token), detector: detector.New(c.Timing), seen: epoch.NewSeen(c.State.Token), disk: epoch.NewDisk(c.State.Token), reaper: reaper.New(c.ReapAfter)}
	m.random.Seed(c.Seed, c.Incarnation)
	for _, e := range m.enlist(c) {
		if !c.NoDetector {
			m.mustNotify(e, m.now)
		}
	}
	m.metas = meta.New(c.Self.ID, c.Incarnation, c.Meta)
	m.unfounded = !m.founds()
	return m, nil
}

// Step handles an event and returns what to do about it, in order. now never runs backwards. The
// slice is valid until the next Step.
func (m *Machine) Step(now time.Time, ev election.Event) []election.Action {
	m.out = m.out[:0]
	m.tenure.BeginStep()
	if now.Before(m.now) {
		now = m.now
	}
	last := m.now
	m.now = now
	switch {
	case !m.tenure.Started() || m.cfg.NoDetector:
	case m.detector.Stalled(last, m.now, m.alarms.Deadline(), m.tenure.Beats()):
		m.resumeAfterStall(last)
	default:
		m.detector.Oversleep(m.now, m.alarms.Deadline())
	}
	m.handle(ev)
	if due, any := m.Deadline(); any && !m.now.Before(due) {
		m.runDue()
	}
	m.reviewRefusals()
	m.endUnfounded()
	m.endPoll()
	m.resumeContest()
	m.missHeir()
	if m.cfg.ReapAfter > 0 && m.tenure.Started() {
		reap(m)
	}
	return m.out
}

// Deadline is when to step the Machine next, with a Woke event, if nothing
// happens before. It is false when nothing is due.
func (m *Machine) Deadline() (time.Time, bool) {
	at := m.alarms.Deadline()
	return at, !at.IsZero()
}

func (m *Machine) handle(ev election.Event) {
	switch ev.Kind {
	case election.Started:
		m.start(ev)
	case election.Received:
		m.receive(ev.Message)
	case election.LinkUp, election.LinkDown, election.DialFailed:
		m.link(ev)
	case election.PeerDown:
		if i, ok := m.index[ev.Peer]; ok && i != m.me {
			m.markDown(i, election.CauseCrashed, false, "the detector says so")
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
	default:
		m.handleMembership(ev)
	}
}

// link handles what the driver reports of a connection.
func (m *Machine) link(ev election.Event) {
	if ev.Peer == m.cfg.Self.ID {
		m.answeredElsewhere(ev)
		return
	}
	if d := m.isDeparting(ev.Peer); d >= 0 {
		m.departingLink(d, ev)
		return
	}
	if ev.Peer == m.notifying && m.notifying != election.None && !m.Knows(m.notifying) {
		m.noticeLink(ev)
		return
	}
	switch ev.Kind {
	case election.LinkUp:
		m.linkUp(ev.Rank, ev.Incarnation)
	case election.LinkDown:
		m.linkDown(ev.Peer)
	case election.DialFailed:
		m.dialFailed(ev.Peer, ev.Refused, ev.Err, ev.Member)
	}
}

func (m *Machine) handleMembership(ev election.Event) {
	switch ev.Kind {
	case election.JoinRequested:
		m.joinRequested(ev.Member, ev.Token)
	case election.JoinAccepted:
		m.joinAccepted(ev.List, ev.Token, ev.Age)
	case election.MemberAdded, election.MemberRemoved:
		switch {
		case m.place == removed:
			// Its work may still run, but a member that it removed now would take the two for members that
			// have removed each other, and put it back.
		case ev.Kind == election.MemberAdded:
			m.add(ev.Member, ev.On)
		default:
			m.remove(ev.Peer)
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
		m.maintenance.Set(m.now, ev.Age, m.View().Leader.ID)
		if m.tenure.Leaderless() {
			m.discover("the pause is over by the user's wish")
		}
	}
}

func (m *Machine) start(ev election.Event) {
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
		m.members[i].confirms(m.origin.Add(time.Duration(msg.Stamp)))
	}
	m.compareLists(i, msg)
	m.heed(i, msg)
}

// heed does what a message asks for, however it has come.
func (m *Machine) heed(i int, msg *election.Message) {
	stood := !m.members[i].saidAt.IsZero() && m.eligible(&m.members[i])
	m.heardEligibility(i, msg, m.tenure.Held().Above(msg.Token), m.byRelay, m.now)
	if msg.Eligibility == election.Eligible {
		if m.lastResort {
			m.needsNoLastResort()
			m.makeWay("a healthy member is there")
		}
	}
	m.maintenance.Receive(m.now, msg.Pause)
	m.seen.Receive(msg.Token.Epoch, msg.Highest)
	if leads, ok := m.index[msg.Token.Leader.ID]; ok && msg.Renews > 0 && msg.Renews <= m.members[leads].proof.under {
		m.refute(leads)
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
		m.leaderResigned(i, msg)
	case election.Handover:
		m.handOver(i, msg)
	case election.Ping:
		m.send(i, election.Message{Kind: election.Pong, Stamp: msg.Stamp})
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
	i, ok := m.index[msg.From] // the list may have changed
	if ok && stood && !m.eligible(&m.members[i]) && m.tenure.Leaderless() {
		if !msg.Token.Above(m.tenure.Held()) { // else it has led, and a member that had resigned before may claim
			m.seen.Ask() // that claim is given up
		}
		m.step(election.Event{Kind: election.Withdrawn, Peer: msg.From})
	}
}

// step steps the Algorithm. A contest begins when no member's work is in its way.
func (m *Machine) step(ev election.Event) {
	begins := ev.Kind == election.Started || ev.Kind == election.LeaderLost || ev.Kind == election.Withdrawn || ev.Kind == election.Campaign
	if begins && m.tenure.Leaderless() && (m.holdsContest() || m.inherits()) {
		return
	}
	m.algorithm.Step(ev, actions{m})
}

// do asks the driver for a.
func (m *Machine) do(a election.Action) { m.out = append(m.out, a) }

func (m *Machine) trace(r election.Record) {
	if m.cfg.Trace == nil {
		return
	}
	r.At, r.Member, r.Election = m.now, m.cfg.Self.ID, m.cfg.Election
	m.cfg.Trace(r)
}

func (m *Machine) note(what string, peer election.ID, t election.Token, why string) {
	m.trace(election.Record{What: what, Peer: peer, Token: t, Why: why})
}
