package named

import "github.com/batuta-dev/batuta/election"

// This file begins a coordinator's time.

// takeOffice has this member coordinate, from what it knows as a follower.
func (c *Core) takeOffice(t election.Token) {
	o := &office{c: c, token: t, since: c.now, me: &peer{id: c.self}, peers: map[election.ID]*peer{},
		moving: map[key]*contest{}, releases: map[election.ID][]Seat{}}
	o.floor = min(t.Epoch, maxEpoch>>EpochBits-2) << EpochBits
	c.office, c.version = o, 1
	c.table.of = t
	for _, m := range c.Members() {
		if m.ID != c.self {
			o.peer(m.ID).down = m.State == election.StateDown && !c.leased
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
	o.contests, o.order = make(map[string]*contest, names), make([]*contest, names)
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
		o.contests[k.name], o.order[i] = k, k
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
