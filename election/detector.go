package election

import (
	"errors"
	"math/rand/v2"
	"time"
)

// detector says which members are down; it may be wrong. It is a star, as in
// source 002: the leader beats to every member and each acknowledges; members do
// not beat to each other.
type detector struct {
	// While there is no leader, or after a start.
	inquiring bool      // reports of the highest epoch are awaited before any claim
	answered  bool      // somebody has reported
	barred    time.Time // since when members have refused this one as removed; zero: they have not
	deaf      bool      // we stepped down because nobody acknowledged; claim only once answered or alone

	// A follower's side.
	leaderAt  time.Time // when the leader itself was last heard; zero: not in this leadership
	grace     time.Time // until then others vouch for it
	suspected bool      // vouchers are being asked
	stamp     int64     // of the last beat
	nextAck   time.Time // when to acknowledge again although no beat has come
	seen      uint64    // version of the member states taken from the leader

	// Whom the algorithm has us watch beside the leader.
	watched  ID
	nextPing time.Time

	// A leader's side.
	nextBeat time.Time
	heardAt  time.Time // when anyone was last heard
	ackedAt  time.Time // when the newest acknowledged beat had left
	version  uint64    // of the member states; grows with each change
	states   []MemberReport
	stateOf  uint64 // the version that states shows
}

// In a large cluster not everyone is asked, or dialed, at once: n members would
// hold n² connections between them.
const (
	inquiryWave = 32 // members that an inquiry asks at a time
	dialWave    = 32 // members that one without a leader is connected to
)

// How often a dial or a disk that fails is tried again.
const (
	maxBackoff = time.Second
	saveRetry  = time.Second
)

// Why a connection is refused.
var (
	ErrNotMember      = errors.New("not a member of this cluster")
	ErrSameID         = errors.New("this id is in use by another process")
	ErrOldIncarnation = errors.New("a newer process has taken this id")
)

// Admit reports whether a connection on which a process presents itself as
// peer may stand: nil, or why it must be refused ([ErrNotMember], [ErrRemoved],
// [ErrSameID], [ErrOldIncarnation]). It changes nothing.
func (m *Machine) Admit(now time.Time, peer Rank, incarnation uint64) error {
	i, ok := m.index[peer.ID]
	if !ok {
		if e, listed := m.entry(peer.ID); listed && e.Gone == Removed {
			return ErrRemoved
		}
		return ErrNotMember
	}
	known := &m.members[i]
	switch {
	case i == m.me:
		return ErrSameID
	case incarnation < known.incarnation:
		return ErrOldIncarnation
	case incarnation > known.incarnation && known.link && now.Sub(known.heard) <= m.cfg.Timing.T():
		return ErrSameID // the process that we hear is another
	}
	return nil
}

// linkUp takes note of a connection. Another incarnation means that the old
// process is gone.
func (m *Machine) linkUp(rank Rank, incarnation uint64) {
	i, ok := m.index[rank.ID]
	if !ok || i == m.me {
		return
	}
	if old := m.members[i].incarnation; old != incarnation {
		if incarnation < old {
			return // a word from the dead, come late
		}
		if old != 0 {
			m.gone(i, CauseCrashed, true, "another incarnation answers")
		}
		m.members[i].incarnation = incarnation
		m.members[i].aside = m.members[i].stance()
		m.members[i].version = 0
	}
	if m.members[i].Rank != rank {
		m.members[i].Rank = rank
		m.rank()
		i = m.index[rank.ID]
	}
	peer := &m.members[i]
	again := !peer.told && (!peer.asked || !peer.rebuff.IsZero()) // our question may have been lost
	peer.link, peer.dialing, peer.backoff, peer.rebuff = true, false, 0, time.Time{}
	m.hear(i)
	m.setState(i, StateUp)
	m.wake(m.now.Add(m.cfg.Timing.T()))
	switch {
	case m.leading() || m.draining:
		m.post(i, m.newBeat(peer.version != m.version))
	case m.inquiring && !m.joining && again:
		m.ask(i)
		m.extend(timerInquiry, 2*m.cfg.Timing.TMax)
	}
}

