package named

import (
	"maps"
	"math"
	"slices"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/codec"
)

// MaxHandovers is how many names may be handed over at a time for the sake of shares: the next
// begin as these end.
const MaxHandovers = 256

// MaxFills is how many seats a step fills, about as many as a message has. The next goes on: a
// coordinator that is busy for T is replaced.
const MaxFills = 2048

// fit reports whether a member may be given anything now.
func (o *office) fit(id election.ID) bool {
	if o.isDrained(id) {
		return false
	}
	if id == o.self {
		return o.member.fit
	}
	p := o.peers[id]
	return p != nil && p.reported && p.fit && o.now.Sub(p.heard) <= o.wait && p.over.Before(o.now) && o.Knows(id)
}

// refit refreshes which members are fit: each candidate of each name is asked for that.
func (o *office) refit() {
	o.me.able = o.fit(o.self)
	for id, p := range o.peers {
		p.able = o.fit(id)
	}
}

// fill gives the seats of a contest that have no leader, and returns how many it has given.
func (o *office) fill(k *contest) (filled int) {
	room := k.want - k.busy()
	for i := 0; i < k.want && room > 0; i++ {
		s := k.seat(i)
		if s.leader != election.None {
			continue
		}
		can := o.contests.best(k, s)
		if can == nil {
			break
		}
		o.assign(k, s, can.of.id)
		filled, room = filled+1, room-1
	}
	return filled
}

// assign gives a seat that has no leader.
func (o *office) assign(k *contest, s *seat, id election.ID) {
	next := max(k.last+1, o.floor)
	if next >= (min(o.token.Epoch, maxEpoch>>EpochBits-2)+1)<<EpochBits {
		if !o.full { // the next epoch has more
			o.full = true
			o.note("resigns", "", o.self, o.token, "its epoch has no more numbers for names")
		}
		return
	}
	why := s.why
	switch {
	case why != "":
	case s.epoch == 0:
		why = "it is new"
	default:
		why = "its last leader's time has ended"
		if s.cause != "" { // known to a coordinator that saw the end
			why += ": " + string(s.cause)
		}
	}
	o.noteName("assigns", k.name, id, next, why)
	k.last, s.epoch = next, next
	s.pinned = s.pin && (s.to == id || s.to == election.None && s.avoid != id)
	s.decided()
	o.seatAt(k, s, id)
	o.changes(k, s)
	o.uneven = true
}

// release has the leader of a seat asked to end its work.
func (o *office) release(k *contest, s *seat, why string) {
	if s.leader == election.None || !s.asked.IsZero() {
		return
	}
	s.asked, s.why = o.now, why
	o.moving++
	o.noteName("hands over", k.name, s.leader, s.epoch, why)
	o.askRelease(k, s)
}

func (o *office) askRelease(k *contest, s *seat) {
	at := Seat{Name: k.name, Seat: s.index, Leader: s.leader, Epoch: s.epoch}
	if s.leader != o.self {
		o.releases[s.leader] = append(o.releases[s.leader], at)
		o.flushSoon()
		return
	}
	if h := o.heldAs(at); h != nil {
		o.lose(k.name, h, election.CauseResigned)
	}
}

// level hands names over to better leaders: from a member that is drained or not preferred, or
// whose share exceeds a further candidate's by more than the heaviest name. It looks at each
// name once, and begins so many hand-overs as may be under way.
func (o *office) level() {
	if !o.uneven || o.now.Before(o.levelAt) || o.moving >= MaxHandovers && len(o.drained) == 0 {
		return
	}
	o.levelAt = o.now.Add(o.timing.Heartbeat / 10)
	if o.even() {
		o.uneven = false
		return
	}
	before, limits := o.moving, []int{math.MaxInt, o.mean(), 0} // preference comes first, and last a member that cannot lead everything
	if !o.choosy {
		limits = limits[1:]
	}
	for _, least := range limits {
		if !o.levelAll(least) || o.moving > before {
			return // the rest when these have ended
		}
	}
	o.uneven = false
}

// even reports whether the shares by themselves prove that levelAll would find nothing.
func (o *office) even() bool {
	low, high := o.me.load, o.me.load
	for _, p := range o.peers {
		if high = max(high, p.load); p.able {
			low = min(low, p.load)
		}
	}
	return !o.choosy && len(o.drained) == 0 && high-low <= 1
}

// mean is the share of each that may lead, were all alike.
func (o *office) mean() int {
	sum, members := o.me.load, 0
	if o.me.able {
		members++
	}
	for _, p := range o.peers {
		sum += p.load
		if p.able {
			members++
		}
	}
	return sum / max(members, 1)
}

// levelAll looks at each seat, from where it stopped, and takes shares down to least. It is false
// if there were too many hand-overs to get through. What a drained member leads does not wait for
// those.
func (o *office) levelAll(least int) bool {
	heaviest, all, list, from := 0, true, o.contests.ordered(), o.levelFrom
	for _, k := range list {
		if slices.ContainsFunc(k.seats, func(s *seat) bool { return s.leader != election.None }) {
			heaviest = max(heaviest, k.weight)
		}
	}
	for i := range list {
		k := list[(from+i)%len(list)]
		if o.moving >= MaxHandovers && len(o.drained) == 0 {
			o.levelFrom = from + i
			return false // the rest when these have ended
		}
		for _, s := range k.worstFirst(o.isDrained) {
			if o.moving >= MaxHandovers && !o.isDrained(s.leader) {
				all = false
			} else if s.leader != election.None && s.asked.IsZero() && !s.expected {
				o.levelSeat(k, s, heaviest, least)
			}
		}
	}
	return all
}

