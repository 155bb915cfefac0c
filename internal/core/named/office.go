package named

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// office is the state of a coordinator: it lasts for a leadership of the cluster.
type office struct {
	*member
	former   *former
	token    election.Token
	since    time.Time
	settled  bool       // each member that may hold anything has reported, or has lost it by time
	early    []question // not answered yet
	me       *peer      // this member, which is not among peers
	peers    map[election.ID]*peer
	contests contests

	floor     uint64                 // the least epoch of a name that is new
	todo      []*contest             // that may have a seat to fill
	changed   []*contest             // with seats to publish
	drains    bool                   // the drained members have changed
	moving    int                    // how many seats their leader was asked to release
	releases  map[election.ID][]Seat // to be asked for
	full      bool                   // its epoch has no more numbers
	uneven    bool                   // shares are to be looked at
	levelAt   time.Time              // and not before
	levelFrom int                    // the contest at which to go on
	choosy    bool                   // some candidate is preferred, or some name has several seats
	checkAt   time.Time
	reports   uint64 // of all that members have made
}

// peer is a member, as the coordinator knows it.
type peer struct {
	id          election.ID
	incarnation uint64
	reported    bool      // its full report has arrived
	over        time.Time // with another process in its place, when all that this one led is over
	version     uint64    // of its last report
	stamp       int64     // its last
	echo        int64     // the same, if it is of the process that is connected; else 0
	heard       time.Time // when that came
	fit         bool
	down        bool
	askedAt     time.Time // when it was last asked for all
	wants       bool      // it needs everything,
	has         uint64    // unless the digest of what it has, which this is,
	differs     bool      // matches; differs: it has reported that it does not
	silent      bool      // nothing was received for so long that all it led is over
	names       int       // of which it is a candidate
	leads       int       // seats that it leads
	load        int       // what those cost it, and what it is meant to lead
	able        bool      // see refit
	report      parcel    // a full one, on its way here
	asked       asked     // its last request
	early       int       // how many requests of it have waited
}

func (o *office) peerOf(id election.ID) *peer {
	p := o.peers[id]
	if p == nil {
		p = &peer{id: id}
		o.peers[id] = p
	}
	return p
}

// the members, this member too; nil: not known.
func (o *office) who(id election.ID) *peer {
	if id == o.self {
		return o.me
	}
	return o.peers[id]
}

// seatAt has a seat belong to a member, in the books. Its last leader is asked for it no more.
func (o *office) seatAt(k *contest, s *seat, id election.ID) {
	if p := o.who(s.leader); p != nil {
		p.leads--
	}
	if !s.asked.IsZero() {
		s.asked = time.Time{}
		o.moving--
	}
	var to *peer
	o.choosy = o.choosy || s.index > 0
	if s.leader = id; id != election.None {
		s.last = id
		if to = o.me; id != o.self {
			to = o.peerOf(id)
		}
		to.leads++
	}
	o.charge(k, s, to)
}

// charge has a seat count in a member's load; nil: in no load.
func (o *office) charge(k *contest, s *seat, p *peer) {
	if s.charged != nil {
		s.charged.load -= k.weight
	}
	if s.charged = p; p != nil {
		p.load += k.weight
	}
}

// lookAt has a contest looked at by the next flush.
func (o *office) lookAt(k *contest) {
	if !k.todo {
		k.todo = true
		o.todo = append(o.todo, k)
	}
	o.flushSoon()
}

// wanted are the contests to be looked at, by name.
func (o *office) wanted() []*contest {
	if len(o.todo) < len(o.contests.byName)/8 {
		slices.SortFunc(o.todo, byName)
		return o.todo
	}
	o.todo = o.todo[:0]
	for _, k := range o.contests.ordered() {
		if k.todo {
			o.todo = append(o.todo, k)
		}
	}
	return o.todo
}

