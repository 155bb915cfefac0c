package machine

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/side"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// View is the leadership that the driver knows, zero while it is undefined.
func (m *Machine) View() election.Token { return m.tenure.View() }

// Held is the highest leadership this member knows to have been, ended or not.
func (m *Machine) Held() election.Token { return m.tenure.Held() }

// Vouch is the leadership this member follows, or leads in, and how long ago it received that
// leader itself: negative when it did not, or there is none.
func (m *Machine) Vouch() (election.Token, time.Duration) {
	return m.View(), m.leaderAge()
}

// Highest is the highest epoch that this member knows of.
func (m *Machine) Highest() uint64 { return m.seen.Highest() }

// accept takes the leadership t that from announces: the leader itself, or in a ring the member
// that passes it on.
//
// It is good if it is higher than the present leadership, or equal and not known to have ended; a
// sender with a different leadership receives what we hold.
func (m *Machine) accept(t election.Token, from int) {
	if !t.Defined() || m.tenure.Mine(t) || !m.Knows(t.Leader.ID) {
		return // our own, come back round the ring; or a stranger's
	}
	itself := t.Leader.ID == m.members[from].ID && !m.byRelay
	switch c := t.Compare(m.tenure.Held()); {
	case t == m.tenure.Next(), c == 0 && m.tenure.Live():
		if itself {
			m.heardLeader()
		}
	case m.tenure.Next().Above(t) && c >= 0:
		// Ours or a higher claim is on its way to the disk; it will be announced.
	case c < 0, c == 0 && m.tenure.Certain():
		m.replyToProbe(m.members[from].ID)
		m.outbid(t, from)
	case c > 0 && !m.tenure.Past(t, itself, m.now, m.farT()) && m.outweighs(t):
		m.goOn(t, from)
	case c > 0 && m.tenure.Beats():
		m.superseded(t, !m.tenure.Past(t, itself, m.now, m.farT()))
	case m.tenure.Past(t, itself, m.now, m.farT()), itself && m.givesWay(t, m.now):
		// Its time has ended, as it sees it: a member that follows it now loses it again.
	case itself:
		m.adopt(t, "it says so", m.now, time.Time{})
	default:
		m.adopt(t, string(m.members[from].ID)+" passes it on", time.Time{}, m.now.Add(m.cfg.Timing.T()))
	}
}

// superseded ends our leadership because a higher leadership is known. We follow that, and ask its
// leader to hand over if we outrank it: its work runs. If it has ended already we claim above it at
// once. While our own work runs we drain first.
func (m *Machine) superseded(t election.Token, live bool) {
	if m.working && !m.cfg.NoDetector {
		m.giveUp(election.CauseSuperseded, "a higher token "+t.String(), "its leadership was superseded")
		return
	}
	m.lose(election.CauseSuperseded, true, "a higher token "+t.String())
	m.tenure.Drained(m.phaseWithoutLeader())
	switch {
	case !live && m.eligibility() == election.Eligible && !m.unacknowledged:
		m.claim("above " + t.String())
	case live:
		m.adopt(t, "its token is higher", time.Time{}, m.now.Add(m.cfg.Timing.T()))
		m.tenure.Supersede(t)
		m.tellFollowers(t)
	default:
		m.discover("its leadership was superseded")
	}
}

// tellFollowers notifies members that followed us until a higher leadership ended ours, before they
// miss our beats.
func (m *Machine) tellFollowers(above election.Token) {
	m.others(func(_ int, peer *member) {
		if peer.link && peer.ID != above.Leader.ID {
			m.replyToProbe(peer.ID)
		}
	})
}

