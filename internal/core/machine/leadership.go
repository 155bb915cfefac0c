package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// elector claims, accepts and ends leaderships, and steps the Algorithm.
type elector struct {
	claimant
	algorithm election.Algorithm
}

// actions is what the Algorithm sees of its Machine; see [election.Actions].
type actions struct{ m *elector }

func (a actions) Self() election.Rank { return a.m.cfg.Self }

func (a actions) Members() []election.Rank { return a.m.ranks }

func (a actions) Rank(id election.ID) election.Rank {
	if i, ok := a.m.index[id]; ok {
		return a.m.ranks[i]
	}
	return election.Rank{}
}

func (a actions) Eligible(id election.ID) bool {
	i, ok := a.m.index[id]
	switch {
	case !ok:
		return false
	case i == a.m.me:
		return a.m.eligibility() == election.Eligible
	}
	return a.m.eligible(&a.m.members[i])
}

func (a actions) Down(id election.ID) bool {
	i, ok := a.m.index[id]
	return !ok || a.m.members[i].down
}

func (a actions) Leader() election.Token { return a.m.View() }

func (a actions) Highest() uint64 { return a.m.seen.Highest() }

func (a actions) Timing() election.Timing { return a.m.cfg.Timing }

func (a actions) Send(to election.ID, msg election.Message) {
	if i, ok := a.m.index[to]; ok && i != a.m.me {
		a.m.send(i, &msg)
	}
}

func (a actions) SetTimer(name string, d time.Duration) { a.m.alarms.Set(name, a.m.now.Add(d)) }

func (a actions) CancelTimer(name string) { a.m.alarms.Cancel(name) }

func (a actions) Claim() { a.m.claim("it won the election") }

func (a actions) Accept(t election.Token, from election.ID) {
	if i, ok := a.m.index[from]; ok && i != a.m.me {
		a.m.accept(t, i)
	}
}

func (a actions) Vouch(to election.ID) {
	if !a.m.cfg.NoDetector && a.m.tenure.Live() {
		a.m.replyToProbe(to)
	}
}

func (a actions) Discover() {
	if !a.m.tenure.Mine(a.m.tenure.Next()) { // else it has claimed meanwhile
		a.m.discover("the election ended without a leader")
	}
}

func (a actions) Watch(id election.ID) { a.m.watchToo(id) }

func (a actions) Note(what string, peer election.ID, why string) {
	a.m.note(what, peer, election.Token{}, why)
}

func (a actions) AnswerTime(id election.ID) time.Duration {
	i, ok := a.m.index[id]
	if !ok || i == a.m.me {
		return 0
	}
	return a.m.answerTime(i, a.m.now)
}

// probedBy handles what a question shows: a sender that asks under its own token leads by it no
// more. A member that has received it as a leader waits for its heartbeats all the same: it may have
// been stopped for a moment, and lead again.
func (m *elector) probedBy(msg *election.Message) {
	t := msg.Token
	switch {
	case t.Leader.ID != msg.From || m.cfg.NoDetector:
	case t == m.tenure.Next() && !m.tenure.Live() && m.hearsay(msg.From):
		m.abandon("its leader asks for the leader")
	case t == m.View() && m.hearsay(msg.From):
		m.loseLeader(EndOf(msg), true, "it asks for the leader")
	case t.Above(m.tenure.Held()) && t != m.tenure.Next():
		m.tenure.Announced(t, m.now)
	}
}

// accept takes the leadership t that from announces: the leader itself, or in a ring the member
// that passes it on.
//
// It is good if it is higher than the present leadership, or equal and not known to have ended; a
// sender with a different leadership receives what we hold.
func (m *elector) accept(t election.Token, from int) {
	if m.tenure.Mine(t) || !m.Knows(t.Leader.ID) {
		return // our own, come back round the ring; or a stranger's
	}
	itself := t.Leader.ID == m.members[from].ID && !m.byRelay
	past := m.tenure.Past(t, itself, m.now, m.farT())
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
	case !past && m.outweighs(t):
		m.goOn(t, from)
	case m.tenure.Beats():
		m.superseded(t, !past)
	case past, itself && m.givesWay(t, m.now):
		// Its time has ended, as it sees it: a member that follows it now loses it again.
	case itself:
		m.adopt(t, "it announced itself", m.now, time.Time{})
	default:
		m.adopt(t, string(m.members[from].ID)+" passes it on", time.Time{}, m.now.Add(m.cfg.Timing.T()))
	}
}

