package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/outbox"
	"github.com/batuta-dev/batuta/internal/core/roster"
	"github.com/batuta-dev/batuta/internal/core/states"
)

// member is what a Machine knows of a member.
type member struct {
	election.Member
	incarnation uint64
	state       election.MemberState // as last notified
	down        bool                 // counts as gone until it is received again
	mayFollow   bool                 // up when this member claimed its leadership, and not lost since: it may come to acknowledge that
	eligibility election.Eligibility // why it is no candidate, as it last reported
	saidAt      time.Time            // when it reported that itself; acknowledgements of a follower do not count
	early       bool                 // it has reported that in an acknowledgement, which may have set out before the contest
	stated      statement            // which of its statements that is
	polled      bool                 // it is asked whether that still holds
	deaf        bool                 // it has not answered that in time, nor was it received since
	rivalAt     time.Time            // since when it may claim: see becomesRival
	gaveTurn    bool                 // it reported that it is a candidate, and the contest was called again for it to take over
	turns       int                  // how often, in this contest
	leads       bool                 // it leads, as it last reported
	draining    bool                 // its work of an ended leadership may still run, as it last reported
	epoch       uint64               // of the token it last acknowledged
	ackedAt     time.Time            // when it last acknowledged a leadership of ours
	awaited     bool                 // its reply to a probe is awaited
	probed      bool                 // it has been asked in this discovery
	askedAt     time.Time            // when that was; zero: it has ended since
	replied     bool                 // and has answered
	reports     election.ID          // the leader that it reports, which is not on our list yet

	link       bool          // a connection is open
	dialing    bool          // a dial is under way
	anew       bool          // no dial has failed since its link ended, or since it leads without a link
	redial     time.Time     // not before
	backoff    time.Duration // until the dial after that
	heard      time.Time     // when it was last received; zero: never
	missed     time.Time     // when a dial to it last failed
	proof      proof         // that its process has ended
	rebuffedAt time.Time     // when it refused us as removed, or as a different process; zero: it did not
	rebuffFrom time.Time     // since when it does
	refusal    error         // why it refuses our connections, though it lives; nil: it does not, or does not answer
	refusedAt  time.Time     // since when it does
	version    uint64        // of the member states it has acknowledged

	outbox.Outbox
	relays

	since    time.Time // when it was put on the list, in this life
	differs  bool      // its list differs from ours, as it last reported
	differed time.Time // when it last reported a list that differs: it may rank members in a different order
	nextPull time.Time // not before is it asked for that
}

// proof is what a refused connection proves: that the process of a member has ended, unless that
// process was seen to live on.
type proof struct {
	taken    time.Time // when a refusal was first taken for its end; zero: none was
	under    uint64    // the epoch under which it led then; 0: it did not
	disputed dispute   // a member follows it, or it lives
	refuted  bool      // it lived on: a refusal proves nothing
}

// dispute is the state of a doubt about a proof.
type dispute uint8

const (
	undisputed dispute = iota
	open               // another dial, or the first report of that process over its link, decides
	settled
)

// refutedBy reports whether msg, about the leadership of that member, shows that its process lived
// on: its leadership goes on, or the sender has received from it since.
func (p proof) refutedBy(msg *election.Message, now time.Time) bool {
	return msg.Renews > 0 && msg.Renews <= p.under ||
		msg.Kind == election.ProbeReply && msg.Follows && msg.Age >= 0 && now.Add(-msg.Age).After(p.taken)
}

// disputedBy reports whether msg is the first report of a follower of that member. It does not refute
// the proof: the follower may have received from it before it ended, and not have found it down yet.
func (p proof) disputedBy(msg *election.Message) bool {
	return !p.taken.IsZero() && !p.refuted && p.disputed == undisputed && msg.Kind == election.ProbeReply && msg.Follows && msg.Age >= 0
}

// settle ends a dispute: what decides it has come.
func (p *proof) settle() {
	if p.disputed == open {
		p.disputed = settled
	}
}

// roll is the members: the list, what is known of each member on it, and by which way messages reach
// it. It has no reference to its Machine: a method is given the time, and answers.
type roll struct {
	roster  roster.Roster
	members []member        // lowest rank first, this member included
	ranks   []election.Rank // the same, for the Algorithm
	index   map[election.ID]int
	me      int           // of this member in members
	states  states.Report // of what is known of the members, for heartbeats

	self       election.ID
	timing     election.Timing
	joins      bool // members have admitted this member
	noDetector bool // nor are there links
}

