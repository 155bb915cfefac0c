package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Config sets up a [Machine]. The zero value of each optional field works.
type Config struct {
	Self          election.Rank           // this member; required
	Election      string                  // what the contest is about; default "default"
	Address       string                  // HOST:PORT where the others reach this member
	Observer      bool                    // this member follows and never leads
	Members       []election.Member       // everyone, this member included or not
	Closed        bool                    // the list is fixed: nobody joins who is not on it
	Joins         bool                    // others let this member in: it asks whoever does not know it
	Newcomer      bool                    // it founds no cluster: until it has heard of a leadership it stands aside
	Expect        int                     // nor does any before so many members hear each other; 0: no such rule, else Newcomer counts for nothing
	Algorithm     election.Algorithm      // required; belongs to this Machine alone
	Timing        election.Timing         // defaults: see [election.Timing]
	NoPreempt     bool                    // a higher-ranked member that returns follows the sitting leader
	LeadUnhealthy bool                    // an unhealthy member leads when nobody else has within 2·T and nobody healthy is in reach
	Incarnation   uint64                  // greater than that of any earlier process with this id
	State         election.State          // as last saved; zero at a first start
	Records       [][]byte                // as asked to be written by Append, oldest first; none at a first start; of a core of its own
	Following     election.Token          // start as settled under this leadership, as if elected before; for the lab
	Seed          uint64                  // of the jitter
	NoDetector    bool                    // the driver itself tells PeerDown and PeerUp; no links, no beats
	Trace         func(r election.Record) // told what was done and why; may be nil
}

// Validate reports every fault of c at once, or nil.
func (c Config) Validate() error {
	var faults []error
	if c.Algorithm == nil {
		faults = append(faults, errors.New("no algorithm: set one, such as bully.New()"))
	}
	if _, err := election.ParseID(string(c.Self.ID)); err != nil {
		faults = append(faults, err)
	}
	seen := map[election.ID]bool{}
	for _, e := range c.Members {
		switch _, err := election.ParseID(string(e.ID)); {
		case err != nil:
			faults = append(faults, fmt.Errorf("member list: %w", err))
		case seen[e.ID]:
			faults = append(faults, fmt.Errorf("member list: id %s stands twice: give each member its own", e.ID))
		case e.ID.Kind() != c.Self.ID.Kind():
			faults = append(faults, fmt.Errorf("member list: id %s is a %v, but this member's id %s is a %v: all ids of a cluster must be of one kind", e.ID, e.ID.Kind(), c.Self.ID, c.Self.ID.Kind()))
		}
		seen[e.ID] = true
	}
	others := slices.DeleteFunc(slices.Clone(c.Members), func(e election.Member) bool { return e.ID == c.Self.ID })
	if len(others) >= election.MaxMembers || election.ListBytes(others)+(election.Member{Rank: c.Self, Address: c.Address}).Size() > election.MaxListBytes {
		faults = append(faults, fmt.Errorf("%d members: %w", len(c.Members), election.ErrFull))
	}
	return errors.Join(append(faults, c.Timing.Validate())...)
}

// Machine is one member of one election: membership, detector, timers and the
// algorithm behind one Step.
//
// It is not safe for concurrent use; one driver owns it.
type Machine struct {
	cfg       Config
	algorithm election.Algorithm
	random    rand.PCG

	now      time.Time // of the current or last Step
	origin   time.Time // of the first Step; Stamps count from it
	deadline time.Time // nothing is due before; zero: nothing is due
	out      []election.Action
	phase    Phase
	phases   []Phase // that the last Step has gone through, the one before it first

	members []member        // lowest rank first, this one included
	ranks   []election.Rank // the same, for the Algorithm
	index   map[election.ID]int
	me      int // of this member in members
	timers  []timer

	roster
	leadership
	disk
	detector
	discovery
	leapBase   uint64 // the highest epoch at tideAt: see maxEpoch
	leapBaseAt time.Time
	unfounded  bool              // it may not be the first leader that there is, yet
	byRelay    bool              // what is being taken in has come by another member
	taking     *election.Message // what is being taken in
}

type timer struct {
	name string
	at   time.Time
}

// The Machine's own timers; an Algorithm's have names of its own.
const (
	timerDiscovery = "machine:discovery" // give up waiting for replies about the highest epoch
	timerVouch     = "machine:vouch"     // give up waiting for vouchers
	timerHandover  = "machine:handover"  // ask the lower leader again
	timerEligible  = "machine:eligible"  // nobody leads: a resigned member stands again
	timerSave      = "machine:save"      // try a failing disk again
	timerHung      = "machine:hung"      // the disk has not answered for T
	timerHeir      = "machine:heir"      // give up waiting for the claim of the one to whom the lead was left
	timerPoll      = "machine:poll"      // give up waiting for those who may stand again
)

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
	m := &Machine{cfg: c, algorithm: c.Algorithm}
	m.random.Seed(c.Seed, c.Incarnation)
	m.enlist(c)
	m.leadership.restore(c)
	m.onDisk = c.State.Token
	m.unfounded = !m.founds()
	return m, nil
}