// superseded ends our leadership because a higher leadership is known. We follow that, and ask its
// leader to hand over if we outrank it: its work runs. If it has ended already we claim above it at
// once. While our own work runs we drain first.
func (m *elector) superseded(t election.Token, live bool) {
	if m.working && !m.cfg.NoDetector {
		m.giveUp(election.CauseSuperseded, "a higher token "+t.String(), "its leadership was superseded")
		return
	}
	m.lose(election.CauseSuperseded, true, "a higher token "+t.String())
	m.tenure.Drained(m.phaseWithoutLeader())
	if !live {
		m.claimAbove(t)
		return
	}
	m.adopt(t, "its token is higher", time.Time{}, m.now.Add(m.cfg.Timing.T()))
	m.tenure.Supersede(t)
	m.tellFollowers(t)
}

// adopt makes t the leadership: lose the old, save, and when it is safe, announce. Its leader was
// received at heard (zero: only indirectly), and members confirm it until grace.
func (m *elector) adopt(t election.Token, why string, heard, grace time.Time) {
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

// goOn has the present leadership go on under an epoch above t: its leader raises it, and
// a follower reports it to the leader of t, which replies to ours.
func (m *elector) goOn(t election.Token, from int) {
	if m.tenure.Leading() {
		m.renew(t, "more members follow this one, or it outranks "+t.String())
		return
	}
	m.replyToProbe(m.members[from].ID)
}

// renew raises the epoch of this member's leadership above t.
func (m *elector) renew(t election.Token, why string) {
	if m.tenure.Next().Above(t) {
		return // it is on its way to the disk
	}
	m.tenure.Save(m.seen.Next(m.cfg.Self, m.tenure.Held(), &m.disk), m.tenure.Base())
	m.seen.See(m.tenure.Next().Epoch)
	m.note("renews", t.Leader.ID, m.tenure.Next(), why)
	m.save()
}

// renewed has the present leadership go on under the epoch that is now on disk.
func (m *elector) renewed() {
	m.tenure.Renew()
	m.do(election.Action{Kind: election.NotifyRenewed, Token: m.tenure.Held()})
	m.statesChanged()
	m.step(election.Event{Kind: election.LeaderElected, Token: m.tenure.Held()})
	if m.tenure.Leading() {
		m.beatAll()
	}
}

// install announces the leadership that is now safe on disk.
func (m *elector) install() {
	if m.tenure.Live() {
		m.renewed()
		return
	}
	m.tenure.Install(m.now)
	m.restsOnNoAnswer()
	m.seen.See(m.tenure.Held().Epoch)
	m.doubt("")
	m.wasRemoved = false
	m.do(election.Action{Kind: election.NotifyElected, Token: m.tenure.Held()})
	m.endSuspicion()
	m.alarms.Cancel(timerEligible)
	m.holds(false)
	m.disinherit()
	if m.tenure.Leading() {
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
	m.reconsiderRank()
}

// lose ends the present leadership, if there is any.
func (m *elector) lose(cause election.Cause, certain bool, why string) {
	m.end(m.phaseWithoutLeader(), cause, certain, why)
}

// contestBegins records that a contest begins: what members reported of themselves before is old.
func (m *elector) contestBegins() {
	m.contestAt = m.now
	m.mayAskTwice(true)
	for i := range m.members {
		m.members[i].gaveTurn, m.members[i].turns = false, 0
	}
}

// end is lose, and sets which phase comes after the leadership.
func (m *elector) end(next tenure.Phase, cause election.Cause, certain bool, why string) {
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
			peer.eligibility = election.StandsNext
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

// loseLeader ends the present leadership and has the Algorithm find the next.
func (m *elector) loseLeader(cause election.Cause, certain bool, why string) {
	m.lose(cause, certain, why)
	if m.undecided() && m.higherMayBeBack() {
		m.discover("a higher member may be back")
		return
	}
	m.elect()
}

// elect has the Algorithm find the next leader, unless there is one, or an answer is awaited that may
// name one.
func (m *elector) elect() {
	if m.undecided() {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	}
}

// abandon drops an adopted leadership that ended before it was saved. What it hid
// is asked for again.
func (m *elector) abandon(why string) {
	m.drop()
	m.reconsider() // there is no leader, as after the end of a leadership that was followed
	m.discover(why)
}

// step steps the Algorithm. An election begins when no member's work is in its way.
func (m *elector) step(ev election.Event) {
	if m.begins(ev) {
		m.algorithm.Step(ev, actions{m})
	}
}

// What follows keeps the newest leadership and the member list on disk. A member that cannot
// save in time does not lead and reports that: see [epoch.Health].

// save writes the newest leadership. At most a single Save is outstanding, and none writes less
// than the disk has.
func (m *elector) save() {
	if m.disk.Busy() {
		if m.disk.Hung() {
			m.followUnsaved()
		}
		return
	}
	if m.tenure.Next().Defined() && !m.disk.Failing() && m.disk.Has(m.tenure.Next()) {
		m.install()
		if m.disk.Listed() || m.disk.Busy() {
			return
		}
	}
	newest := m.disk.Write(m.tenure.Held(), m.tenure.Next()) // view may have been followed unsaved
	if !m.cfg.NoDetector {
		m.alarms.Set(timerHung, m.now.Add(m.cfg.Timing.T()))
	}
	m.do(election.Action{Kind: election.Save, State: election.State{ID: m.cfg.Self.ID, Incarnation: m.cfg.Incarnation, Token: newest, Members: m.roster.All()}})
}

// followUnsaved follows a leader although the disk does not take its leadership.
func (m *elector) followUnsaved() {
	if m.tenure.Next().Defined() && !m.tenure.Mine(m.tenure.Next()) {
		m.install()
	}
}

// saved goes on once the disk has answered. A member that cannot write does not claim, but
// follows all the same.
func (m *elector) saved(err error) {
	if !m.disk.Busy() {
		return
	}
	failing, hung := m.disk.Failing(), m.disk.Saved(err)
	m.alarms.Cancel(timerHung)
	if err != nil {
		if !failing {
			m.note("cannot save", election.None, m.disk.Writing(), err.Error())
		}
		m.alarms.Set(timerSave, m.now.Add(saveRetry))
	}
	overtaken := m.written(err)
	switch {
	case m.tenure.Next().Defined() && m.tenure.Next().Above(m.disk.Writing()):
		m.save()
	case m.tenure.Next().Defined():
		m.install()
	}
	if err == nil && !m.disk.Busy() && (!m.disk.Listed() || m.tenure.Live() && !m.disk.Has(m.tenure.Held())) {
		m.save()
	}
	m.endYield()
	if err == nil {
		m.wrote(hung)
	}
	if overtaken {
		m.elect()
	}
}

// waited: the outstanding Save has not been answered for T.
func (m *elector) waited() {
	m.disk.Hang()
	if !m.disk.Slow() {
		m.note("cannot save", election.None, m.disk.Writing(), "the disk has not answered for T")
	}
	m.followUnsaved()
	m.withdraw()
}

// wrote goes on after a Save that has succeeded. hung: it took longer than T.
func (m *elector) wrote(hung bool) {
	switch was := m.disk.Failing() || m.disk.Slow() || hung; {
	case hung && !m.tenure.Leaderless():
		m.slowly()
	case was:
		m.disk.Work(false)
		m.note("saves again", election.None, m.disk.Writing(), "")
		if m.mode == asks && m.tenure.Leaderless() {
			m.discover("the others go on without it since it last asked")
		}
	}
}

// slowly tries the disk again: a Save took longer than T, and a leader was elected meanwhile.
func (m *elector) slowly() {
	first := !m.disk.Slow()
	m.disk.Work(true)
	switch {
	case m.disk.Busy():
		// The Save that is under way shows it.
	case first:
		m.save()
	default:
		m.alarms.Set(timerSave, m.now.Add(saveRetry))
	}
}