// linkDown dials again at once: a refusal tells that the process is gone.
func (m *Machine) linkDown(id ID) {
	i, ok := m.index[id]
	if !ok || !m.members[i].link {
		return
	}
	peer := &m.members[i]
	peer.link = false
	m.redialAt(i, m.now)
	// Message delivery is reliable (source 004): what may have been lost with the
	// link is said once more. Everything in it is dropped where it is late.
	if lost := peer.unheard; lost != nil && m.now.Sub(peer.used) <= m.cfg.Timing.T() {
		m.post(i, lost)
		m.members[i].unheard = nil
	}
}

// hangUp closes the link to a member.
func (m *Machine) hangUp(i int) {
	peer := &m.members[i]
	m.do(Action{Kind: Hangup, To: peer.ID})
	peer.link, peer.redial = false, m.now
}

// stale reports whether a link has been idle for so long that the other end may
// just be closing it: what is sent then is lost, so it goes over a new one.
func (m *Machine) stale(peer *member) bool {
	return m.now.Sub(peer.heard) > m.cfg.Timing.T()/2 && m.now.Sub(peer.used) > m.cfg.Timing.T()/2
}

// redialAt has a member dialed no sooner than at.
func (m *Machine) redialAt(i int, at time.Time) {
	m.members[i].redial = at
	m.wake(at)
}

// dialFailed: refused means that the process is gone; silence is only silence.
// With why, a live member refuses us.
func (m *Machine) dialFailed(id ID, refused bool, why error) {
	i, ok := m.index[id]
	if !ok {
		return
	}
	peer := &m.members[i]
	peer.dialing = false
	if peer.link {
		return // it reached us meanwhile
	}
	switch why {
	case ErrRemoved, ErrSameID, ErrOldIncarnation:
		// It still knows an earlier process with our id, or a newer one, or has not
		// heard that we were added again. Its answer is owed: we ask until it knows
		// better, or until nobody has taken us for T.
		if why == ErrRemoved && m.barredForGood() {
			m.evicted()
			return
		}
		peer.rebuff = m.now
		m.redialAt(i, m.now.Add(m.cfg.Timing.Heartbeat))
		return
	}
	peer.backoff = min(max(2*peer.backoff, m.cfg.Timing.Heartbeat), maxBackoff)
	m.redialAt(i, m.now.Add(peer.backoff-m.jitter(peer.backoff/4)))
	if refused {
		m.gone(i, CauseCrashed, true, "it refuses the connection")
		return
	}
	if m.now.Sub(peer.heard) > m.cfg.Timing.T() {
		if peer.state != StateDown {
			m.setState(i, StateUnreachable)
		}
		if !peer.down && !m.isLeader(i) {
			peer.down = true
			m.step(Event{Kind: PeerDown, Peer: id})
		}
	}
	m.unanswered(i)
}

// barredForGood reports whether members have refused this one as removed for T,
// and none has let it in.
func (m *Machine) barredForGood() bool {
	if m.barred.IsZero() {
		m.barred = m.now
	}
	for i := range m.members {
		if m.members[i].link {
			m.barred = m.now
		}
	}
	return m.now.Sub(m.barred) > m.cfg.Timing.T()
}

// jitter draws from the seed a duration below d.
func (m *Machine) jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.New(&m.random).Int64N(int64(d)))
}

func (m *Machine) isLeader(i int) bool {
	return m.live() && m.view.Leader.ID == m.members[i].ID
}

// hear takes note that a member lives and that we hear it.
func (m *Machine) hear(i int) {
	if m.now.Sub(m.heardAt) > m.cfg.Timing.T() {
		m.ackedAt = m.now // we were alone: only now is there someone to acknowledge
	}
	m.heardAt = m.now
	m.members[i].heard, m.members[i].unheard = m.now, nil
	m.up(i)
}

func (m *Machine) up(i int) {
	if m.members[i].down {
		m.members[i].down = false
		m.step(Event{Kind: PeerUp, Peer: m.members[i].ID})
	}
}

// gone counts a member as down. certain says that its process has ended,
// so that its leadership has too.
func (m *Machine) gone(i int, cause Cause, certain bool, why string) {
	peer := &m.members[i]
	wasDown := peer.down
	peer.down, peer.aside = true, peer.stance()
	if certain {
		m.setState(i, StateDown)
	} else {
		m.setState(i, StateUnreachable)
	}
	if !wasDown {
		m.note("finds down", peer.ID, Token{}, why)
		m.step(Event{Kind: PeerDown, Peer: peer.ID})
	}
	m.unanswered(i)
	switch id := peer.ID; {
	case m.live() && m.view.Leader.ID == id:
		m.vacate(cause, certain, why)
	case m.next.Leader.ID == id:
		m.forgo("its leader is gone before it was saved")
	case m.view.Leader.ID == id && certain:
		m.certain = true
	}
}

