package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has every condition of a claim: what keeps a candidate from leading, and what may come between
// while its claim is written. Whether it is a candidate is in standing.go, and which members it asks about
// a leader in discovery.go.

// claimant is what keeps a candidate from leading, and what it asks other members before it does.
type claimant struct {
	mail
	poll
}

// poll asks those that may claim, too, whether they are candidates.
type poll struct {
	contestAt time.Time // what members reported before is old: the contest has begun since
	diedAt    time.Time // when a candidate was last found down: it may have led, and others have become candidates
	polledAt  time.Time // when we began to ask higher members whether they are candidates; zero: we do not
}

// candidateDied notes that a candidate was found down: it may have led meanwhile.
func (p *poll) candidateDied(at time.Time) { p.diedAt = at }

// polls notes since when higher members are asked; zero: they are not.
func (p *poll) polls(since time.Time) { p.polledAt = since }

// begins reports whether an election, or the heir, may go on with ev: no member's work is in its way.
func (m *elector) begins(ev election.Event) bool {
	begins := ev.Kind == election.Started || ev.Kind == election.LeaderLost || ev.Kind == election.Withdrawn || ev.Kind == election.Campaign
	return !(begins && m.tenure.Leaderless() && (m.holdsContest() || m.inherits()))
}

// claim makes this member the next leader, above every epoch it knows, unless a different member's
// work or claim may be in the way.
func (m *elector) claim(why string) {
	switch {
	case m.defersClaim(), !m.mayClaim(), m.holdsContest(), m.inherits(), m.asksBeforehand(), m.pollsHigher():
	default:
		m.take(why)
	}
}

// claimAbove claims above a leadership that has ended, or asks for the leader if this member may not claim.
func (m *elector) claimAbove(ended election.Token) {
	if m.mayClaim() {
		m.claim("above " + ended.String())
	} else {
		m.discover("its leadership was superseded")
	}
}

// defersClaim reports whether a claim has to wait until a new process has been received.
func (c *connections) defersClaim() bool {
	c.claimDeferred = c.claimDeferred || c.replacing
	return c.replacing
}

// resumeDeferred begins the election that waited for a new process, which has been received now.
func (m *elector) resumeDeferred() {
	if m.claimDeferred {
		m.claimDeferred = false
		m.elect()
	}
}

// mayClaim reports whether this member may lead next, as far as it knows.
func (m *claimant) mayClaim() bool {
	if !m.tenure.Started() || m.eligibility() != election.Eligible || m.mode != idle || m.tenure.Next().Defined() || m.seen.UsedUp() {
		return false // may not yet, or a leadership is on its way to the disk
	}
	return !m.tenure.Leading() && (!m.tenure.Live() || m.cfg.NoDetector) // else there is a leader; the detector reports when it is lost
}

// holdsContest puts a contest off while a different member leads, or its work still runs, or its end
// is disputed.
func (m *claimant) holdsContest() bool {
	whose := m.workElsewhere()
	if whose == election.None {
		return false
	}
	if !m.contestHeld {
		m.holds(true)
		why := "its work has still to stop"
		switch i, ok := m.index[whose]; {
		case !ok:
		case m.members[i].leads:
			why = "it leads, as it last reported"
		case m.members[i].mayLeadOn():
			why = "it may lead on: its refusal is disputed"
		}
		m.note("waits", whose, election.Token{}, why)
	}
	m.wakeForOthersWork()
	return true
}

// inherits makes an election wait for the heir, which claims instead of starting an election.
func (m *elector) inherits() bool {
	switch {
	case m.heir == election.None:
		return false
	case m.heir != m.cfg.Self.ID: // once it is unfit, missHeir ends the wait
	case !m.mayClaim():
		m.unclaimed(m.heir, "it is down or no longer a candidate", false)
	default:
		m.disinherit()
		m.take("leadership was handed over to it")
	}
	return true
}

// missHeir starts the election that waited, when the heir cannot take leadership any more.
func (m *elector) missHeir() {
	if !m.tenure.Draining() && m.heir != election.None && !m.fit(m.heir) {
		m.unclaimed(m.heir, "it is down or no longer a candidate", false)
	}
}

// unclaimed starts it because the heir has not claimed.
func (m *elector) unclaimed(heir election.ID, why string, silent bool) {
	m.disinherit()
	if m.undecided() {
		m.note("no longer awaits", heir, m.tenure.Held(), why)
		if silent {
			m.discover("the transfer target may have claimed")
			return
		}
		m.elect()
	}
}