// What follows has how long an answer may take. An existing link carries a message and its answer in
// 2·t_max. A link that has yet to be made takes two more delays for TCP's handshake, and two for
// TLS's: the message goes right behind the hello.

// answerTime is how long a message that goes to a member now, and its answer, may
// travel.
func (r *roll) answerTime(i int, now time.Time) time.Duration {
	if _, ok := r.relayTo(i, now); ok {
		return r.timing.DialTime() + 4*r.timing.TMax // by a relay, whose link may have to be made
	}
	if r.members[i].link || r.noDetector {
		return 2 * r.timing.TMax
	}
	return r.timing.DialTime() + 2*r.timing.TMax
}

// longestAnswer is that of all members whose reply is awaited; 2·t_max at least.
func (r *roll) longestAnswer(now time.Time) time.Duration {
	longest := 2 * r.timing.TMax
	for i := range r.members {
		if r.members[i].awaited {
			longest = max(longest, r.answerTime(i, now))
		}
	}
	return longest
}

// farT is T over a link that has yet to be made.
func (r *roll) farT() time.Duration { return r.timing.DialTime() + r.timing.T() }

// relinking reports whether there is no link, but an ended link is being made again: nothing can be
// acknowledged before that, or before the dial has failed.
func (r *roll) relinking() bool {
	return !r.linked() && anyOf(r.members, (*member).firstDial)
}

// firstDial reports whether a member's link has ended, or was never there, and the first dial since
// is under way: it proves more than silence does.
func (peer *member) firstDial() bool { return peer.anew && peer.dialing && !peer.link }

// othersWork is work of leaderships that may run elsewhere.
type othersWork struct {
	departing   []departing // leaders that were removed and have still to stop
	contestHeld bool        // a contest waits for these, or for a member that leads or drains
}

// departing is a leader that is on the list no more. Its link stays until it has
// stopped, or is gone.
type departing struct {
	id    election.ID
	heard time.Time // when it was last received
	told  time.Time // when it was last notified that it is no member any more
}

// holds notes whether a contest waits for work elsewhere.
func (o *othersWork) holds(contest bool) { o.contestHeld = contest }

// keeps keeps the link to a leader that is on the list no more.
func (o *othersWork) keeps(peer *member) {
	o.departing = append(slices.Clone(o.departing), departing{id: peer.ID, heard: peer.heard})
}

// isDeparting returns where id is among the departing members, negative: nowhere.
func (o *othersWork) isDeparting(id election.ID) int {
	return slices.IndexFunc(o.departing, func(d departing) bool { return d.id == id })
}

// works reports whether a member's work may run: it reported so, and has not been silent since for
// longer than is tolerated.
func (peer *member) works(now time.Time, bears time.Duration) bool {
	return (peer.leads || peer.draining) && !peer.down && now.Sub(peer.saidAt) <= bears
}

// mayLeadOn reports whether it is disputed that a member's process has ended, and a dial that is under way
// or its first report will decide.
func (peer *member) mayLeadOn() bool {
	return peer.proof.disputed == open && (peer.dialing || peer.link)
}

// givesWay reports whether t has ended as its leader sees it, and as the leader reports on an
// existing link, though its work runs. Its beats show when that has stopped: no member need follow
// it until then.
func (r *roll) givesWay(t election.Token, now time.Time) bool {
	i, ok := r.index[t.Leader.ID]
	return ok && r.members[i].link && r.members[i].draining && r.members[i].works(now, r.timing.Bears())
}

// works is the first member that may work; None: there is none.
func (r *roll) works(now time.Time) election.ID {
	for i := range r.members { // this member reports nothing to itself
		if peer := &r.members[i]; peer.works(now, r.timing.Bears()) {
			return peer.ID
		}
	}
	return election.None
}

func anyOf(members []member, such func(*member) bool) bool {
	for i := range members {
		if such(&members[i]) {
			return true
		}
	}
	return false
}

func (r *roll) anyAwaited() bool {
	return anyOf(r.members, func(peer *member) bool { return peer.awaited })
}