// inquire asks everyone for the highest epoch; nothing is claimed before the
// answers are in. So does a member that starts, that was stopped, or that
// nobody acknowledged.
func (m *Machine) inquire(why string) {
	m.inquiring, m.answered, m.joining = true, false, false
	m.note("inquires", None, Token{}, why)
	for i := range m.members {
		m.members[i].queried = m.members[i].told
	}
	m.set(timerInquiry, m.cfg.Timing.T())
	for range inquiryWave {
		m.askNext()
	}
	m.inquiredAll()
}

// askNext asks the highest member that this inquiry has not asked yet.
func (m *Machine) askNext() {
	for i := len(m.members) - 1; i >= 0; i-- {
		if i != m.me && !m.members[i].queried {
			m.ask(i)
			return
		}
	}
}

// ask asks a member what it knows of the leadership.
func (m *Machine) ask(i int) {
	m.members[i].asked, m.members[i].queried = true, true
	m.send(i, Message{Kind: Query, Token: m.view})
}

// unanswered gives up waiting for a member's report.
func (m *Machine) unanswered(i int) {
	if !m.members[i].asked {
		return
	}
	m.members[i].asked = false
	if m.inquiring && !m.joining {
		m.askNext()
	}
	m.inquiredAll()
	if m.suspected && !m.anyAsked() {
		m.unvouched("nobody vouches for it")
	}
}

func (m *Machine) anyAsked() bool {
	for i := range m.members {
		if m.members[i].asked {
			return true
		}
	}
	return false
}

func (m *Machine) inquiredAll() {
	if m.inquiring && !m.joining && !m.anyAsked() {
		m.inquired("all have answered or are down")
	}
}

// inquired ends the inquiry with a contest, if nobody has been found to lead.
func (m *Machine) inquired(why string) {
	switch {
	case m.deaf && !m.answered && m.now.Sub(m.heardAt) <= m.cfg.Timing.T():
		m.inquire("it hears others but no answers")
		return
	case m.rebuffed():
		m.inquire("a member knows another process with this id")
		return
	}
	m.endInquiry()
	if m.vacant() {
		m.note("has inquired", None, Token{}, why)
		m.step(Event{Kind: Started})
	}
}

// rebuffed reports whether a member has refused us within T.
func (m *Machine) rebuffed() bool {
	for i := range m.members {
		if at := m.members[i].rebuff; !at.IsZero() && m.now.Sub(at) <= m.cfg.Timing.T() {
			return true
		}
	}
	return false
}

func (m *Machine) endInquiry() {
	if !m.inquiring {
		return
	}
	m.inquiring, m.deaf, m.joining = false, false, false
	m.cancel(timerInquiry)
	m.forgetAsked()
}

func (m *Machine) forgetAsked() {
	for i := range m.members {
		m.members[i].asked = false
	}
}

// reported takes in what a member knows.
func (m *Machine) reported(from int, msg *Message) {
	peer := m.members[from].ID
	m.answered = true
	itself := msg.Token.Leader.ID == peer && !msg.Ended
	fresh := itself || !msg.Ended && msg.Age >= 0 && msg.Age < m.cfg.Timing.T()
	switch c := msg.Token.Compare(m.view); {
	case c > 0 && (m.leading() || m.draining):
		m.superseded(msg.Token, (fresh || msg.Follows) && !m.isMine(msg.Token))
	case c == 0 && m.leading() && msg.Ended:
		m.superseded(msg.Token, false)
	case c == 0 && m.live() && msg.Ended && msg.Token.Leader.ID == peer:
		m.vacate(CauseResigned, true, "it says that it has ended")
	case !fresh || m.isMine(msg.Token) || !msg.Token.Defined():
	case itself:
		m.accept(msg.Token, from)
	case c == 0 && m.live():
		m.vouched(peer, msg.Age)
	case (c > 0 || c == 0 && !m.certain) && msg.Token.Above(m.next):
		m.adopt(msg.Token, string(peer)+" hears it", time.Time{}, m.now.Add(m.cfg.Timing.T()-msg.Age))
	}
	m.unanswered(from)
}