// resumeContest begins the election that was held up, once nothing holds it up any more. Leaders that depart
// and were silent for longer than is tolerated are forgotten.
func (m *elector) resumeContest() {
	for i := 0; i < len(m.departing); {
		if m.now.Sub(m.departing[i].heard) <= m.cfg.Timing.Bears() {
			i++
			continue
		}
		m.departed(i, "silent for "+bears(m.cfg.Timing))
	}
	if !m.contestHeld || m.workElsewhere() != election.None {
		return
	}
	m.holds(false)
	m.contestBegins()
	m.reconsider() // until now no member could lead
	m.elect()
}

// asksBeforehand asks the members about a leader, and reports so, if what this member has learned of that
// is old.
func (m *elector) asksBeforehand() bool {
	why := ""
	switch {
	case m.cfg.NoDetector:
	case m.seen.Contested():
		why = "another has claimed meanwhile"
	case m.rebuffed(m.now):
		why = rebuff
	case m.now.Sub(m.declined) <= m.farT():
		why = "it has reported that it is no candidate"
	case !m.inquired.IsZero() && !m.askedTwice && m.answerLost(m.inquired):
		m.mayAskTwice(false)
		why = "a member that lives has not answered"
	}
	if why != "" {
		m.discover(why)
	}
	return why != ""
}

// pollsHigher asks the higher members that make a claim unsafe by their last report. A member that was
// no candidate, as it reported before this election, before a candidate died, or while it still asked for
// a leader, may be about to claim, too. So may a candidate that was received since, or outranks this member
// since, and has not reported that it takes the election over, and a resigned member that is the next
// candidate: a round of a ring goes past it when it has yet to find the leadership lost. So may a member on a
// new link that has not reported anything yet, nor was asked. So may a candidate with a different list: if
// this member outranks it there, it does not answer. No further member is waited for, and none gets a second
// turn before it becomes a rival again, nor more than maxTurns: a program with a different idea of rank may
// be a candidate and never take over, and so may a member with a check that often changes.
func (m *claimant) pollsHigher() bool {
	if m.cfg.NoDetector {
		return false
	}
	asks := m.polling()
	for i := len(m.members) - 1; i > m.me; i-- {
		peer := &m.members[i]
		unsafe := peer.early || peer.saidAt.Before(later(m.contestAt, m.diedAt)) || peer.eligibility == election.IneligibleUnfounded
		if m.eligible(peer) {
			unasked := peer.link && peer.saidAt.IsZero() && peer.Pending.IsZero()
			unsafe = !peer.gaveTurn && (unasked || peer.saidAt.After(m.contestAt) || !peer.rivalAt.IsZero() && !peer.rivalAt.Before(m.contestAt) || peer.differed.After(m.contestAt) || peer.eligibility == election.StandsNext)
		}
		if !unsafe || peer.polled || peer.deaf || peer.down || peer.Observer || peer.state != election.StateUp && !peer.link {
			continue
		}
		if !asks {
			m.polls(m.now)
		}
		peer.polled, asks = true, true
		m.note("probes", peer.ID, election.Token{}, "it may claim, too")
		m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()})
		m.alarms.Set(timerPoll, m.now.Add(m.cfg.Timing.DialTime()+4*m.cfg.Timing.TMax))
	}
	return asks
}

// endPoll goes on as soon as all have answered, or are down.
func (m *elector) endPoll() {
	if !m.polledAt.IsZero() && !m.polling() {
		m.alarms.Cancel(timerPoll)
		if m.polled() && !m.holdsContest() && !m.asksBeforehand() {
			m.take("all have answered or are down")
		}
	}
}

// pollTimedOut asks again for a leader before it claims: what the members reported of that is old,
// and a member that did not answer may lead.
func (m *elector) pollTimedOut() {
	for i := range m.members {
		m.members[i].deaf = m.members[i].deaf || m.members[i].polled
	}
	if m.polled() {
		m.discover("they have not answered in time")
	}
}