// refusedByAll reports whether a member knows a second process with our id, and none has a
// connection to this process.
func (r *roll) refusedByAll() bool {
	return !r.linked() && anyOf(r.members, func(peer *member) bool { return !peer.rebuffedAt.IsZero() })
}

// statement is the order of what a member reports of itself: messages that take different ways
// arrive in any order.
type statement struct{ process, change uint64 }

func (s statement) before(t statement) bool {
	return s.process < t.process || s.process == t.process && s.change < t.change
}

// heardReport takes in what a member reports of itself, and reports so. It does not where a newer
// message has come, or where a relay passes on a message of a different process than the linked one.
func (r *roll) heardReport(i int, msg *election.Message, now time.Time) bool {
	peer := &r.members[i]
	stated := statement{cmp.Or(msg.Process, peer.incarnation), msg.Change}
	if stated.before(peer.stated) || peer.link && stated.process != peer.incarnation {
		return false
	}
	peer.stated = stated
	if reportsCandidate(msg) && (peer.eligibility != msg.Eligibility || msg.Kind == election.Probe) {
		peer.becomesRival(now)
	}
	late := msg.Kind == election.Ack || msg.Kind == election.Members || msg.Kind == election.GetMembers // it may have set out before the contest, or the question
	peer.early = late && (peer.early || peer.eligibility != msg.Eligibility)
	if peer.eligibility != msg.Eligibility || peer.saidAt.IsZero() {
		peer.eligibility = msg.Eligibility
		r.statesChanged()
	}
	peer.leads, peer.draining = msg.Leads, msg.Draining && !r.noDetector
	peer.proof.settle()
	peer.polled, peer.deaf = peer.polled && late, false
	if !late || peer.leads || peer.draining || peer.saidAt.IsZero() {
		peer.saidAt = now
	}
	return true
}

// reportsCandidate reports whether the sender of msg is a candidate, if only among unhealthy members.
func reportsCandidate(msg *election.Message) bool {
	return msg.Eligibility == election.Eligible || msg.Eligibility == election.LastResort
}

// maxTurns is how often a contest is left to the same member. Without a limit, one that becomes a candidate
// often, and never leads, would keep all lower members from leading.
const maxTurns = 3

// becomesRival records that a member may claim from now on, though it was asked before: it is a candidate
// again, or has asked for a leader as one, or has come to outrank this member.
func (peer *member) becomesRival(now time.Time) {
	peer.rivalAt, peer.gaveTurn = now, peer.turns >= maxTurns
}

// takesTurn records that the contest is left to a member.
func (peer *member) takesTurn() {
	peer.gaveTurn = true
	peer.turns++
}

// rebuffs notes that a member refuses this process as removed, or as a different one; a refusal within t
// of the last goes on.
func (peer *member) rebuffs(now time.Time, t time.Duration) {
	if now.Sub(peer.rebuffedAt) > t {
		peer.rebuffFrom = now
	}
	peer.rebuffedAt = now
}

// processIs has what the process at the far end of a new link reports count, from its first message.
func (peer *member) processIs(incarnation uint64) {
	if peer.stated.process != incarnation { // else relays have passed on what it reports
		peer.stated = statement{process: incarnation}
		peer.resets()
	}
}

// resets forgets what a member has reported of itself: its process has ended, or is not received.
func (peer *member) resets() {
	peer.eligibility, peer.leads, peer.draining = peer.Eligibility(), false, false
}

// toldEligibility is what a leader reports of a member's eligibility: nothing before it has
// received it.
func (peer *member) toldEligibility() election.Eligibility {
	if peer.saidAt.IsZero() {
		return ""
	}
	return peer.eligibility.Said()
}

// polling reports whether such an answer is awaited.
func (r *roll) polling() bool {
	return anyOf(r.members, func(peer *member) bool { return peer.polled && !peer.down })
}

// acquainted counts the members that this member receives, itself included.
func (r *roll) acquainted() int {
	n := 1
	for i := range r.members {
		if peer := &r.members[i]; i != r.me && !peer.down && !peer.heard.IsZero() {
			n++
		}
	}
	return n
}

// stale reports whether a link has been idle for so long that its far end may just be closing it:
// what is sent then is lost, so it goes over a new link. The last question keeps the far end from
// that for T.
func (peer *member) stale(now time.Time, timing election.Timing) bool {
	return now.Sub(peer.heard) > timing.T()/2 && now.Sub(peer.Used) > timing.T()-timing.TMax
}