// heardLeader takes note that the leader itself was heard.
func (m *Machine) heardLeader() {
	m.leaderAt = m.now
	if m.suspected {
		m.endSuspicion()
	}
}

// leaderAge is how long ago the leader itself was heard; 0 when that is this
// member, negative when it is not within memory.
func (m *Machine) leaderAge() time.Duration {
	switch {
	case m.leading() || m.draining:
		return 0
	case !m.live() || m.leaderAt.IsZero():
		return -1
	}
	return m.now.Sub(m.leaderAt)
}

// takeLeader begins to follow.
func (m *Machine) takeLeader() {
	m.stamp, m.seen = 0, 0
	m.nextAck = time.Time{}
	if m.cfg.NoDetector {
		return
	}
	m.wake(m.silentAt())
	if i := m.index[m.view.Leader.ID]; !m.members[i].link {
		m.redialAt(i, m.now)
	}
}

// silentAt is when the leader has been silent for T, or nobody vouches any more.
func (m *Machine) silentAt() time.Time {
	at := m.leaderAt.Add(m.cfg.Timing.T())
	if m.grace.After(at) {
		return m.grace
	}
	return at
}

// beaten handles a leader's beat.
func (m *Machine) beaten(from int, msg *Message) {
	if msg.Token.Leader.ID != msg.From {
		return // nobody beats but the leader
	}
	if !m.live() || msg.Token != m.view {
		m.accept(msg.Token, from)
		if msg.Token != m.next && msg.Token != m.View() {
			return
		}
	}
	m.heardLeader()
	m.members[from].epoch = msg.Token.Epoch
	m.stamp = msg.Stamp
	m.nextAck = m.now.Add(2 * m.cfg.Timing.Heartbeat)
	if msg.States != nil && m.live() {
		m.seen = msg.Version
		for _, s := range msg.States {
			i, ok := m.index[s.ID]
			if !ok || i == m.me || i == from {
				continue
			}
			m.members[i].epoch = s.Epoch
			m.setState(i, s.State)
		}
	}
	m.acknowledge(from)
}

func (m *Machine) acknowledge(leader int) {
	m.send(leader, Message{Kind: Ack, Token: m.View(), Stamp: m.stamp, Version: m.seen})
}

// acked handles an acknowledgement. The stamp is ours, come back.
func (m *Machine) acked(from int, msg *Message) {
	if !m.leading() && !m.draining {
		return
	}
	at := m.origin.Add(time.Duration(msg.Stamp))
	if at.After(m.ackedAt) && !at.After(m.now) {
		m.ackedAt = at
	}
	m.members[from].version = msg.Version
	if m.members[from].epoch != msg.Token.Epoch {
		m.members[from].epoch = msg.Token.Epoch
		m.version++
	}
}

// takeLead begins to lead.
func (m *Machine) takeLead() {
	m.leaderAt, m.grace = time.Time{}, time.Time{}
	m.ackedAt = m.now
	m.version++
	for i := range m.members {
		peer := &m.members[i]
		peer.version = 0
		if peer.backoff == 0 {
			peer.redial = m.now // whoever the announcement misses hears it from the link
		}
	}
	if m.cfg.NoDetector {
		return
	}
	m.nextBeat = m.now.Add(m.cfg.Timing.Heartbeat)
	m.wake(m.now)
}

// newBeat makes one beat that serves every member.
func (m *Machine) newBeat(withStates bool) *Message {
	msg := &Message{
		Kind: Beat, From: m.cfg.Self.ID, Election: m.cfg.Election, Token: m.view, Highest: m.highest, Aside: m.aside(), Digest: m.digest,
		Stamp: int64(m.now.Sub(m.origin)), Draining: m.draining, Version: m.version,
	}
	if withStates {
		if m.stateOf != m.version || m.states == nil {
			m.states = make([]MemberReport, len(m.members))
			for i, e := range m.members {
				m.states[i] = MemberReport{e.ID, e.state, e.epoch}
			}
			m.states[m.me].Epoch = m.view.Epoch
			m.stateOf = m.version
		}
		msg.States = m.states
	}
	return msg
}