// adopt makes t the leadership: lose the old, save, and when it is safe, announce. Its leader was
// received at heard (zero: only indirectly), and members vouch for it until grace.
func (m *Machine) adopt(t election.Token, why string, heard, grace time.Time) {
	if m.place == removed {
		return // its process is about to end
	}
	if m.taking != nil && m.tenure.Continues(m.taking) && m.taking.Token == t {
		m.note("adopts", t.Leader.ID, t, "it goes on under a higher epoch")
		m.tenure.Save(t, m.tenure.Base())
		m.seen.See(t.Epoch)
		m.save()
		return
	}
	if i, ok := m.index[m.tenure.Held().Leader.ID]; ok && m.tenure.Live() && i != m.me && t.Leader.ID != m.tenure.Held().Leader.ID && m.members[i].link {
		m.members[i].draining = !m.cfg.NoDetector // its leader has still not reported what has become of its work
	}
	m.lose(election.CauseSuperseded, true, "a higher token "+t.String())
	m.note("adopts", t.Leader.ID, t, why)
	base := t.Epoch
	if m.taking != nil && m.taking.Token == t && m.taking.Renews > 0 {
		base = m.taking.Renews
	}
	m.tenure.Save(t, base)
	m.enterPhaseWithoutLeader()
	m.seen.See(t.Epoch)
	m.detector.Follow(heard, grace)
	if !heard.IsZero() {
		m.endDiscovery() // else the replies still count, if the indirect reports end
	}
	m.save()
}