// reconsider marks for a check each name of which a member is a candidate.
func (o *office) reconsider(p *peer) {
	for _, k := range o.contests.ordered() {
		if !k.todo && k.candidate(p) != nil {
			o.lookAt(k)
		}
	}
	o.uneven = true
	o.flushSoon()
}

// vacate leaves a seat without a leader: nothing of its last leader's runs any more.
func (o *office) vacate(k *contest, s *seat, cause election.Cause) {
	o.seatAt(k, s, election.None)
	s.expected, s.cause, s.pinned = false, cause, false
	o.changes(k, s)
	o.uneven = true
	o.lookAt(k)
}

// changes marks a seat as to be published.
func (o *office) changes(k *contest, s *seat) {
	if s.changed = true; !k.changed {
		k.changed = true
		o.changed = append(o.changed, k)
	}
}

// notHeld frees what a member was expected to hold, and has not reported.
func (o *office) notHeld(p *peer) {
	for _, k := range o.contests.ordered() {
		for _, s := range k.seats {
			if s.expected && s.leader == p.id {
				o.vacate(k, s, election.CauseResigned)
			}
		}
	}
}

// free takes everything from a member that cannot lead any more, and waits no longer for its work.
func (o *office) free(p *peer, why string, cause election.Cause) {
	if p.leads > 0 {
		o.note("frees", "", p.id, election.Token{}, why)
	}
	for _, k := range o.contests.ordered() {
		if can := k.candidate(p); can != nil && can.held > 0 {
			o.lookAt(k)
		}
		for _, s := range k.seats {
			if s.leader == p.id {
				o.vacate(k, s, cause)
			}
		}
	}
}

// stateOf takes note of a member's state. Under a lease only time ends its leads.
func (o *office) stateOf(id election.ID, s election.MemberState) {
	p := o.peerOf(id)
	switch {
	case s == election.StateUp:
		o.reconsider(p)
	case s == election.StateDown && !o.leased:
		p.down, p.reported, p.able = true, false, false
		o.free(p, "its process has ended", election.CauseCrashed)
		o.settle()
		o.reconsider(p)
	}
}

// settle ends the time in which it is not known what members hold.
func (o *office) settle() {
	if o.settled {
		return
	}
	if !o.now.After(o.over()) {
		if o.leased { // a member that was removed may hold what it led, so a member without peers waits too
			return
		}
		for _, m := range o.Members() {
			if p := o.who(m.ID); !(p != nil && (p.reported || p.down)) {
				return
			}
		}
	}
	o.settled = true
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		if p := o.peers[id]; !p.reported {
			o.free(p, "it has not reported what it holds", election.CauseSilent)
		}
	}
	o.uneven = true
	o.flushAt = o.now
}

// stalled handles a stop of this process, which does not know which members were silent meanwhile.
func (o *office) stalled() {
	for _, p := range o.peers {
		if !p.silent {
			p.heard = o.now
		}
	}
}

// check does what is due now and then.
func (o *office) check() {
	o.checkAt = o.now.Add(o.timing.T() / 2)
	o.settle()
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		p := o.peers[id]
		if p.reported && o.now.Sub(p.heard) > o.wait && !p.silent {
			p.silent = true
			o.free(p, "it was silent for too long", election.CauseSilent)
		}
		if o.settled && !o.Knows(id) && (p.silent || !p.reported) { // it holds nothing
			for _, k := range o.contests.ordered() {
				if k.candidate(p) != nil {
					o.claims(k, p, claim{Name: k.name})
				}
			}
			delete(o.peers, id)
		}
	}
	for _, id := range o.Drained() {
		if o.settled && !o.Knows(id) && o.peers[id] == nil {
			o.undrain(id)
		}
	}
	if o.moving > 0 {
		for _, k := range o.contests.ordered() {
			for _, s := range k.seats {
				if !s.asked.IsZero() && o.now.Sub(s.asked) > o.timing.T() {
					s.asked = o.now
					o.askRelease(k, s)
				}
			}
		}
	}
	if o.uneven || len(o.todo) > 0 {
		o.flushSoon()
	}
}
