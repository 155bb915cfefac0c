package named

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file begins a coordinator's time, and ends it.

// takeOffice has this member coordinate, from what it knows as a follower.
func (c *Core) takeOffice(t election.Token) {
	o := &office{c: c, token: t, since: c.now, me: &peer{id: c.self, incarnation: c.incarnation}, peers: map[election.ID]*peer{},
		moving: map[key]*contest{}, releases: map[election.ID][]Seat{}}
	o.floor = min(t.Epoch, maxEpoch>>EpochBits-2) << EpochBits
	c.office, c.version = o, 1
	c.table.of = t
	for _, m := range c.Members() {
		if m.ID != c.self {
			o.peerOf(m.ID).down = m.State == election.StateDown && !c.leased
		}
	}
	o.takeOver()
	o.tellsItself()
	c.allTold()
	o.notHeld(o.me)
	o.checkAt = c.now.Add(c.timing.T() / 2)
	o.settle()
	c.flushSoon()
}

// takeOver begins with the assignments that there are. All that is needed for them is made at
// once: nothing is assigned meanwhile.
func (o *office) takeOver() {
	list, names, most := o.c.table.ordered(), len(o.c.names), len(o.peers)+1 // most stand for it, as a rule
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

// informClosed informs all members when this process closes and leads nothing any more: it may end
// before there is a coordinator that it could report that to.
func (c *Core) informClosed() {
	if !c.closes || !c.leased || len(c.holds) > 0 || len(c.spent) == 0 {
		return
	}
	c.closes = false
	for _, m := range c.Members() {
		if m.ID != c.self {
			c.send(m.ID, &frame{Op: opClosed, Incarnation: c.incarnation})
		}
	}
}

// former is a coordinator that has resigned, and what it has sent about holders.
type former struct {
	epoch uint64    // of its leadership
	at    time.Time // when that arrived
	*frame
}

// remains is what may still be held under a coordinator that resigns. Under a lease that is
// final: it confirms no lead from now on, and its epoch has no further leadership.
func remains(o *office) *frame {
	c := o.c
	f := &frame{Op: opEnded, Wait: c.settles()}
	if !o.settled {
		f.Rest = max(c.former.over(o).Sub(c.now), 0)
	}
	if len(c.holds) > 0 || o.spent { // spent: it may be given more in this step
		f.Holders = append(f.Holders, holder{ID: c.self, Incarnation: c.incarnation, Left: f.Wait})
	}
	for _, id := range slices.Sorted(maps.Keys(o.peers)) {
		p := o.peers[id]
		if left := p.heard.Add(f.Wait).Sub(c.now); p.reported && !p.silent && left > 0 {
			f.Holders = append(f.Holders, holder{ID: id, Incarnation: p.incarnation, Left: left})
		}
	}
	return f
}

// hears applies what a coordinator that resigns has sent about holders.
func (last *former) hears(c *Core, m *election.Message) {
	if !c.leased || !c.Knows(m.From) || m.From == c.self || m.Election != c.election || m.Token.Leader.ID != m.From || m.Token.Epoch <= last.epoch {
		return
	}
	if f, err := decode(m.Data); err == nil && f.Op == opEnded {
		*last = former{m.Token.Epoch, c.now, &frame{Wait: f.Wait, Rest: f.Rest, Holders: f.Holders}}
		maps.DeleteFunc(c.closed, func(id election.ID, _ uint64) bool { return !c.Knows(id) })
	}
}

// over is when members that have not reported to a coordinator hold nothing any more.
//
// Earlier coordinators have confirmed no lead since this coordinator's lease began: the time
// that a lead lasts, counted from then, is enough. Less is enough if the coordinator of the
// epoch before has resigned: there was none between the two. Beyond what that coordinator
// waited for, only those that it has confirmed can hold anything. They have reported to this
// coordinator, or their time has an end.
func (last *former) over(o *office) time.Time {
	c := o.c
	own := o.since.Add(c.settles())
	if !c.leased || last.epoch == 0 || last.epoch+1 != o.token.Epoch {
		return own
	}
	left := last.Rest
	for _, h := range last.Holders {
		if process, closed := c.closed[h.ID]; closed && process == h.Incarnation {
			continue
		}
		if p := o.who(h.ID); p == nil || p != o.me && !p.reported || p.incarnation != h.Incarnation {
			left = max(left, h.Left)
		}
	}
	longer := max(c.settles()-last.Wait, 0) // it may have counted by shorter times
	if at := last.at.Add(left + longer); at.Before(own) {
		return at
	}
	return own
}