// beatAll beats to every member that a link stands to.
func (m *Machine) beatAll() {
	var plain, full *Message
	m.others(func(i int, peer *member) {
		if !peer.link {
			return
		}
		msg := &plain
		withStates := peer.version != m.version
		if withStates {
			msg = &full
		}
		if *msg == nil {
			*msg = m.newBeat(withStates)
		}
		m.post(i, *msg)
	})
	m.nextBeat = m.now.Add(m.cfg.Timing.Heartbeat)
}

// watch does what the detector has due by now.
func (m *Machine) watch() {
	m.hangUpSilent()
	if m.leading() || m.draining {
		m.watchFollowers()
	} else if m.live() {
		m.watchLeader()
	}
	m.ping()
	m.dialAll()
}

// watchToo watches id beside the leader.
func (m *Machine) watchToo(id ID) {
	if m.watched == id || m.cfg.NoDetector {
		return
	}
	m.watched, m.nextPing = id, m.now
	m.wake(m.now)
}

// ping keeps the link to the watched member alive.
func (m *Machine) ping() {
	i, ok := m.index[m.watched]
	if !ok || !m.members[i].link || m.now.Before(m.nextPing) {
		return
	}
	m.nextPing = m.now.Add(m.cfg.Timing.Heartbeat)
	m.send(i, Message{Kind: Ping, Stamp: int64(m.now.Sub(m.origin))})
}

// hangUpSilent closes every link on which nothing came for T: temporary ones
// that have served (source 002), and those whose other end may be gone.
func (m *Machine) hangUpSilent() {
	m.others(func(i int, peer *member) {
		if !peer.link || m.now.Before(m.silent(peer)) {
			return
		}
		m.hangUp(i)
		switch {
		case peer.ID == m.watched && !m.isLeader(i):
			m.gone(i, CauseSilent, false, "silent for T")
		case (m.leading() || m.draining) && peer.state != StateDown:
			m.setState(i, StateUnreachable)
		}
	})
}

// silent is when a link will have been silent for T: nothing heard, and nothing
// asked whose answer may be on its way.
func (m *Machine) silent(peer *member) time.Time {
	at := peer.heard
	if peer.used.After(at) {
		at = peer.used
	}
	return at.Add(m.cfg.Timing.T() + 1)
}

func (m *Machine) watchFollowers() {
	if !m.now.Before(m.nextBeat) {
		m.beatAll()
	}
	// "Beats are acknowledged": who hears members but is not heard steps down;
	// who hears nobody leads its group of one.
	hears := m.now.Sub(m.heardAt) <= m.cfg.Timing.T()
	if m.leading() && hears && m.now.Sub(m.ackedAt) > m.cfg.Timing.T() {
		m.lose(CauseSilent, true, "it hears members, but nobody has acknowledged for T")
		m.deaf = true
		m.inquire("nobody hears it")
	}
}

func (m *Machine) watchLeader() {
	if !m.nextAck.IsZero() && !m.now.Before(m.nextAck) {
		m.nextAck = m.now.Add(m.cfg.Timing.Heartbeat)
		if i := m.index[m.view.Leader.ID]; m.members[i].link {
			m.acknowledge(i) // an old stamp: "I live, but I do not hear you"
		}
	}
	if !m.suspected && !m.now.Before(m.silentAt()) {
		m.suspect()
	}
}

// suspect asks the others before a silent leader counts as down.
func (m *Machine) suspect() {
	m.suspected = true
	m.note("suspects", m.view.Leader.ID, m.view, "silent for "+m.quiet())
	m.forgetAsked()
	m.others(func(i int, peer *member) {
		if !peer.down && peer.ID != m.view.Leader.ID {
			m.ask(i)
		}
	})
	m.set(timerVouch, 2*m.cfg.Timing.TMax)
	if !m.anyAsked() {
		m.unvouched("there is nobody to ask")
	}
}

// quiet says for how long the leader has been silent.
func (m *Machine) quiet() string {
	if m.leaderAt.IsZero() {
		return "all its time"
	}
	return m.now.Sub(m.leaderAt).Round(time.Millisecond).String()
}

