package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// leadership is who leads, as this member knows: the part of a Machine that keeps
// epochs. view never goes down.
type leadership struct {
	view         election.Token // the last leadership told to the driver
	ended        election.Cause // why view's leadership is over; "" while it lasts
	certain      bool           // ended is known, not suspected: view is never taken back
	announcedEnd election.Token // the last whose end its leader has told while we did not follow it

	highest   uint64 // the highest epoch heard of
	heldEpoch uint64 // the highest of a token that another holds; some of highest are of claims that were given up

	contestAt time.Time // what members said of themselves before is old: the contest has begun since
	claimedAt time.Time // when our last claim began
	polledAt  time.Time // when we began to ask higher ones whether they stand; zero: we do not

	unhealthy  bool // its own check has failed
	lastResort bool // it stands all the same: nobody healthy leads, nor is in reach

	working  bool   // user work of a leadership of ours still runs
	doubts   string // why we ask then before we stand again; empty: we need not
	resigned uint64 // we stand aside until a leadership above this epoch has ended; 0: we do not

	heir election.ID // to whom the lead is left, by its last leader or, while we drain, by us; None: to whoever wins
}

// restore takes up what the disk remembers. Whether that leadership still lasts
// is unknown, unless it was our own: a process does not outlive itself.
func (t *leadership) restore(c Config) {
	t.view, t.highest = c.State.Token, c.State.Token.Epoch
	t.ended, t.certain = election.CauseStopped, c.State.Token.Leader.ID == c.Self.ID
}

// View is the leadership told to the driver, zero while it is undefined.
func (m *Machine) View() election.Token {
	if m.live() {
		return m.view
	}
	return election.Token{}
}

// Held is the highest leadership this member knows to have been, ended or not.
func (m *Machine) Held() election.Token { return m.view }

// Vouch is the leadership this member follows, or leads in, and how long ago it
// heard that leader itself: negative when it did not, or there is none.
func (m *Machine) Vouch() (election.Token, time.Duration) {
	return m.View(), m.leaderAge()
}

// Highest is the highest epoch this member has heard of.
func (m *Machine) Highest() uint64 { return m.highest }

func (m *Machine) isMine(t election.Token) bool { return t.Leader.ID == m.cfg.Self.ID }

// eligibility says why this member does not stand.
func (m *Machine) eligibility() election.Eligibility {
	switch {
	case m.place != onList:
		return election.IneligibleGone
	case m.cfg.Observer:
		return election.IneligibleObserver
	case m.cannotSave():
		return election.IneligibleUnsaved
	case m.mode == awaitsLeader:
		return election.IneligibleJoining
	case m.unfounded:
		return election.IneligibleUnfounded
	case m.unhealthy && !m.lastResort:
		return election.IneligibleUnhealthy
	case m.working && !m.leading():
		return election.IneligibleWorking
	case m.resigned > 0:
		return election.IneligibleResigned
	}
	return election.Eligible
}

// toldEligibility is what the others are told of that.
func (m *Machine) toldEligibility() election.Eligibility {
	if a := m.eligibility(); a != election.Eligible || !m.lastResort {
		return a
	}
	return election.LastResort
}

// eligible reports whether a member may be elected, in our eyes: one that stands
// as a last resort is a rival of such alone.
func (m *Machine) eligible(peer *member) bool {
	return !peer.down && (peer.eligibility == election.Eligible || peer.eligibility == election.LastResort && m.lastResort)
}

// accept takes the leadership t that from announces: the leader itself, or in a
// ring whoever passes it on.
//
// It is good if it is higher than the one held, or equal and not known to have
// ended; a sender with another is told what we hold.
func (m *Machine) accept(t election.Token, from int) {
	if !t.Defined() || m.isMine(t) || !m.Knows(t.Leader.ID) {
		return // our own, come back round the ring; or a stranger's
	}
	itself := t.Leader.ID == m.members[from].ID && !m.byRelay
	switch c := t.Compare(m.view); {
	case t == m.next, c == 0 && m.live():
		if itself {
			m.heardLeader()
		}
	case m.next.Above(t) && c >= 0:
		// Ours or a higher one is on its way to the disk; it will be announced.
	case c < 0, c == 0 && m.certain:
		m.replyToProbe(m.members[from].ID)
		m.outbid(t, from)
	case c > 0 && m.beats():
		m.superseded(t, t != m.announcedEnd)
	case t == m.announcedEnd, itself && m.givesWay(t):
		// Its time has ended, in its own eyes: who follows it now loses it again.
	case itself:
		m.adopt(t, "it says so", m.now, time.Time{})
	default:
		m.adopt(t, string(m.members[from].ID)+" passes it on", time.Time{}, m.now.Add(m.cfg.Timing.T()))
	}
}

