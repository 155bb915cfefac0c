package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/outbox"
)

// mail sends: what every message carries, the way it goes, and again where it may be lost.
type mail struct{ stance }

// newBeat makes a beat that serves every member.
func (m *mail) newBeat(withStates bool) *election.Message {
	msg := &election.Message{
		Kind: election.Beat, From: m.cfg.Self.ID, Election: m.cfg.Election, Token: m.tenure.Held(),
		Stamp: int64(m.now.Sub(m.origin)), Version: m.states.Version(),
	}
	m.saysNow(msg)
	if withStates {
		msg.States = m.states.States(m.reports)
	}
	return msg
}

// reports lists the members' states for the followers.
func (m *mail) reports() []election.MemberReport {
	list := make([]election.MemberReport, len(m.members))
	for i, e := range m.members {
		list[i] = election.MemberReport{ID: e.ID, State: e.state, Epoch: e.epoch, Eligibility: e.toldEligibility()}
	}
	list[m.me].Epoch = m.tenure.Held().Epoch
	return list
}

// beatAll sends a heartbeat to every member with an open link.
func (m *mail) beatAll() {
	m.spreadMeta(m.metas.Queued())
	var plain, full *election.Message
	m.others(func(i int, peer *member) {
		if !peer.link {
			return
		}
		msg := &plain
		withStates := peer.version != m.states.Version()
		if withStates {
			msg = &full
		}
		if *msg == nil {
			*msg = m.newBeat(withStates)
		}
		m.post(i, *msg)
	})
	m.detector.Beat(m.now)
}

func (m *mail) acknowledge(leader int) {
	stamp, version := m.detector.Ack()
	m.send(leader, &election.Message{Kind: election.Ack, Token: m.View(), Stamp: stamp, Version: version})
}

// sendOutside sends msg to a process that is no member any more.
func (m *mail) sendOutside(to election.ID, msg *election.Message) {
	m.do(election.Action{Kind: election.Send, To: to, Message: m.fill(to, msg)})
}

// replyToProbe sends a member what we hold and how long ago we received its leader. A leader whose
// work has still to stop has not ended yet for the members.
func (m *mail) replyToProbe(to election.ID) {
	i, ok := m.index[to]
	if !ok || i == m.me {
		return
	}
	m.send(i, &election.Message{Kind: election.ProbeReply, Stamp: m.echo(to), Token: m.tenure.Held(), Ended: m.tenure.Over() && !m.tenure.Draining(), Follows: m.tenure.Live(), Age: m.leaderAge()})
}

// preempt asks a leader of lower rank to hand over, again and again until it
// does or is down. A member that returns takes over so (docs/sources.md, all but "Scrapper"),
// but not before the old leader's work has stopped.
func (m *mail) preempt() {
	if !m.mayPreempt() {
		return
	}
	m.note("asks", m.tenure.Held().Leader.ID, m.tenure.Held(), "to hand over: it outranks the leader")
	m.send(m.index[m.tenure.Held().Leader.ID], &election.Message{Kind: election.Handover, Token: m.tenure.Held()})
	m.alarms.Set(timerHandover, m.now.Add(m.answerTime(m.index[m.tenure.Held().Leader.ID], m.now)+m.cfg.Timing.TProcess))
}

// tellFollowers notifies members that followed us until a higher leadership ended ours, before they
// miss our heartbeats.
func (m *mail) tellFollowers(above election.Token) {
	m.others(func(_ int, peer *member) {
		if peer.link && peer.ID != above.Leader.ID {
			m.replyToProbe(peer.ID)
		}
	})
}

// listChunk is how many entries a message carries.
const listChunk = 128

// spread sends news over each link, also to the member that it concerns: a leader so reaches all, a
// follower its leader. The rest learn by the digests. Without a leader only its source sends the
// news: each to each would be n² messages.
func (m *mail) spread(news []election.Member, from election.ID) {
	if from != m.cfg.Self.ID && !m.tenure.Live() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link && peer.ID != from {
			m.sendList(i, news)
		}
	})
}

func (m *mail) sendList(to int, entries []election.Member) {
	for chunk := range slices.Chunk(entries, listChunk) {
		m.send(to, &election.Message{Kind: election.Members, List: chunk})
	}
}

// compareLists records whether a member's list differs from ours, and asks for it.
func (m *mail) compareLists(i int, msg *election.Message) {
	if m.cfg.NoDetector || msg.Kind == election.Members {
		return // the rest of its list may be on its way
	}
	if msg.Digest != m.roster.Digest() {
		m.members[i].differed = m.now
	}
	if m.members[i].differs = msg.Digest != m.roster.Digest() || m.metas.Differs(msg.MetaDigest); m.members[i].differs {
		m.pull(i)
	}
}