func (o *office) levelSeat(k *contest, s *seat, heaviest, least int) {
	if s.index >= k.want {
		o.release(k, s, "it has fewer seats")
		return
	}
	leader, drained := k.leader(s), o.isDrained(s.leader)
	if !drained && (s.pinned || leader == nil || !leader.stands || !o.choosy && leader.of.load-k.weight < least) {
		return
	}
	to := leastLoaded(slices.DeleteFunc(o.contests.candidates(k, nil), func(can *candidate) bool {
		return k.comes(can.of.id) // it can lead one
	}))
	switch {
	case drained:
		if to != nil || o.drained[s.leader] {
			o.move(k, s, to, "its leader is drained")
		}
	case to == nil:
	case to.prefer && !leader.prefer:
		o.move(k, s, to, "another is preferred")
	case to.prefer == leader.prefer && leader.of.load-to.of.load > heaviest && leader.of.load-k.weight >= least:
		o.move(k, s, to, "its leader's share is too large")
	}
}

// move hands a seat over to a candidate; nil: to none.
func (o *office) move(k *contest, s *seat, to *candidate, why string) {
	s.to = election.None
	if to != nil {
		s.to = to.of.id
		o.charge(k, s, to.of)
	}
	o.release(k, s, why)
}

// flush decides, and sends the members what concerns them.
func (o *office) flush() {
	o.own()
	rest := 0
	if o.settled {
		o.refit()
		now, done := o.wanted(), 0
		for filled := 0; done < len(now) && filled < MaxFills; done++ {
			filled += o.fill(now[done])
		}
		if rest = len(now) - done; rest == 0 {
			o.level()
		}
		for _, k := range now[:done] {
			k.todo = false
			o.dissolve(k)
		}
		if o.todo = o.todo[done:]; rest == 0 {
			o.todo = nil
		}
	}
	o.own()
	o.publish()
	if rest > 0 {
		o.flushAt = o.now
	} else if o.uneven && o.moving < MaxHandovers && o.settled {
		o.flushAt = o.levelAt
	}
}

// own applies this member's own report.
func (o *office) own() {
	for len(o.dirty) > 0 {
		claims := o.claimsOf(o.dirty)
		o.allTold()
		o.takes(o.me, o.filled(frame{}, claims))
	}
}

// dissolve forgets a name without candidates and leaders.
func (o *office) dissolve(k *contest) {
	if len(k.candidates) > 0 || slices.ContainsFunc(k.seats, func(s *seat) bool { return s.leader != election.None }) {
		return
	}
	o.floor = max(o.floor, k.last+1)
	o.contests.drop(k)
	for _, s := range k.seats {
		o.changes(k, s)
	}
}

// publish sends the members which assignments have changed: each in order, the whole to those
// that need it.
func (o *office) publish() {
	list := make([]Seat, 0, len(o.changed))
	slices.SortFunc(o.changed, byName)
	for _, k := range o.changed {
		k.changed = false
		for _, s := range k.seats {
			if s.changed {
				s.changed = false
				list = append(list, o.seatEntry(key{k.name, s.index}))
			}
		}
	}
	o.changed = nil
	base, had := o.version, o.digest
	if len(list) > 0 || o.drains {
		o.learnAll(list)
		o.version++
		o.drains = false
	}
	deltas := parts(list, o.partBytes, seatSize)
	if o.version == base {
		deltas = nil
	}
	o.version += uint64(max(len(deltas)-1, 0))
	news, whole := encodeEach(deltas), []codec.Raw(nil)
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		p := o.peers[id]
		switch {
		case !p.reported:
		case p.wants && (p.has != had || p.differs):
			if whole == nil {
				whole = encodeEach(parts(o.seatList(), o.partBytes, seatSize))
			}
			for i, list := range whole {
				o.send(id, p.addressed(&frame{Op: opAssign, Version: o.version, Whole: true, Part: i, Parts: len(whole), encoded: list, Drained: o.Drained(), Forced: o.forcedList()}))
			}
		default:
			if p.wants { // it has what there was
				o.send(id, p.addressed(&frame{Op: opSame, Version: base, Digest: had}))
			}
			for i, list := range news {
				from := base + uint64(i)
				o.send(id, p.addressed(&frame{Op: opAssign, Base: from, Version: from + 1, encoded: list, Drained: o.Drained(), Forced: o.forcedList()}))
			}
		}
		p.wants = false
		if p.reported && len(o.releases[id]) > 0 {
			for _, list := range parts(o.releases[id], o.partBytes, seatSize) {
				o.send(id, p.addressed(&frame{Op: opRelease, Seats: list}))
			}
		}
	}
	clear(o.releases)
}

// addressed has a frame be for the process that has reported. Another process may have its place by now,
// which has none of what this process led.
func (p *peer) addressed(f *frame) *frame {
	f.Echo, f.Incarnation = p.echo, p.incarnation
	return f
}

// seatEntry is a seat as members receive it.
func (o *office) seatEntry(at key) Seat {
	k := o.contests.byName[at.name]
	if k == nil || at.seat >= len(k.seats) || at.seat >= k.want && k.seats[at.seat].leader == election.None {
		return Seat{Name: at.name, Seat: at.seat, Gone: true}
	}
	s := k.seats[at.seat]
	return Seat{Name: at.name, Seat: at.seat, Leader: s.leader, Epoch: s.epoch, Pinned: s.pinned, Cause: s.cause}
}
