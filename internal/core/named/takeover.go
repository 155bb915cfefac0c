package named

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file begins a coordinator's time, and ends it.

// newOffice has this member coordinate, from what it knows as a follower.
func newOffice(m *member, last *former, t election.Token) *office {
	o := &office{member: m, former: last, token: t, since: m.now, me: &peer{id: m.self, incarnation: m.incarnation}, peers: map[election.ID]*peer{}, releases: map[election.ID][]Seat{}}
	o.floor = min(t.Epoch, maxEpoch>>EpochBits-2) << EpochBits
	m.version = 1
	m.welcome()
	for _, v := range m.Members() {
		if v.ID != m.self {
			o.peerOf(v.ID).down = v.State == election.StateDown && !m.leased
		}
	}
	o.takeOver()
	o.checkAt = o.now.Add(o.timing.T() / 2)
	o.reportedAll(o.me, o.filled(o.shortest()))
	o.allTold()
	return o
}

// takeOver begins with the assignments that there are. All that is needed for them is made at
// once: nothing is assigned meanwhile.
func (o *office) takeOver() {
	list, names, most := o.table.ordered(), len(o.names), len(o.peers)+1 // most are candidates for it, as a rule
	o.contests = contests{byName: make(map[string]*contest, names), order: make([]*contest, names)}
	contests, candidates := make([]contest, names), make([]candidate, names*most)
	seats, theirs := make([]seat, len(list)), make([]*seat, len(list))
	for i := range contests {
		k, n := &contests[i], 1
		for n < len(list) && list[n].Name == list[0].Name {
			n++
		}
		k.name, k.weight, k.want, k.entry = list[0].Name, 1, 1, list[0]
		k.candidates, k.seats = candidates[:0:most], theirs[:0:n]
		for j, e := range list[:n] {
			if e.Seat.Seat == j {
				seats[j].index = j
				k.seats = append(k.seats, &seats[j])
			}
			o.takeSeat(k, e)
		}
		o.contests.byName[k.name], o.contests.order[i] = k, k
		list, candidates, seats, theirs = list[n:], candidates[most:], seats[n:], theirs[n:]
	}
}

func (o *office) takeSeat(k *contest, e *entry) {
	s := k.seat(e.Seat.Seat)
	s.epoch, k.last = e.Epoch, max(k.last, e.Epoch)
	if e.Leader != election.None {
		s.pinned, s.expected = e.Pinned, true
		o.seatAt(k, s, e.Leader)
	}
}

// former is the last coordinator that has resigned, and what it has sent about holders.
type former struct {
	*ground
	closed map[election.ID]uint64 // the last process of each member that closed, and leads nothing

	epoch uint64    // of its leadership; 0: none has resigned
	at    time.Time // when that arrived
	ended *frame    // what it has sent
}

// hears applies what a coordinator that resigns has sent about holders.
func (last *former) hears(m *election.Message) {
	if !last.leased || !last.Knows(m.From) || m.From == last.self || m.Election != last.election || m.Token.Leader.ID != m.From || m.Token.Epoch <= last.epoch {
		return
	}
	if f, err := decode(m.Data); err == nil && f.Op == opEnded {
		last.epoch, last.at, last.ended = m.Token.Epoch, last.now, f
		maps.DeleteFunc(last.closed, func(id election.ID, _ uint64) bool { return !last.Knows(id) })
	}
}

// remains is what may still be held under a coordinator that resigns. Under a lease that is
// final: it confirms no lead from now on, and its epoch has no further leadership.
func (o *office) remains() *frame {
	f := &frame{Op: opEnded, Wait: o.settles()}
	if !o.settled {
		f.Rest = max(o.over().Sub(o.now), 0)
	}
	if len(o.holds) > 0 {
		f.Holders = append(f.Holders, holder{ID: o.self, Incarnation: o.incarnation, Left: f.Wait})
	}
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		p := o.peers[id]
		if left := p.heard.Add(f.Wait).Sub(o.now); p.reported && !p.silent && left > 0 {
			f.Holders = append(f.Holders, holder{ID: id, Incarnation: p.incarnation, Left: left})
		}
	}
	return f
}

// reportWaits is for how many times as long as a lead lasts a new coordinator confirms members
// that have not reported.
const reportWaits = 2

// confirms reports whether what a member leads lasts on under this coordinator. Until all is
// settled a member that is received does not need to have reported: a report of many names takes
// time.
func (o *office) confirms(p *peer) bool {
	return p.reported || p.stamp > 0 && !p.down && !o.settled && o.now.Sub(o.since) <= reportWaits*o.wait
}

// over is when members that have not reported to a coordinator hold nothing any more: what it
// has confirmed meanwhile is over, and what earlier coordinators have.
func (o *office) over() time.Time {
	at := o.former.over(o)
	for _, p := range o.peers {
		if p.reported || p.down || p.stamp == 0 {
			continue
		}
		confirmed := min(p.heard.Sub(o.since), reportWaits*o.wait)
		if last := o.since.Add(confirmed + o.wait); last.After(at) {
			at = last
		}
	}
	return at
}

// over is when members that have not reported to a coordinator hold nothing any more of what
// earlier coordinators have confirmed.
//
// Earlier coordinators have confirmed no lead since this coordinator's lease began: the time
// that a lead lasts, counted from then, is enough. Less is enough if the coordinator of the
// epoch before has resigned: there was none between the two. Beyond what that coordinator
// waited for, only those that it has confirmed can hold anything. They have reported to this
// coordinator, or their time has an end.
func (last *former) over(o *office) time.Time {
	own := o.since.Add(o.settles())
	if !o.leased || last.epoch == 0 || last.epoch+1 != o.token.Epoch {
		return own
	}
	left := last.ended.Rest
	for _, h := range last.ended.Holders {
		if process, closed := last.closed[h.ID]; closed && process == h.Incarnation {
			continue
		}
		if p := o.who(h.ID); p == nil || !p.reported || p.incarnation != h.Incarnation {
			left = max(left, h.Left)
		}
	}
	longer := max(o.settles()-last.ended.Wait, 0) // it may have counted by shorter times
	if at := last.at.Add(left + longer); at.Before(own) {
		return at
	}
	return own
}