// pull asks a member for its list, which differs, as soon as it may: a single member is asked in a
// heartbeat, and none twice in T. While a hundred join at once all lists differ, and if each were
// sent to all there would be n³ entries under way.
func (m *mail) pull(i int) {
	peer := &m.members[i]
	if !peer.link {
		return
	}
	if at := later(peer.nextPull, m.nextPull); m.now.Before(at) {
		m.alarms.Wake(at)
		return
	}
	peer.differs = false
	m.nextPull, peer.nextPull = m.now.Add(m.cfg.Timing.Heartbeat), m.now.Add(m.cfg.Timing.T())
	m.send(i, &election.Message{Kind: election.GetMembers})
}

// What follows exchanges metadata, which package meta keeps.

// mergeMeta merges what a member knows of published metadata. A leader sends it to all with its
// next beat; a follower leaves that to the digests, except for its own metadata.
func (m *mail) mergeMeta(list []election.Meta) {
	if len(list) == 0 {
		return
	}
	news := m.metas.Merge(list, m.Knows)
	m.learn(news)
	if m.tenure.Beats() {
		m.metas.Queue(news)
	} else if slices.ContainsFunc(news, func(e election.Meta) bool { return e.ID == m.cfg.Self.ID }) {
		m.spreadMeta(m.metas.Own())
	}
}

// learn gives the driver the metadata that members publish now.
func (m *mail) learn(news []election.Meta) {
	for _, e := range news {
		m.note("learns", e.ID, election.Token{}, "its metadata")
		m.do(election.Action{Kind: election.Learn, Member: e.ID, Meta: e.Pairs})
	}
}

// spreadMeta sends it over each link.
func (m *mail) spreadMeta(news []election.Meta) {
	if !m.tenure.Started() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link {
			m.sendMeta(i, news)
		}
	})
}

// sendMeta sends it to a member.
func (m *mail) sendMeta(to int, entries []election.Meta) {
	for chunk := range slices.Chunk(entries, meta.Chunk) {
		m.send(to, &election.Message{Kind: election.Members, Meta: chunk})
	}
}

// pass has a relay pass on a message.
func (m *mail) pass(r int, msg *election.Message) {
	carried := *msg
	carried.Process = m.cfg.Incarnation
	m.send(r, &election.Message{Kind: election.Relay, Carried: &carried})
	if m.cfg.Trace != nil && !routine(msg.Kind) {
		m.trace(election.Record{What: "sends", Peer: msg.To, Token: msg.Token, Message: msg, Why: "by " + string(m.members[r].ID)})
	}
}

// passOn passes on a message as a relay. A relay that cannot reports so.
func (m *mail) passOn(from, to int, inner *election.Message) {
	peer, asker := &m.members[to], m.members[from].ID
	if !peer.link && m.now.Sub(peer.missed) <= m.cfg.Timing.T() {
		m.cannotPass(from, peer.ID)
		return
	}
	if !peer.link && !slices.Contains(peer.wants, asker) {
		peer.wants = append(slices.Clone(peer.wants), asker)
	}
	m.send(to, &election.Message{Kind: election.Relay, Carried: inner})
}

// cannotPass reports that a member is not reached here either. What it carries names that member,
// as a question to it: no frame is without a kind.
func (m *mail) cannotPass(asker int, to election.ID) {
	m.send(asker, &election.Message{Kind: election.Relay, Ended: true, Carried: &election.Message{Kind: election.Ping, From: m.members[asker].ID, To: to, Election: m.cfg.Election}})
}

// passLost has a relay pass on what a member may have lost: a dial is under way with it, as vain as
// the last.
func (m *mail) passLost(i int) {
	r, ok := m.relayTo(i, m.now)
	if !ok {
		return
	}
	peer := &m.members[i]
	lost := peer.Unconfirmed
	peer.Keep(func(s outbox.Sent) bool { return !passes(s.Message.Kind) })
	for _, s := range lost {
		if passes(s.Message.Kind) && (s.Lost || !s.Last.Before(peer.heard)) && m.now.Sub(s.First) <= 2*m.farT() {
			m.pass(r, m.saidAgain(s.Message))
			m.awaitsLonger(i, s.Message)
		}
	}
}

// outbid sends a leader the higher token that we hold, if a member reports that it leads with a
// lower token: there may be no link over which we receive it, and we may be the only member that
// knows better.
func (m *mail) outbid(t election.Token, told int) {
	if i, ok := m.index[t.Leader.ID]; ok && i != told && i != m.me {
		m.replyToProbe(t.Leader.ID)
	}
}

// What follows sends: what every message carries, and which way it goes.

// send sends msg to a member, and dials it if there is no connection. The caller does not change or
// send msg again.
func (m *mail) send(to int, msg *election.Message) {
	m.post(to, m.fill(m.members[to].ID, msg))
}