// superseded ends our leadership because a higher one is known. We follow that, and
// ask its leader to hand over if we outrank it: its work runs. If it has ended
// already we claim above it at once. While our own work runs we drain first.
func (m *Machine) superseded(t election.Token, live bool) {
	if m.working && !m.cfg.NoDetector {
		m.giveUp(election.CauseSuperseded, "a higher token "+t.String(), "its leadership was superseded")
		return
	}
	m.lose(election.CauseSuperseded, true, "a higher token "+t.String())
	m.drained()
	switch {
	case !live && m.eligibility() == election.Eligible && !m.unacknowledged:
		m.claim("above " + t.String())
	case live:
		m.adopt(t, "its token is higher", time.Time{}, m.now.Add(m.cfg.Timing.T()))
		m.others(func(i int, peer *member) {
			// Those who followed us learn it from us, before they miss our beats.
			if peer.link && peer.ID != t.Leader.ID {
				m.replyToProbe(peer.ID)
			}
		})
	default:
		m.discover("its leadership was superseded")
	}
}

// adopt makes t the leadership: lose the old, save, and when it is safe, tell.
// Its leader was heard at heard (zero: by others alone), and they vouch for it
// until grace.
func (m *Machine) adopt(t election.Token, why string, heard, grace time.Time) {
	if m.place == removed {
		return // its process is about to end
	}
	m.presumeDraining(t)
	m.lose(election.CauseSuperseded, true, "a higher token "+t.String())
	m.note("adopts", t.Leader.ID, t, why)
	m.next = t
	m.enterPhaseWithoutLeader()
	m.highest = max(m.highest, t.Epoch)
	m.leaderAt, m.vouchedUntil = heard, grace
	if !heard.IsZero() {
		m.endDiscovery() // else the replies still count, if what others heard is over
	}
	m.save()
}

// claim makes this member the next leader, above every epoch it knows, unless
// another's work or claim may be in the way.
func (m *Machine) claim(why string) {
	if m.replacing {
		m.claimDeferred = true
		return
	}
	if m.mayClaim() && !m.holdsContest() && !m.pollsHigher() {
		m.take(why)
	}
}

// mayClaim reports whether this member may lead next, as far as it knows.
func (m *Machine) mayClaim() bool {
	if !m.started() || m.eligibility() != election.Eligible || m.mode != idle || m.next.Defined() || m.highest >= election.MaxEpoch {
		return false // may not yet, or a leadership is on its way to the disk
	}
	return !m.leading() && (!m.live() || m.cfg.NoDetector) // else there is a leader; the detector says when it is gone
}

// take claims the next epoch.
func (m *Machine) take(why string) {
	if m.holdsContest() {
		return
	}
	m.lose(election.CauseSuperseded, true, "it claims the next epoch")
	m.next, m.claimedAt = m.nextToken(), m.now
	m.highest = max(m.highest, m.next.Epoch)
	m.note("claims", m.cfg.Self.ID, m.next, why)
	m.save()
}

// install tells of the leadership that is now safe on disk.
func (m *Machine) install() {
	m.view, m.next, m.ended, m.certain = m.next, election.Token{}, "", false
	if m.isMine(m.view) {
		m.enter(PhaseLeading)
	} else {
		m.enter(PhaseFollowing)
	}
	m.highest = max(m.highest, m.view.Epoch)
	m.doubts = ""
	m.do(election.Action{Kind: election.NotifyElected, Token: m.view})
	m.endSuspicion()
	m.cancel(timerEligible)
	m.disinherit()
	if m.leading() {
		m.note("leads", m.cfg.Self.ID, m.view, "")
		m.takeLead()
	} else {
		m.note("follows", m.view.Leader.ID, m.view, "")
		m.lastResort = false
		m.takeLeader()
	}
	m.step(election.Event{Kind: election.LeaderElected, Token: m.view})
	if m.mayPreempt() {
		// Not at once: of many that start together only the highest need take over.
		m.set(timerHandover, m.cfg.Timing.Heartbeat)
	}
}

// lose ends the present leadership, if there is one.
func (m *Machine) lose(cause election.Cause, certain bool, why string) {
	m.end(m.phaseWithoutLeader(), cause, certain, why)
}

