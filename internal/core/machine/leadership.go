package machine

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/side"
)

// leadership is who leads, as this member knows: the part of a Machine that keeps
// epochs. view never goes down.
type leadership struct {
	view      election.Token // the last leadership told to the driver
	ended     election.Cause // why view's leadership is over; "" while it lasts
	certain   bool           // ended is known, not suspected: view is never taken back
	begunAt   time.Time      // when view began, in our eyes
	next      election.Token // the leadership being saved; zero when none is
	claimedAt time.Time      // when our last claim began
	above     election.Token // the leadership that ended our own last
	base      uint64         // the epoch under which view began; a renewal raises that of view
	nextBase  uint64         // that of next
	size      int            // of its side, as its leader has sent it last; 0: not known
	young     bool           // that is how many may come to follow it
}

// endIsCertain: that the last leadership is over is known by now.
func (l *leadership) endIsCertain() { l.certain = true }

// learnSide notes how many members follow the leadership, as its leader sends it.
func (l *leadership) learnSide(msg *election.Message) { l.size, l.young = msg.Side, msg.Young }

// restore takes up what the disk remembers. Whether that leadership still lasts
// is unknown, unless it was our own: a process does not outlive itself.
func (t *leadership) restore(c Config) {
	t.view, t.ended, t.certain = c.State.Token, election.CauseStopped, c.State.Token.Leader.ID == c.Self.ID
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
func (m *Machine) Highest() uint64 { return m.seen.Highest() }

func (m *Machine) isMine(t election.Token) bool { return t.Leader.ID == m.cfg.Self.ID }

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
	case c > 0 && !m.over(t, itself) && m.outweighs(t):
		m.goOn(t, from)
	case c > 0 && m.beats():
		m.superseded(t, !m.over(t, itself))
	case m.over(t, itself), itself && m.givesWay(t):
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
		m.above = t
		m.tellFollowers(t)
	default:
		m.discover("its leadership was superseded")
	}
}

// tellFollowers has those who followed us until a higher leadership ended ours learn it from us, before
// they miss our beats.
func (m *Machine) tellFollowers(above election.Token) {
	m.others(func(_ int, peer *member) {
		if peer.link && peer.ID != above.Leader.ID {
			m.replyToProbe(peer.ID)
		}
	})
}

// adopt makes t the leadership: lose the old, save, and when it is safe, tell.
// Its leader was heard at heard (zero: by others alone), and they vouch for it
// until grace.
func (m *Machine) adopt(t election.Token, why string, heard, grace time.Time) {
	if m.place == removed {
		return // its process is about to end
	}
	if m.taking != nil && m.continues(m.taking) && m.taking.Token == t {
		m.note("adopts", t.Leader.ID, t, "it goes on under a higher epoch")
		m.next = t
		m.seen.See(t.Epoch)
		m.save()
		return
	}
	m.presumeDraining(t)
	m.lose(election.CauseSuperseded, true, "a higher token "+t.String())
	m.note("adopts", t.Leader.ID, t, why)
	m.next, m.nextBase = t, t.Epoch
	if m.taking != nil && m.taking.Token == t && m.taking.Renews > 0 {
		m.nextBase = m.taking.Renews
	}
	m.enterPhaseWithoutLeader()
	m.seen.See(t.Epoch)
	m.detector.Follow(heard, grace)
	if !heard.IsZero() {
		m.endDiscovery() // else the replies still count, if what others heard is over
	}
	m.save()
}

// side is the side of a partition that this member is on. A leader counts the members that
// acknowledge it, once all that it reaches have had the time to. A follower has that from its
// leader, as long as it receives the heartbeats.
func (m *Machine) side() side.Side {
	s := side.Side{Leader: m.view.Leader, Begun: m.base, Own: m.leading()}
	acknowledges := func(peer *member) bool { return m.now.Sub(peer.ackedAt) <= m.cfg.Timing.Bears() }
	switch {
	case m.cfg.NoDetector || !m.live() || m.detector.Suspected():
		return s
	case !m.leading():
		if age := m.leaderAge(); age >= 0 && age <= m.cfg.Timing.Heartbeat+m.cfg.Timing.TMax {
			s.Size, s.Young = m.size, m.young
		}
		return s
	case m.now.Sub(m.begunAt) < 2*m.cfg.Timing.TMax+m.cfg.Timing.Heartbeat:
		s.Young = true
		acknowledges = func(peer *member) bool { return !peer.down && peer.state != election.StateUnreachable }
	}
	s.Size = 1
	m.others(func(_ int, peer *member) {
		if !peer.Observer && acknowledges(peer) {
			s.Size++
		}
	})
	return s
}

// outweighs reports whether the present leadership goes on, though the message that is being
// taken in has a higher one: a partition has healed, and this side is the greater.
func (m *Machine) outweighs(t election.Token) bool {
	msg := m.taking
	if !m.live() || msg == nil || msg.Token != t || msg.Draining || t.Leader.ID == m.view.Leader.ID || m.leading() && !m.seen.MayRaise(&m.disk) {
		return false
	}
	theirs := side.Side{Leader: t.Leader, Size: msg.Side, Young: msg.Young, Begun: cmp.Or(msg.Renews, t.Epoch)}
	return m.side().Outweighs(theirs, !m.cfg.NoPreempt)
}

// goOn has the present leadership go on under an epoch above t: its leader raises it, and
// a follower reports it to the leader of t, which replies to ours.
func (m *Machine) goOn(t election.Token, from int) {
	if m.leading() {
		m.renew(t, "more members follow this one, or it outranks "+t.String())
		return
	}
	m.replyToProbe(m.members[from].ID)
}