// linked reports whether a connection to any member is open.
func (r *roll) linked() bool {
	return anyOf(r.members, func(peer *member) bool { return peer.link })
}

// outdates reports whether our entry is above the entry by which a member refuses us: it will hold
// when the lists meet.
func (r *roll) outdates(tombstone election.Member) bool {
	own, _ := r.Entry(r.self)
	return tombstone.Version > 0 && own.Version > tombstone.Version
}

// disagree reports whether a member that does not know us, and we know, are both on our list only
// by configuration. The two configurations are an operator's to fix. Otherwise the member that
// admitted us has died before it notified the rest, or they have lost what they knew, or have
// received late that we had once left.
func (r *roll) disagree(peer *member) bool {
	own, _ := r.Entry(r.self)
	return !r.joins && own.Version == 0 && peer.Version == 0
}

// statesChanged has the next heartbeats carry the members' states.
func (r *roll) statesChanged() { r.states.Changed() }

// enlist takes up the member list: what the disk remembers, and what the configuration has. It
// returns the removed members.
func (r *roll) enlist(c Config) (gone []election.Member) {
	own := election.Member{Rank: c.Self, Address: c.Address, Observer: c.Observer}
	if c.Self.Priority != 0 && !c.Joins {
		own.Version, own.Fixed = 1, true // no configuration has it: all are to learn of it
	}
	r.self, r.timing, r.joins, r.noDetector = c.Self.ID, c.Timing, c.Joins, c.NoDetector
	r.roster = roster.New(own, c.State.Members, c.Members)
	r.members = make([]member, 0, len(r.roster.All()))
	for _, e := range r.roster.All() {
		if e.Departure != election.Present && e.ID != c.Self.ID {
			gone = append(gone, e)
			continue
		}
		known := member{Member: e, eligibility: e.Eligibility()}
		if e.ID == c.Self.ID {
			known.Rank, known.incarnation, known.state = c.Self, c.Incarnation, election.StateUp
		}
		r.members = append(r.members, known)
	}
	r.rank()
	return gone
}

// rank puts the members in order after any of their ranks may have changed.
func (r *roll) rank() {
	slices.SortStableFunc(r.members, func(a, b member) int { return a.Compare(b.Rank) })
	r.index = make(map[election.ID]int, len(r.members)) // a clone may share the old map
	r.ranks = make([]election.Rank, len(r.members))
	for i, e := range r.members {
		r.index[e.ID], r.ranks[i] = i, e.Rank
	}
	r.me = r.index[r.self]
}

// enroll adds a member to the list.
func (r *roll) enroll(known member) {
	r.members = append(r.members, known)
	r.rank()
	r.statesChanged()
}

// strike takes a member off.
func (r *roll) strike(i int) {
	r.members = slices.Delete(slices.Clone(r.members), i, i+1)
	r.rank()
	r.statesChanged()
}

// others calls f for every member but this member, highest rank first: the likeliest leader
// receives first.
func (r *roll) others(f func(i int, peer *member)) {
	for i := len(r.members) - 1; i >= 0; i-- {
		if i != r.me {
			f(i, &r.members[i])
		}
	}
}

// List is the member list, tombstones included, in the order of the ids. The caller must not
// change it; it stays the same when the list changes.
func (r *roll) List() []election.Member { return r.roster.All() }

// Knows reports whether id is a member now.
func (r *roll) Knows(id election.ID) bool {
	_, ok := r.index[id]
	return ok
}

// Entry is a member's entry on the list, a tombstone too.
func (r *roll) Entry(id election.ID) (election.Member, bool) { return r.roster.Entry(id) }

// Fits reports whether the list has room for e, in the place of an entry with the same id if there
// is any. An entry that is no larger than before fits.
func (r *roll) Fits(e election.Member) bool { return r.roster.Fits(e) }

// rankOf is what a leader ranks by now: what its token has, unless that was changed on the list
// since.
func (r *roll) rankOf(leader election.Rank) election.Rank {
	if e, _ := r.Entry(leader.ID); e.Version > 0 {
		return e.Rank
	}
	return leader
}