// side is the side of a partition that this member is on. A leader counts the members that
// acknowledge it, once all that it reaches have had the time to. A follower has that from its
// leader, as long as it receives the heartbeats.
func (m *Machine) side() side.Side {
	s := side.Side{Leader: m.tenure.Held().Leader, Begun: m.tenure.Base(), Own: m.tenure.Leading()}
	acknowledges := func(peer *member) bool { return m.now.Sub(peer.ackedAt) <= m.cfg.Timing.Bears() }
	switch {
	case m.cfg.NoDetector || !m.tenure.Live() || m.detector.Suspected():
		return s
	case !m.tenure.Leading():
		if age := m.leaderAge(); age >= 0 && age <= m.cfg.Timing.Heartbeat+m.cfg.Timing.TMax {
			s.Size, s.Young = m.tenure.Side()
		}
		return s
	case m.now.Sub(m.tenure.BegunAt()) < 2*m.cfg.Timing.TMax+m.cfg.Timing.Heartbeat:
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
// handled has a higher leadership: a partition has healed, and this side is the greater.
func (m *Machine) outweighs(t election.Token) bool {
	msg := m.taking
	if !m.tenure.Live() || msg == nil || msg.Token != t || msg.Draining || t.Leader.ID == m.tenure.Held().Leader.ID || m.tenure.Leading() && !m.seen.MayRaise(&m.disk) {
		return false
	}
	theirs := side.Side{Leader: t.Leader, Size: msg.Side, Young: msg.Young, Begun: cmp.Or(msg.Renews, t.Epoch)}
	return m.side().Outweighs(theirs, !m.cfg.NoPreempt)
}

// goOn has the present leadership go on under an epoch above t: its leader raises it, and
// a follower reports it to the leader of t, which replies to ours.
func (m *Machine) goOn(t election.Token, from int) {
	if m.tenure.Leading() {
		m.renew(t, "more members follow this one, or it outranks "+t.String())
		return
	}
	m.replyToProbe(m.members[from].ID)
}

// renew raises the epoch of this member's leadership above t.
func (m *Machine) renew(t election.Token, why string) {
	if m.tenure.Next().Above(t) {
		return // it is on its way to the disk
	}
	m.tenure.Save(m.seen.Next(m.cfg.Self, m.tenure.Held(), &m.disk), m.tenure.Base())
	m.seen.See(m.tenure.Next().Epoch)
	m.note("renews", t.Leader.ID, m.tenure.Next(), why)
	m.save()
}

// renewed has the present leadership go on under the epoch that is now on disk.
func (m *Machine) renewed() {
	m.tenure.Renew()
	m.do(election.Action{Kind: election.NotifyRenewed, Token: m.tenure.Held()})
	m.statesChanged()
	m.step(election.Event{Kind: election.LeaderElected, Token: m.tenure.Held()})
	if m.tenure.Leading() {
		m.beatAll()
	}
}

// claim makes this member the next leader, above every epoch it knows, unless a different member's
// work or claim may be in the way.
func (m *Machine) claim(why string) {
	if m.defersClaim() {
		return
	}
	if !m.mayClaim() || m.holdsContest() || m.inherits() {
		return
	}
	if m.seen.Contested() && !m.cfg.NoDetector {
		m.discover("another has claimed meanwhile")
		return
	}
	if !m.declined.IsZero() && m.now.Sub(m.declined) <= m.farT() && !m.cfg.NoDetector {
		m.discover("it has replied that it is no candidate")
		return
	}
	if !m.cfg.NoDetector && !m.inquired.IsZero() && !m.askedTwice && m.answerLost(m.inquired) {
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
	if !m.tenure.Started() || m.eligibility() != election.Eligible || m.mode != idle || m.tenure.Next().Defined() || m.seen.UsedUp() {
		return false // may not yet, or a leadership is on its way to the disk
	}
	return !m.tenure.Leading() && (!m.tenure.Live() || m.cfg.NoDetector) // else there is a leader; the detector reports when it is gone
}

// take claims the next epoch.
func (m *Machine) take(why string) {
	if m.holdsContest() {
		return
	}
	m.lose(election.CauseSuperseded, true, "it claims the next epoch")
	m.tenure.Claim(m.seen.Next(m.cfg.Self, m.tenure.Held(), &m.disk), m.now)
	m.seen.See(m.tenure.Next().Epoch)
	m.note("claims", m.cfg.Self.ID, m.tenure.Next(), why)
	m.save()
}

// install announces the leadership that is now safe on disk.
func (m *Machine) install() {
	if m.tenure.Live() {
		m.renewed()
		return
	}
	m.tenure.Install(m.now)
	m.restsOnNoAnswer()
	m.seen.See(m.tenure.Held().Epoch)
	m.doubt("")
	m.do(election.Action{Kind: election.NotifyElected, Token: m.tenure.Held()})
	m.endSuspicion()
	m.alarms.Cancel(timerEligible)
	m.disinherit()
	if m.tenure.Leading() {
		m.maintenance.Hold(m.now, m.cfg.Self.ID)
		m.note("leads", m.cfg.Self.ID, m.tenure.Held(), "")
		m.takeLead()
	} else {
		m.note("follows", m.tenure.Held().Leader.ID, m.tenure.Held(), "")
		m.needsNoLastResort()
		m.takeLeader()
		if m.tenure.Superseding() {
			m.tellFollowers(m.tenure.Held()) // they know that ours has ended, and may elect once more
		}
	}
	m.step(election.Event{Kind: election.LeaderElected, Token: m.tenure.Held()})
	if m.mayPreempt() {
		// Not at once: of many that start together only the highest need take over.
		m.alarms.Set(timerHandover, m.now.Add(m.cfg.Timing.Heartbeat))
	}
}

// lose ends the present leadership, if there is any.
func (m *Machine) lose(cause election.Cause, certain bool, why string) {
	m.end(m.phaseWithoutLeader(), cause, certain, why)
}

// end is lose, and sets which phase comes after the leadership.
func (m *Machine) end(next tenure.Phase, cause election.Cause, certain bool, why string) {
	if !m.tenure.Live() {
		return
	}
	m.tenure.End(next, cause, certain)
	m.contestBegins()
	m.seen.Ask()
	m.note("loses", m.tenure.Held().Leader.ID, m.tenure.Held(), string(cause)+": "+why)
	m.do(election.Action{Kind: election.NotifyLost, Token: m.tenure.Held(), Cause: cause})
	m.endSuspicion()
	m.alarms.Cancel(timerHandover)
	lasted := m.tenure.Lasted(m.now, m.cfg.Timing)
	if lasted && m.tenure.Held().Epoch > m.resigned {
		m.resignUntilAbove(0) // a later leader's time has ended
	}
	for i := range m.members {
		peer := &m.members[i]
		if lasted && peer.eligibility == election.IneligibleResigned && peer.ID != m.tenure.Held().Leader.ID {
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

// loseLeader ends the present leadership and has the Algorithm find the next. Followers do not
// receive each other: a follower that no beats reach does not know which higher member is back.
func (m *Machine) loseLeader(cause election.Cause, certain bool, why string) {
	lost := m.tenure.Held()
	m.lose(cause, certain, why)
	switch {
	case !m.undecided():
	case m.byRelay && m.heir == election.None && m.higherMissed(m.now):
		m.discover("a higher member may be back")
	default:
		m.step(election.Event{Kind: election.LeaderLost, Token: lost})
	}
}

// drop gives up the leadership that is being saved.
func (m *Machine) drop() {
	m.tenure.Drop()
	m.enterPhaseWithoutLeader()
}

// abandon drops an adopted leadership that ended before it was saved. What it hid
// is asked for anew.
func (m *Machine) abandon(why string) {
	m.drop()
	m.reconsider() // there is no leader, as after the end of a leadership that was followed
	m.discover(why)
}
