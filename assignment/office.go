package assignment

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// office is a coordinator's: it lasts for one leadership of the cluster.
type office struct {
	c        *Core
	token    election.Token
	since    time.Time
	settled  bool // whoever may hold anything has told, or has lost it by time
	peers    map[election.ID]*peer
	contests map[string]*contest
	room     []*candidate // see candidates
	names    []string     // of contests, in order; see ordered
	stale    bool         // names is to be made anew
	loads    map[election.ID]int

	floor    uint64          // the least epoch of a name that is new
	todo     map[string]bool // contests that may have a seat to fill
	changed  map[key]bool    // seats to tell of
	drains   bool            // who is drained has changed
	forced   map[election.ID]bool
	moving   map[key]*contest       // seats whose leader was asked for their release
	releases map[election.ID][]Seat // to be asked for
	spent    bool                   // its epoch has no more numbers
	uneven   bool                   // shares are to be looked at
	levelAt  time.Time              // and not before
	checkAt  time.Time
}

// peer is another member, as the coordinator knows it.
type peer struct {
	id          election.ID
	incarnation uint64
	reported    bool      // it has told all
	version     uint64    // of what it has told
	stamp       int64     // its last
	heard       time.Time // when that came
	fit         bool
	down        bool
	askedAt     time.Time // when it was last asked for all
	wants       bool      // it is to be told all,
	has         uint64    // unless the digest of what it has, which this is, says
	differs     bool      // that it need not; with differs it has said that it must
	silent      bool      // it was not heard for so long that all it led is over
	known       bool      // it has told all in this coordinator's time
	names       int       // that it stands for
	seats       map[key]bool
	parts       []claim // of a report that has not come whole
	raise       []Seat
	part        int // its next
	partsOf     reportID
	mentioned   map[string]bool
}

// reportID tells one report of all from another.
type reportID struct{ version, incarnation uint64 }

// contest is one name.
type contest struct {
	name       string
	weight     int
	want       int          // seats
	candidates []*candidate // in order
	seats      []*seat
	last       uint64 // the highest epoch known
}

// candidate is one member's word on one name: the coordinator has as many as names times
// members, so it is kept small.
type candidate struct {
	id     election.ID
	held   uint64 // the epoch under which it holds a seat, or still works; 0: none
	weight int32  // at most MaxWeight
	seats  int8   // at most MaxSeats
	stands bool
	prefer bool
}

type seat struct {
	index    int
	leader   election.ID
	epoch    uint64
	top      uint64      // the highest epoch that anyone is known to have seen it led under
	last     election.ID // who led under epoch, as far as is known
	charged  election.ID // in whose load it counts
	expected bool        // its leader has not told so to this coordinator
	to       election.ID // whom it is meant for next
	avoid    election.ID // who has just given it away
	pin      bool        // its next leader is chosen by hand
	pinned   bool
	asked    time.Time // when its leader was asked to release it; zero: it was not
	why      string    // of that
	cause    election.Cause
}

// takeOffice has this member coordinate, from what it knows as a follower.
func (c *Core) takeOffice(t election.Token) {
	o := &office{c: c, token: t, since: c.now, peers: map[election.ID]*peer{}, contests: make(map[string]*contest, len(c.names)), loads: map[election.ID]int{},
		todo: map[string]bool{}, changed: map[key]bool{}, forced: map[election.ID]bool{}, moving: map[key]*contest{}, releases: map[election.ID][]Seat{}}
	o.floor = min(t.Epoch, maxEpoch>>EpochBits-2) << EpochBits
	c.office, c.version = o, 1
	c.table.of = t
	for _, m := range c.Members() {
		if m.ID != c.self {
			o.peer(m.ID).down = m.State == election.StateDown && !c.leased
		}
	}
	for _, s := range c.list() {
		k := o.contest(s.Name)
		k.last = max(k.last, s.Epoch)
		if s.Leader == election.None {
			k.seat(s.Seat).epoch = s.Epoch
			continue
		}
		at := k.seat(s.Seat)
		at.epoch, at.pinned, at.expected = s.Epoch, s.Pinned, true
		o.seatAt(k, at, s.Leader)
	}
	o.claimedAll(c.claimsOf(nil))
	c.allTold()
	o.notHeld(c.self)
	o.checkAt = c.now.Add(c.timing.T() / 2)
	o.settle()
	c.flushSoon()
}

func (o *office) peer(id election.ID) *peer {
	p := o.peers[id]
	if p == nil {
		p = &peer{id: id, seats: map[key]bool{}}
		o.peers[id] = p
	}
	return p
}

func (o *office) contest(name string) *contest {
	k := o.contests[name]
	if k == nil {
		k = &contest{name: name, weight: 1, want: 1}
		o.contests[name] = k
		o.stale = true
	}
	return k
}

// ordered are all names, in order.
func (o *office) ordered() []string {
	if o.stale {
		o.names, o.stale = slices.Sorted(maps.Keys(o.contests)), false
	}
	return o.names
}

// candidate is a member as a candidate; nil: it is none.
func (k *contest) candidate(id election.ID) *candidate {
	for _, can := range k.candidates {
		if can.id == id {
			return can
		}
	}
	return nil
}

// enters makes a member a candidate.
func (o *office) enters(k *contest, id election.ID) *candidate {
	if k.candidates == nil {
		k.candidates = make([]*candidate, 0, len(o.peers)+1) // most stand for it, as a rule
	}
	can := &candidate{id: id}
	at, _ := slices.BinarySearchFunc(k.candidates, id, func(c *candidate, id election.ID) int { return c.id.Compare(id) })
	k.candidates = slices.Insert(k.candidates, at, can)
	return can
}