// outnumbered reports whether the members that refuse this member for its secret or its settings
// are more than those on its own side: itself, and the members that are up. A follower has that
// from its leader, its only connection.
//
// Of two sides of equal size the side with the greatest id leads. Both sides know the ids, and
// nothing else of each other: if the side that leads went on, a partition between two that lead
// would end with two leaders, and two that both start would have none. A member that does not lead
// waits first, until the far side's leader has dialed it in vain and has given up: until decided,
// if that is not zero.
func (r *roll) outnumbered(leading bool, now time.Time) (yes bool, decided time.Time) {
	refuse, side := 0, 1
	theirs, ours, since := election.None, r.self, time.Time{}
	r.others(func(_ int, peer *member) {
		switch {
		case peer.refusal == election.ErrForeign:
			refuse, theirs, since = refuse+1, greater(theirs, peer.ID), later(since, peer.refusedAt)
		case peer.state == election.StateUp:
			side, ours = side+1, greater(ours, peer.ID)
		}
	})
	if refuse != side || theirs.Compare(ours) > 0 {
		return refuse >= side, decided
	}
	decided = since.Add(maxBackoff + r.timing.T())
	if leading || !now.Before(decided) {
		return false, time.Time{}
	}
	return true, decided
}

func greater(a, b election.ID) election.ID {
	if a == election.None || b.Compare(a) > 0 {
		return b
	}
	return a
}

// fewRelays is how many a member of a large cluster asks at once; SWIM has three.
const fewRelays = 3

// relays is what a Machine knows of a member that it may reach only by relays.
type relays struct {
	via     election.ID   // the relay of its last message
	viaAt   time.Time     // when; zero: there was none
	pingers []election.ID // the relays that are to pass a question on to it, and have not reported that they cannot
	until   time.Time     // after that it does not answer
	wants   []election.ID // members of which the messages wait for a dial to it
	turn    int           // of the members, which asks next whether it has come back
}

// relayTo is the relay to a member, if that is the way.
func (l *roll) relayTo(to int, now time.Time) (r int, ok bool) {
	peer := &l.members[to]
	if now.Sub(peer.viaAt) > l.farT() || peer.link && !peer.viaAt.After(peer.heard) {
		return 0, false
	}
	r, ok = l.index[peer.via]
	return r, ok && !l.members[r].down
}

// reaches reports whether messages can go to a member, over a link or by a relay.
func (l *roll) reaches(i int, now time.Time) bool {
	_, ok := l.relayTo(i, now)
	return ok || l.members[i].link
}

// passes returns which messages go by relays: all except what a link is kept for.
func passes(k election.MessageKind) bool {
	return k != election.Beat && k != election.Ack && k != election.Members && k != election.GetMembers && k != election.Relay
}

// mayPass reports whether r may be asked to pass something on to i.
func (l *roll) mayPass(r, i int, now time.Time) bool {
	peer := &l.members[r]
	return r != i && r != l.me && !peer.down && (peer.link || now.Sub(peer.missed) > l.timing.T())
}

// allToAsk is every member that may be asked. In a large cluster it is a few with a link: where all
// dial all, as at its birth, each would otherwise ask each for each. The rest get their turn
// singly.
func (l *roll) allToAsk(i int, now time.Time) (by []int) {
	most, large := probeWave, len(l.members) > probeWave+1
	if large {
		most = fewRelays
	}
	l.others(func(r int, peer *member) {
		if l.mayPass(r, i, now) && (peer.link || !large) && len(by) < most {
			by = append(by, r)
		}
	})
	return by
}

// nextToAsk is a single member at a time, only of those with a link.
func (l *roll) nextToAsk(i int, now time.Time) []int {
	peer := &l.members[i]
	for range l.members {
		peer.turn = (peer.turn + 1) % len(l.members)
		if l.mayPass(peer.turn, i, now) && l.members[peer.turn].link {
			return []int{peer.turn}
		}
	}
	return nil
}

// eligibleNext reports whether a member is a candidate once the present leadership has ended: a
// resigned member is then.
func (peer *member) eligibleNext() bool {
	return peer.eligibility == election.Eligible || peer.eligibility == election.StandsNext || peer.eligibility == election.IneligibleResigned || peer.eligibility == election.IneligiblePaused
}

// fit reports whether the heir still can take leadership, as far as is known.
func (r *roll) fit(heir election.ID) bool {
	i, ok := r.index[heir]
	return ok && (i == r.me || !r.members[i].down && r.members[i].eligibleNext())
}