// fill sets the sender of a message, and what every message carries.
func (m *mail) fill(to election.ID, msg *election.Message) *election.Message {
	msg.From, msg.To, msg.Election = m.cfg.Self.ID, to, m.cfg.Election
	m.saysNow(msg)
	if msg.Stamp == 0 && m.cfg.stamps(msg) {
		msg.Stamp = m.cfg.stampAt(m.now, m.origin)
	}
	return msg
}

// saysNow gives a message what every message carries of its sender, as it is now.
func (m *mail) saysNow(msg *election.Message) {
	msg.Highest, msg.Eligibility, msg.Digest, msg.Draining = m.seen.Highest(), m.Standing(), m.roster.Digest(), m.tenure.Draining()
	msg.Process = 0        // it may be a copy of a received message, which an algorithm passes on
	if !m.cfg.NoDetector { // else messages have one way
		msg.Leads = m.tenure.Leading()
		msg.Change = m.changesTo(report{msg.Eligibility, msg.Leads, msg.Draining})
	}
	if (msg.Kind == election.ProbeReply || !m.tenure.Live()) && !reportsCandidate(msg) { // otherwise the report is older than the contest
		m.declines(m.now)
	}
	msg.MetaDigest, msg.Pause = m.metas.Digest(), m.pause.Report(m.now)
	if msg.Cause = ""; msg.Token == m.tenure.Held() && m.tenure.Mine(msg.Token) && !m.tenure.Live() && m.tenure.Ended() != election.CauseResigned {
		msg.Cause = m.tenure.Ended()
	}
	if msg.Token == m.tenure.Held() && msg.Kind != election.Ack {
		side := m.side()
		msg.Side, msg.Young = side.Size, side.Young
		if m.tenure.Base() < m.tenure.Held().Epoch {
			msg.Renews = m.tenure.Base()
		}
	}
}

func (m *mail) post(to int, msg *election.Message) { m.postAgain(to, msg, m.now) }

// postAgain sends what was sent before, at first.
func (m *mail) postAgain(to int, msg *election.Message, first time.Time) {
	peer := &m.members[to]
	if r, ok := m.relayTo(to, m.now); ok && passes(msg.Kind) {
		m.pass(r, msg)
		return
	}
	if routine(msg.Kind) && msg.Kind != election.Relay {
		m.do(election.Action{Kind: election.Send, To: peer.ID, Message: msg})
		return
	}
	if !m.cfg.NoDetector {
		m.overLink(to, msg, first)
	}
	m.do(election.Action{Kind: election.Send, To: peer.ID, Message: msg})
	if m.cfg.Trace != nil {
		m.trace(election.Record{What: "sends", Peer: peer.ID, Token: msg.Token, Message: msg})
	}
}

// overLink notes that a message goes over the link to a member, or with a dial.
func (m *mail) overLink(to int, msg *election.Message, first time.Time) {
	peer := &m.members[to]
	if peer.link && !m.lasting(peer) && peer.stale(m.now, m.cfg.Timing) {
		m.hangUp(to)
	}
	comes := m.now
	if !peer.link {
		peer.dialing = true
		comes = m.now.Add(m.cfg.Timing.DialTime())
	}
	peer.Sends(msg, first, m.now, comes, ofContest(msg.Kind), peer.ID == m.watched)
}

// repeat resends, in its order, what may have been lost. What needs proof is resent with every
// connection that ends, the rest once.
func (m *mail) repeat(i int, lost []outbox.Sent) {
	peer := &m.members[i]
	peer.Keep(func(s outbox.Sent) bool {
		return !slices.ContainsFunc(lost, func(l outbox.Sent) bool { return l.Message == s.Message })
	})
	for _, s := range lost {
		if m.now.Sub(s.First) <= m.farT() {
			m.postAgain(i, m.saidAgain(s.Message), s.First)
			peer.Received()
			m.awaitsLonger(i, s.Message)
		}
	}
}

// awaitsLonger waits for the answer to a message that leaves once more.
func (m *mail) awaitsLonger(i int, again *election.Message) {
	m.awaitAnew(i)
	if ofContest(again.Kind) {
		m.alarms.ExtendOthers(ownTimers, m.now.Add(m.answerTime(i, m.now)+m.cfg.Timing.TProcess))
	}
}

// saidAgain is msg, leaving now.
func (m *mail) saidAgain(msg *election.Message) *election.Message {
	again := *msg
	if msg.Stamp != 0 && m.cfg.stamps(msg) {
		again.Stamp = m.cfg.stampAt(m.now, m.origin)
	}
	m.saysNow(&again)
	return &again
}

// ofContest reports whether a message is the algorithm's. What the Machine's own messages ask for,
// or report, is repeated anyway.
func ofContest(k election.MessageKind) bool {
	switch k {
	case election.Probe, election.ProbeReply, election.Resign, election.Handover, election.Members, election.GetMembers, election.Named:
		return false
	}
	return !routine(k)
}