// end is lose, and says which phase comes after the leadership.
func (m *Machine) end(next Phase, cause election.Cause, certain bool, why string) {
	if !m.live() {
		return
	}
	m.ended, m.certain = cause, certain
	m.enter(next)
	m.contestBegins()
	m.note("loses", m.view.Leader.ID, m.view, string(cause)+": "+why)
	m.do(election.Action{Kind: election.NotifyLost, Token: m.view, Cause: cause})
	m.endSuspicion()
	m.cancel(timerHandover)
	if m.view.Epoch > m.resigned {
		m.resigned = 0 // a later leader's time has ended
	}
	for i := range m.members {
		peer := &m.members[i]
		if peer.eligibility == election.IneligibleResigned && peer.ID != m.view.Leader.ID {
			peer.eligibility = election.Eligible
		}
	}
	m.reconsider()
	if m.cfg.NoDetector {
		return
	}
	// Without a leader we dial everyone, but not all at once in the first moment:
	// the next leader is most likely about to reach us.
	for i := range m.members {
		if soon := m.now.Add(2 * m.cfg.Timing.TMax); m.members[i].redial.Before(soon) {
			m.members[i].redial = soon
		}
	}
	m.wake(m.now.Add(2 * m.cfg.Timing.TMax))
}

// reconsider has a member that stands aside stand after all, if no leader
// appears within 2·T.
func (m *Machine) reconsider() {
	if m.draining() {
		return // the others have not been told yet
	}
	if m.resigned > 0 || m.slow || m.unhealthy && m.cfg.LeadUnhealthy {
		m.set(timerEligible, 2*m.cfg.Timing.T())
	}
}

// loseLeader ends the present leadership and has the Algorithm find the next.
func (m *Machine) loseLeader(cause election.Cause, certain bool, why string) {
	lost := m.view
	m.lose(cause, certain, why)
	if m.undecided() {
		m.step(election.Event{Kind: election.LeaderLost, Token: lost})
	}
}

// resign steps down: this member stands aside until a later leader's time ends.
func (m *Machine) resign() {
	if !m.leading() && !m.isMine(m.next) {
		return // nothing to give up
	}
	m.resigned = max(m.highest, 1)
	m.note("resigns", m.cfg.Self.ID, m.view, "it was asked to")
	m.makeWay("it resigned")
}

// makeWay has this member neither lead nor claim: its reason to stand aside is set.
func (m *Machine) makeWay(why string) {
	switch {
	case m.leading():
		m.stepDown(why)
	case m.isMine(m.next): // on its way to the disk: nobody has heard of it
		m.withdraw()
	case m.leaderless():
		m.reconsider()
	}
}

// stepDown gives the lead away.
func (m *Machine) stepDown(why string) { m.giveUp(election.CauseResigned, why, "") }

// giveUp ends our leadership: at once in our own eyes, in the others' when the work
// has stopped. Until then we keep beating, so that nobody else begins. With doubts,
// others may lead by then: we ask.
func (m *Machine) giveUp(cause election.Cause, why, doubts string) {
	next := m.phaseWithoutLeader()
	if m.working || doubts == "" {
		next = PhaseDraining
	}
	if doubts != "" {
		m.doubts = doubts
	}
	m.end(next, cause, true, why)
	switch {
	case m.working:
		m.wake(m.nextBeat)
	case doubts != "": // the others have given it up
		m.discoverInDoubt()
	default:
		m.release()
	}
}

// release tells the others that the leadership is over.
func (m *Machine) release() {
	m.drained()
	m.reconsider()
	heir := m.heir
	if !m.fit(heir) {
		heir = election.None
	}
	m.others(func(i int, peer *member) {
		if m.reaches(i) || m.cfg.NoDetector && !peer.down {
			m.send(i, election.Message{Kind: election.Resign, Token: m.view, Heir: heir})
		}
	})
	m.leaveTo(heir)
	m.discoverInDoubt()
	if m.undecided() && m.place == onList {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.view})
	}
}

// drained ends the time in which this member's work had still to stop.
func (m *Machine) drained() {
	if m.draining() {
		m.enter(m.phaseWithoutLeader())
	}
}

// discoverInDoubt asks what has become of the lead since it was lost.
func (m *Machine) discoverInDoubt() {
	why := m.doubts
	m.doubts = ""
	if why != "" && m.place == onList {
		m.discover(why)
	}
}

// leaderResigned hears that a leadership is over.
func (m *Machine) leaderResigned(from int, msg *election.Message) {
	if msg.Token.Leader.ID != msg.From {
		return
	}
	if msg.Token == m.next {
		m.abandon("its leader has resigned before it was saved")
		return
	}
	if msg.Token != m.view {
		if !m.cfg.NoDetector {
			m.announcedEnd = msg.Token // late, or never followed: others may not have heard it yet
		}
		return
	}
	if m.live() {
		m.leaveTo(msg.Heir)
		m.loseLeader(election.CauseResigned, true, "it says so")
		return
	}
	m.certain = true
}