// polled reports whether this member goes on to claim. If a candidate was found, or a rival came
// meanwhile, it leaves that to the contest.
func (m *elector) polled() bool {
	stands := false
	for i := range m.members {
		peer := &m.members[i]
		answered, came := !peer.polled && !peer.saidAt.Before(m.polledAt), !peer.gaveTurn && !peer.rivalAt.Before(m.polledAt)
		if i > m.me && m.eligible(peer) && (answered || came) {
			stands = true
			peer.takesTurn()
		}
		peer.polled = false
	}
	m.polls(time.Time{})
	may := m.mayClaim()
	if may && stands {
		m.elect()
	}
	return may && !stands
}

// take claims the next epoch.
func (m *elector) take(why string) {
	m.lose(election.CauseSuperseded, true, "it claims the next epoch")
	m.tenure.Claim(m.seen.Next(m.cfg.Self, m.tenure.Held(), &m.disk), m.now)
	m.seen.See(m.tenure.Next().Epoch)
	m.note("claims", m.cfg.Self.ID, m.tenure.Next(), why)
	m.countSide()
	m.save()
}

// written decides about a claim after its Save has ended: it is withdrawn if that failed, and dropped
// if a different member comes first. It reports whether that member has become a candidate since the claim.
func (m *elector) written(err error) (overtaken bool) {
	if err != nil {
		m.withdraw()
	}
	next := m.tenure.Next()
	if !m.tenure.Mine(next) || next.Above(m.disk.Writing()) || m.tenure.Live() { // live: it leads already
		return false
	}
	overtaken = m.overtaken()
	if overtaken || m.holdsContest() {
		m.drop() // its turn comes when the present leader has stopped, or led
	}
	return overtaken
}

// withdraw ends our claim, if there is any: this member is no candidate now. Members that wait
// for it to lead receive that, and go on at once.
func (m *elector) withdraw() {
	mine := m.tenure.Mine(m.tenure.Next())
	if mine {
		if m.disk.Hung() {
			m.disk.Drop(m.tenure.Next())
		}
		m.drop()
		m.reconsider()
	}
	if !m.tenure.Leaderless() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link {
			m.send(i, &election.Message{Kind: election.ProbeReply, Token: m.tenure.Held(), Ended: m.tenure.Over(), Age: -1})
		}
	})
	if mine {
		m.step(election.Event{Kind: election.Withdrawn, Peer: m.cfg.Self.ID})
	}
}

// overtaken reports whether a higher member has become a rival while our claim was on its way to the
// disk, or at the moment in which that set out. It has asked for what we know, which did not include the
// claim, and is about to claim. It gets its turn, maxTurns times at most.
func (m *claimant) overtaken() (yes bool) {
	for i := m.me + 1; i < len(m.members); i++ {
		peer := &m.members[i]
		if !m.cfg.NoDetector && m.eligible(peer) && !peer.rivalAt.Before(m.tenure.ClaimedAt()) && !peer.gaveTurn {
			yes = true
			peer.takesTurn()
			m.note("yields to", peer.ID, m.tenure.Next(), "it became a rival after this claim")
		}
	}
	return yes
}

// What follows keeps two members' work apart. A member reports in all its messages that it leads, and
// after its leadership that its work still runs, until it has stopped. No member claims meanwhile, for
// as long as that member is received.

// workElsewhere is the first member that may lead or work, members that depart included; None: there is none.
func (m *claimant) workElsewhere() election.ID {
	if len(m.departing) > 0 {
		return m.departing[0].id
	}
	if i, ok := m.index[m.tenure.Held().Leader.ID]; ok && m.members[i].mayLeadOn() {
		return m.members[i].ID
	}
	return m.works(m.now)
}

// wakeForOthersWork: a member that leads or drains counts as down after the silence that is tolerated.
func (m *claimant) wakeForOthersWork() {
	for i := range m.members {
		if peer := &m.members[i]; m.contestHeld && peer.works(m.now, m.cfg.Timing.Bears()) {
			m.alarms.Wake(peer.saidAt.Add(m.cfg.Timing.Bears() + 1))
		}
	}
	for _, d := range m.departing {
		m.alarms.Wake(d.heard.Add(m.cfg.Timing.Bears() + 1))
	}
}

// departed forgets a process that has left the list and works no more, or is gone.
func (m *claimant) departed(i int, why string) {
	id := m.departing[i].id
	m.departing = slices.Delete(slices.Clone(m.departing), i, i+1)
	m.note("has departed", id, election.Token{}, why)
	m.do(election.Action{Kind: election.Notify, Member: id, Status: election.StateRemoved})
	m.do(election.Action{Kind: election.Hangup, To: id})
}