// vouched puts the suspicion off until the voucher's own hearing is T old.
func (m *Machine) vouched(by ID, age time.Duration) {
	if until := m.now.Add(m.cfg.Timing.T() - age); until.After(m.grace) {
		m.grace = until
	}
	if !m.suspected {
		return
	}
	leader := m.view.Leader.ID
	m.note("spares", leader, m.view, string(by)+" heard it "+age.Round(time.Millisecond).String()+" ago")
	m.endSuspicion()
	m.setState(m.index[leader], StateUnreachable)
	m.wake(m.grace)
}

// unvouched: the suspected leader counts as down.
func (m *Machine) unvouched(why string) {
	if !m.suspected {
		return
	}
	m.endSuspicion()
	i := m.index[m.view.Leader.ID]
	if m.members[i].link {
		m.hangUp(i)
	}
	m.gone(i, CauseSilent, false, why)
}

func (m *Machine) endSuspicion() {
	if m.suspected {
		m.suspected = false
		m.cancel(timerVouch)
		m.forgetAsked()
	}
}

// dialAll dials whom this member should be connected to and is not: the leader
// and whoever has none dial everyone, a follower its leader.
//
// Without a leader that is dialWave members at a time: in a large cluster all
// would else hold n² connections between them, and the leader to be reaches
// everyone anyway.
func (m *Machine) dialAll() {
	room := len(m.members)
	if !m.live() && !m.draining {
		room = dialWave
	}
	for i := range m.members {
		if m.members[i].link || m.members[i].dialing {
			room--
		}
	}
	m.others(func(i int, peer *member) {
		if m.shouldDial(i) && !m.now.Before(peer.redial) && (room > 0 || m.isLeader(i) || peer.ID == m.watched) {
			room--
			peer.dialing = true
			m.do(Action{Kind: Dial, To: peer.ID})
		}
	})
}

func (m *Machine) shouldDial(i int) bool {
	peer := &m.members[i]
	if peer.link || peer.dialing {
		return false
	}
	return m.leading() || m.draining || !m.live() || m.isLeader(i) || peer.ID == m.watched
}

// wakeForDetector adds what the detector will have due to the deadline.
func (m *Machine) wakeForDetector() {
	for i := range m.members {
		switch peer := &m.members[i]; {
		case i == m.me:
		case peer.link:
			m.wake(m.silent(peer))
		case m.shouldDial(i):
			at := peer.redial
			if soon := m.now.Add(m.cfg.Timing.Heartbeat); at.Before(soon) && !m.now.Before(at) {
				at = soon // there was no room for it now
			}
			m.wake(at)
		}
	}
	if i, ok := m.index[m.watched]; ok && m.members[i].link {
		m.wake(m.nextPing)
	}
	switch {
	case m.leading() || m.draining:
		m.wake(m.nextBeat)
	case m.live():
		if !m.suspected {
			m.wake(m.silentAt())
		}
		if !m.nextAck.IsZero() {
			m.wake(m.nextAck)
		}
	}
}

// stalled reports whether this process was stopped for longer than T: a leader
// steps at every beat, anyone else at its deadline.
func (m *Machine) stalled(last time.Time) bool {
	if m.cfg.NoDetector {
		return false
	}
	T := m.cfg.Timing.T()
	if m.leading() || m.draining {
		return m.now.Sub(last) > T
	}
	return !m.deadline.IsZero() && m.now.Sub(m.deadline) > T-m.cfg.Timing.Heartbeat
}

// thaw wakes from a stall: the lead is lost before anything is sent, and
// silence is counted afresh, for it was we who did not listen.
func (m *Machine) thaw(last time.Time) {
	m.note("stalled", m.cfg.Self.ID, m.view, "for "+m.now.Sub(last).Round(time.Millisecond).String())
	for i := range m.members {
		if m.members[i].link {
			m.members[i].heard = m.now
		}
	}
	m.heardAt, m.ackedAt = m.now, m.now
	led := m.leading() || m.draining
	m.draining = false
	if led {
		m.lose(CauseStalled, true, "this process was stopped for longer than T")
	}
	m.endSuspicion()
	if m.live() {
		m.grace = m.now.Add(m.cfg.Timing.T()) // not leaderAt: others rely on our own hearing
		m.nextAck = m.now
		m.wake(m.silentAt())
		return
	}
	if m.isMine(m.next) {
		m.next = Token{}
	}
	if !m.next.Defined() {
		m.inquire("it was stopped")
	}
}