// drop gives up the leadership that is being saved.
func (m *Machine) drop() {
	m.next = election.Token{}
	m.enterPhaseWithoutLeader()
}

// abandon drops an adopted leadership that ended before it was saved. What it hid
// is asked for anew.
func (m *Machine) abandon(why string) {
	m.drop()
	m.discover(why)
}

// handOver asks of us, the leader, to make way for a higher rank.
func (m *Machine) handOver(from int, msg *election.Message) {
	peer := &m.members[from]
	switch {
	case m.draining() && msg.Token == m.view:
		// Under way: it hears Resign when the work has stopped.
	case !m.leading() || msg.Token != m.view:
		m.replyToProbe(peer.ID)
	case m.cfg.NoPreempt || peer.eligibility != election.Eligible || !peer.Above(m.cfg.Self):
		m.note("refuses", peer.ID, m.view, "to hand over: it may not preempt")
	default:
		m.stepDown("it hands over to " + string(peer.ID))
	}
}

// preempt asks a leader of lower rank to hand over, again and again until it
// does or is down. A member that returns takes over so (docs/sources.md, all but "Scrapper"),
// but not before the old leader's work has stopped.
func (m *Machine) preempt() {
	if !m.mayPreempt() {
		return
	}
	m.note("asks", m.view.Leader.ID, m.view, "to hand over: it outranks the leader")
	m.send(m.index[m.view.Leader.ID], election.Message{Kind: election.Handover, Token: m.view})
	m.set(timerHandover, m.answerTime(m.index[m.view.Leader.ID])+m.cfg.Timing.TProcess)
}

func (m *Machine) mayPreempt() bool {
	return !m.cfg.NoPreempt && m.live() && m.toldEligibility() == election.Eligible && m.cfg.Self.Above(m.rankOf(m.view.Leader))
}

// setWorking hears from the driver that a leadership's work has begun or stopped.
func (m *Machine) setWorking(on bool) {
	m.working = on
	if on {
		return
	}
	if m.draining() {
		m.release()
		return
	}
	m.standAgain("its work has stopped")
}

// standAgain lets this member take part anew, if nothing else holds it back.
func (m *Machine) standAgain(why string) {
	if m.eligibility() != election.Eligible || !m.started() {
		return
	}
	if m.undecided() {
		m.note("stands", m.cfg.Self.ID, m.view, why)
		m.discover("others may have found a leader while it stood aside")
		return
	}
	m.preempt()
}

// setHealth hears from this member's own check. Who is unhealthy gives up the
// lead and does not claim; with LeadUnhealthy it does when nobody else has within
// 2·T and nobody healthy is in reach.
func (m *Machine) setHealth(ok bool) {
	if m.unhealthy == !ok {
		return
	}
	m.unhealthy, m.lastResort = !ok, false
	if !ok {
		m.makeWay("it is unhealthy")
		return
	}
	m.cancel(timerEligible)
	m.standAgain("it is healthy again")
	if m.leaderless() {
		m.reconsider() // it may have resigned, too
	}
}

// tryLastResort has an unhealthy member stand, if it may and nobody healthy is in
// sight that could lead instead.
func (m *Machine) tryLastResort() {
	if !m.unhealthy || !m.cfg.LeadUnhealthy {
		return
	}
	for i := range m.members {
		if peer := &m.members[i]; i != m.me && !peer.down && peer.eligibility == election.Eligible {
			m.reconsider()
			return
		}
	}
	m.lastResort = true
}

// campaign begins a contest because the user asks for one.
func (m *Machine) campaign() {
	m.note("campaigns", m.cfg.Self.ID, m.view, "it was asked to")
	if m.resigned > 0 {
		m.resigned = 0
		m.cancel(timerEligible)
		if m.leaderless() {
			m.reconsider()                  // it may be unhealthy, too
			m.standAgain("it was asked to") // the others hold a contest without it
		}
	}
	if m.started() && m.mode == idle && !m.next.Defined() {
		m.step(election.Event{Kind: election.Campaign})
	}
	m.preempt()
}

// replyToProbe tells a member what we hold and how long ago we heard its leader. A
// leader whose work has still to stop has not ended yet in the others' eyes.
func (m *Machine) replyToProbe(to election.ID) {
	i, ok := m.index[to]
	if !ok || i == m.me {
		return
	}
	m.send(i, election.Message{Kind: election.ProbeReply, Stamp: m.echo(to), Token: m.view, Ended: m.ended != "" && m.certain && !m.draining(), Follows: m.live(), Age: m.leaderAge()})
}