// Step handles one event and returns what to do about it, in order. now never
// runs backwards. The slice is valid until the next Step.
func (m *Machine) Step(now time.Time, ev election.Event) []election.Action {
	m.out, m.phases = m.out[:0], append(m.phases[:0], m.phase)
	if now.Before(m.now) {
		now = m.now
	}
	last := m.now
	m.now = now
	switch {
	case !m.started() || m.cfg.NoDetector:
	case m.stalled(last):
		m.resumeAfterStall(last)
	default:
		m.oversleeps()
	}
	m.handle(ev)
	if !m.deadline.IsZero() && !m.now.Before(m.deadline) {
		m.runDue()
	}
	m.endUnfounded()
	m.endPoll()
	m.resumeContest()
	m.missHeir()
	return m.out
}

// Deadline is when to step the Machine next, with a Woke event, if nothing
// happens before. It is false when nothing is due.
func (m *Machine) Deadline() (time.Time, bool) { return m.deadline, !m.deadline.IsZero() }

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
	case election.Transfer:
		m.transfer(ev.Peer)
	case election.TimerFired:
		m.fire(ev.Name)
	default:
		m.handleMembership(ev)
	}
}

// link takes in what the driver says of a connection.
func (m *Machine) link(ev election.Event) {
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
	case election.MemberAdded:
		m.add(ev.Member, ev.On)
	case election.MemberRemoved:
		m.remove(ev.Peer)
	case election.Leaving:
		m.leave()
	case election.Health:
		m.setHealth(ev.On)
	}
}

func (m *Machine) start(ev election.Event) {
	m.origin = m.now
	m.enter(PhaseElecting)
	if t := m.cfg.Following; t.Defined() {
		m.next, m.onDisk, m.leaderAt = t, t, m.now
		for i := range m.members {
			m.members[i].state = election.StateUp
		}
		m.install()
		return
	}
	if !m.cfg.NoDetector {
		m.wake(m.now)
	}
	m.joinAccepted(ev.List, ev.Token, ev.Age)
	switch {
	case !m.leaderless():
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
	if d := m.isDeparting(msg.From); d >= 0 && msg.Election == m.cfg.Election && top <= m.maxEpoch() {
		m.fromDeparting(d, msg)
		return
	}
	if !ok || i == m.me || msg.Election != m.cfg.Election || top > m.maxEpoch() {
		return
	}
	if !m.started() && msg.Kind != election.Probe {
		return // it asks to be let in first; but what its disk knows it can tell
	}
	if m.cfg.Trace != nil && !routine(msg.Kind) {
		m.trace(election.Record{What: "receives", Peer: msg.From, Token: msg.Token, Message: msg})
	}
	m.hear(i)
	m.compareLists(i, msg)
	m.heed(i, msg)
}

// heed does what a message asks for, however it has come.
func (m *Machine) heed(i int, msg *election.Message) {
	m.heardEligibility(i, msg)
	if msg.Eligibility == election.Eligible && m.lastResort {
		m.lastResort = false
		m.makeWay("a healthy member is there")
	}
	m.highest = max(m.highest, msg.Token.Epoch, msg.Highest)
	m.heldEpoch = max(m.heldEpoch, msg.Token.Epoch)
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
		// Hearing it was all.
	case election.GetMembers:
		m.sendList(i, m.list)
	case election.Members:
		m.merge(msg.List, msg.From)
	default:
		m.step(election.Event{Kind: election.Received, Peer: msg.From, Message: msg})
	}
	if msg.Kind == election.ProbeReply && msg.Withdraws && msg.Eligibility != election.Eligible && m.leaderless() {
		m.step(election.Event{Kind: election.Withdrawn, Peer: msg.From})
	}
}

// maxEpoch is the highest epoch that is believed: maxLeap above the one at the beginning
// of the hour.
func (m *Machine) maxEpoch() uint64 {
	if m.leapBaseAt.IsZero() || m.now.Sub(m.leapBaseAt) >= leapEvery {
		m.leapBase, m.leapBaseAt = m.highest, m.now
	}
	return min(election.MaxEpoch, m.leapBase+maxLeap)
}