// renew raises the epoch of this member's leadership above t.
func (m *Machine) renew(t election.Token, why string) {
	if m.next.Above(t) {
		return // it is on its way to the disk
	}
	m.next, m.nextBase = m.seen.Next(m.cfg.Self, m.view, &m.disk), m.base
	m.seen.See(m.next.Epoch)
	m.note("renews", t.Leader.ID, m.next, why)
	m.save()
}

// continues reports whether msg shows the leadership that this member follows under a higher epoch.
func (m *Machine) continues(msg *election.Message) bool {
	return m.phase == PhaseFollowing && msg.Token.Leader.ID == m.view.Leader.ID && msg.Token.Above(m.view) && msg.Renews > 0 && msg.Renews <= m.view.Epoch
}

// renewed has the present leadership go on under the epoch that is now on disk.
func (m *Machine) renewed() {
	m.view, m.next = m.next, election.Token{}
	m.do(election.Action{Kind: election.NotifyRenewed, Token: m.view})
	m.statesChanged()
	m.step(election.Event{Kind: election.LeaderElected, Token: m.view})
	if m.leading() {
		m.beatAll()
	}
}

// claim makes this member the next leader, above every epoch it knows, unless
// another's work or claim may be in the way.
func (m *Machine) claim(why string) {
	if m.defersClaim() {
		return
	}
	if !m.mayClaim() || m.holdsContest() {
		return
	}
	if m.seen.Contested() && !m.cfg.NoDetector {
		m.discover("another has claimed meanwhile")
		return
	}
	if !m.cfg.NoDetector && m.answerLost() {
		m.mayAskTwice(false)
		m.discover("a member that lives has not answered")
		return
	}
	if !m.pollsHigher() {
		m.take(why)
	}
}

// mayClaim reports whether this member may lead next, as far as it knows.
func (m *Machine) mayClaim() bool {
	if !m.started() || m.eligibility() != election.Eligible || m.mode != idle || m.next.Defined() || m.seen.UsedUp() {
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
	m.next, m.claimedAt = m.seen.Next(m.cfg.Self, m.view, &m.disk), m.now
	m.nextBase = m.next.Epoch
	m.seen.See(m.next.Epoch)
	m.note("claims", m.cfg.Self.ID, m.next, why)
	m.save()
}

// startUnder has this member start as if t had been elected before; for the lab.
func (l *leadership) startUnder(t election.Token) { l.next = t }

// install tells of the leadership that is now safe on disk.
func (m *Machine) install() {
	if m.live() {
		m.renewed()
		return
	}
	m.view, m.next, m.ended, m.certain, m.begunAt = m.next, election.Token{}, "", false, m.now
	m.base, m.size, m.young = m.nextBase, 0, false
	m.restsOnNoAnswer()
	if m.isMine(m.view) {
		m.enter(PhaseLeading)
	} else {
		m.enter(PhaseFollowing)
	}
	m.seen.See(m.view.Epoch)
	m.doubt("")
	m.do(election.Action{Kind: election.NotifyElected, Token: m.view})
	m.endSuspicion()
	m.alarms.Cancel(timerEligible)
	m.disinherit()
	if m.leading() {
		m.maintenance.Hold(m.now, m.cfg.Self.ID)
		m.note("leads", m.cfg.Self.ID, m.view, "")
		m.takeLead()
	} else {
		m.note("follows", m.view.Leader.ID, m.view, "")
		m.needsNoLastResort()
		m.takeLeader()
		if m.view == m.above {
			m.tellFollowers(m.view) // they know that ours has ended, and may elect once more
		}
	}
	m.step(election.Event{Kind: election.LeaderElected, Token: m.view})
	if m.mayPreempt() {
		// Not at once: of many that start together only the highest need take over.
		m.alarms.Set(timerHandover, m.now.Add(m.cfg.Timing.Heartbeat))
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
	m.next = election.Token{} // a renewal that is being saved
	m.enter(next)
	m.contestBegins()
	m.seen.Ask()
	m.note("loses", m.view.Leader.ID, m.view, string(cause)+": "+why)
	m.do(election.Action{Kind: election.NotifyLost, Token: m.view, Cause: cause})
	m.endSuspicion()
	m.alarms.Cancel(timerHandover)
	lasted := m.lasted(m.now, m.cfg.Timing.T())
	if lasted && m.view.Epoch > m.resigned {
		m.resignUntilAbove(0) // a later leader's time has ended
	}
	for i := range m.members {
		peer := &m.members[i]
		if lasted && peer.eligibility == election.IneligibleResigned && peer.ID != m.view.Leader.ID {
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
	m.alarms.Wake(m.now.Add(2 * m.cfg.Timing.TMax))
}

// lasted reports whether the present leadership makes those candidates again, when it ends, that resigned
// before it. A shorter one does not: a ring's round may elect a member for a moment.
func (l *leadership) lasted(now time.Time, t time.Duration) bool { return now.Sub(l.begunAt) >= 2*t }

// loseLeader ends the present leadership and has the Algorithm find the next. Followers do
// not hear each other: one that no beats reach has not heard which higher member is back.
func (m *Machine) loseLeader(cause election.Cause, certain bool, why string) {
	lost := m.view
	m.lose(cause, certain, why)
	switch {
	case !m.undecided():
	case m.byRelay && m.heir == election.None && m.higherMissed():
		m.discover("a higher member may be back")
	default:
		m.step(election.Event{Kind: election.LeaderLost, Token: lost})
	}
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
	m.reconsider() // nobody leads, as after the end of one that was followed
	m.discover(why)
}