// seat gives one seat of a contest, and makes it if need be.
func (k *contest) seat(i int) *seat {
	for len(k.seats) <= i {
		k.seats = append(k.seats, &seat{index: len(k.seats)})
	}
	return k.seats[i]
}

// seatAt has a seat belong to a member, in the books.
func (o *office) seatAt(k *contest, s *seat, id election.ID) {
	if p := o.peers[s.leader]; p != nil {
		delete(p.seats, key{k.name, s.index})
	}
	s.leader = id
	if id != election.None {
		s.last = id
	}
	if id != election.None && id != o.c.self {
		o.peer(id).seats[key{k.name, s.index}] = true
	}
	o.charge(k, s, id)
}

// charge has a seat count in a member's load.
func (o *office) charge(k *contest, s *seat, id election.ID) {
	if s.charged != election.None {
		o.loads[s.charged] -= k.weight
	}
	if s.charged = id; id != election.None {
		o.loads[id] += k.weight
	}
}

// want has a contest looked at.
func (o *office) want(k *contest) {
	o.todo[k.name] = true
	o.c.flushSoon()
}

// reconsider has all looked at for which a member stands.
func (o *office) reconsider(id election.ID) {
	for name, k := range o.contests {
		if k.candidate(id) != nil {
			o.todo[name] = true
		}
	}
	o.uneven = true
	o.c.flushSoon()
}

// vacate has nobody lead a seat: nothing of its last leader's runs any more.
func (o *office) vacate(k *contest, s *seat, cause election.Cause) {
	at := key{k.name, s.index}
	o.seatAt(k, s, election.None)
	delete(o.moving, at)
	s.expected, s.asked, s.cause, s.pinned = false, time.Time{}, cause, false
	o.changed[at] = true
	o.uneven = true
	o.want(k)
}

// notHeld frees what a member was expected to hold, and has not told of.
func (o *office) notHeld(id election.ID) {
	if id == o.c.self {
		for _, k := range o.contests {
			for _, s := range k.seats {
				if s.leader == id && s.expected {
					o.vacate(k, s, election.CauseResigned)
				}
			}
		}
		return
	}
	p := o.peers[id]
	for _, at := range slices.SortedFunc(maps.Keys(p.seats), byKey) {
		k := o.contests[at.name]
		if s := k.seat(at.seat); s.expected {
			o.vacate(k, s, election.CauseResigned)
		}
	}
}

// forget has what a member still works for hold up nobody: it is not heard any more.
func (o *office) forget(id election.ID) {
	for _, k := range o.contests {
		if can := k.candidate(id); can != nil && can.held > 0 {
			can.held = 0
			o.want(k)
		}
	}
}

// free takes everything from a member that cannot lead any more.
func (o *office) free(p *peer, why string, cause election.Cause) {
	if len(p.seats) == 0 {
		return
	}
	o.c.note("frees", "", p.id, election.Token{}, why)
	for _, at := range slices.SortedFunc(maps.Keys(p.seats), byKey) {
		k := o.contests[at.name]
		if can := k.candidate(p.id); can != nil {
			can.held = 0
		}
		o.vacate(k, k.seat(at.seat), cause)
	}
}

// stateOf takes note of a member's state.
func (o *office) stateOf(id election.ID, s election.MemberState) {
	p := o.peer(id)
	switch s {
	case election.StateUp:
		if p.known && !p.reported {
			o.ask(p)
		}
		o.reconsider(id)
	case election.StateDown:
		o.gone(id)
	}
}

// gone: a member's process is gone. Under a lease only time tells that its leads are.
func (o *office) gone(id election.ID) {
	if p := o.peer(id); !o.c.leased {
		p.down, p.reported = true, false
		o.forget(id)
		o.free(p, "its process is gone", election.CauseCrashed)
		o.settle()
		o.reconsider(id)
	}
}

// settle ends the time in which what others hold is not known.
func (o *office) settle() {
	if o.settled {
		return
	}
	if o.c.now.Sub(o.since) <= o.c.wait {
		if o.c.leased && len(o.peers) > 0 {
			return
		}
		for _, m := range o.c.Members() {
			if p := o.peers[m.ID]; m.ID != o.c.self && !(p != nil && (p.reported || p.down)) {
				return
			}
		}
	}
	o.settled = true
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		if p := o.peers[id]; !p.reported {
			o.free(p, "it has not told what it holds", election.CauseSilent)
		}
	}
	o.uneven = true
	o.c.flushSoon()
}

// stalled: this process was stopped, and does not know who was silent meanwhile.
func (o *office) stalled() {
	for _, p := range o.peers {
		p.heard = o.c.now
	}
}

// check does what is due now and then.
func (o *office) check() {
	o.checkAt = o.c.now.Add(o.c.timing.T() / 2)
	o.settle()
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		p := o.peers[id]
		if p.reported && o.c.now.Sub(p.heard) > o.c.wait && !p.silent {
			p.silent = true
			o.forget(id)
			o.free(p, "it was silent for too long", election.CauseSilent)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(o.moving), byKey) {
		k := o.moving[at]
		if s := k.seat(at.seat); o.c.now.Sub(s.asked) > o.c.timing.T() {
			s.asked = o.c.now
			o.askRelease(k, s)
		}
	}
	if o.uneven || len(o.todo) > 0 {
		o.c.flushSoon()
	}
}

func (o *office) note(what string, k *contest, s *seat, id election.ID, epoch uint64, why string) {
	o.c.note(what, k.name, id, election.Token{Epoch: epoch, Leader: election.Rank{ID: id}}, why)
}

func byKey(a, b key) int {
	return bySeat(Seat{Name: a.name, Seat: a.seat}, Seat{Name: b.name, Seat: b.seat})
}