// step steps the Algorithm. A contest begins when nobody's work is in its way.
func (m *Machine) step(ev election.Event) {
	begins := ev.Kind == election.Started || ev.Kind == election.LeaderLost || ev.Kind == election.Withdrawn || ev.Kind == election.Campaign
	if begins && m.leaderless() && (m.holdsContest() || m.inherits()) {
		return
	}
	m.algorithm.Step(ev, actions{m})
}

// fire acts on a timer that has run out.
func (m *Machine) fire(name string) {
	if !m.cancel(name) {
		return
	}
	switch name {
	case timerDiscovery:
		if m.mode == awaitsLeader {
			m.discover("no leader has reached the newcomer within T")
			m.preempt() // it may have begun to follow before it stood
			return
		}
		m.discovered("no more reports within T")
	case timerVouch:
		m.unvouched("nobody vouches for it within 2·t_max")
	case timerHandover:
		m.preempt()
	case timerEligible:
		m.resigned, m.slow = 0, false
		m.tryLastResort()
		m.standAgain("no leader has appeared within 2·T")
	case timerHeir:
		m.unclaimed("it has not claimed within T")
	case timerPoll:
		m.polled("they have not answered in time")
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
	for {
		next := -1
		for i, t := range m.timers {
			if !m.now.Before(t.at) && (next < 0 || t.at.Before(m.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		m.fire(m.timers[next].name)
	}
	if !m.cfg.NoDetector {
		m.watch()
	}
	m.deadline = time.Time{}
	for _, t := range m.timers {
		m.wake(t.at)
	}
	if !m.cfg.NoDetector {
		m.wakeForDetector()
	}
}

// wake makes sure that the Machine is stepped by at.
func (m *Machine) wake(at time.Time) {
	if m.deadline.IsZero() || at.Before(m.deadline) {
		m.deadline = at
	}
}

func (m *Machine) set(name string, d time.Duration) {
	m.cancel(name)
	at := m.now.Add(d)
	m.timers = append(m.timers, timer{name, at})
	m.wake(at)
}

// extend lets an armed timer run for d more at least.
func (m *Machine) extend(name string, d time.Duration) {
	for i := range m.timers {
		if t := &m.timers[i]; t.name == name && t.at.Before(m.now.Add(d)) {
			t.at = m.now.Add(d)
		}
	}
}

// cancel disarms a timer and tells whether it was armed.
func (m *Machine) cancel(name string) bool {
	i := slices.IndexFunc(m.timers, func(t timer) bool { return t.name == name })
	if i < 0 {
		return false
	}
	m.timers = slices.Delete(m.timers, i, i+1)
	return true
}

// do asks the driver for a.
func (m *Machine) do(a election.Action) { m.out = append(m.out, a) }

// send sends msg to a member, dialing it when no link stands.
func (m *Machine) send(to int, msg election.Message) {
	m.post(to, m.fill(m.members[to].ID, msg))
}

// fill says from whom a message is, and what every message says.
func (m *Machine) fill(to election.ID, msg election.Message) *election.Message {
	msg.From, msg.To, msg.Election = m.cfg.Self.ID, to, m.cfg.Election
	msg.Highest, msg.Eligibility, msg.Digest, msg.Draining = m.highest, m.toldEligibility(), m.digest, m.draining()
	if msg.Stamp == 0 && m.stamps(&msg) {
		msg.Stamp = m.stampAt(m.now)
	}
	return &msg
}

// routine kinds flow all the time and would drown the trace.
func routine(k election.MessageKind) bool {
	return k == election.Beat || k == election.Ack || k == election.Ping || k == election.Pong || k == election.Relay
}

func (m *Machine) post(to int, msg *election.Message) {
	peer := &m.members[to]
	if r, ok := m.relayTo(to); ok && passes(msg.Kind) {
		m.pass(r, msg)
		return
	}
	if routine(msg.Kind) && msg.Kind != election.Relay {
		m.do(election.Action{Kind: election.Send, To: peer.ID, Message: msg})
		return
	}
	if lasting := m.beats() || m.isLeader(to); peer.link && !lasting && m.stale(peer) {
		m.hangUp(to)
	}
	if !peer.link {
		peer.dialing = true
	}
	if peer.unconfirmed == nil {
		peer.used = m.now // else the silence lasts since what it has not answered
	}
	peer.unconfirmed, peer.undelivered = msg, nil
	m.do(election.Action{Kind: election.Send, To: peer.ID, Message: msg})
	if m.cfg.Trace != nil {
		m.trace(election.Record{What: "sends", Peer: peer.ID, Token: msg.Token, Message: msg})
	}
}

// maxLeap bounds how far others may raise the epoch within leapEvery: at that pace a
// member that lies uses them up in two centuries.
const (
	maxLeap   = 1 << 32
	leapEvery = time.Hour
)

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
