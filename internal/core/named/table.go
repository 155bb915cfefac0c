package named

import (
	"maps"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// table is all assignments, as a member knows them.
type table struct {
	names   map[string][]*entry  // the seats of each, in order; at least a single seat
	drained map[election.ID]bool // members that are to lead nothing; true: they also give up what has no further candidate
	gone    map[string]tops      // of seats that are gone, by name; at most MaxElections names
	digest  uint64
	version uint64
	order   []*entry // by name and seat; see ordered
	stale   bool     // order is to be made again
	sees    bool     // what it has is shown; see look

	whole   parcel // all assignments, on their way here
	askedAt int64  // when all was last asked for; 0: it is not
}

// entry is an assignment, and what watchers last saw of it.
type entry struct {
	Seat
	shown election.Token
	top   uint64 // the highest epoch ever shown, or assigned to this member
}

// tops are the highest epochs ever shown of seats.
type tops map[int]uint64

func newTable() table {
	return table{names: map[string][]*entry{}, gone: map[string]tops{}, drained: map[election.ID]bool{}}
}

// set applies an assignment, and returns its entry.
func (t *table) set(s Seat) *entry {
	seats := t.names[s.Name]
	i, found := place(seats, s.Seat)
	var e *entry
	if found {
		e = seats[i]
		t.digest ^= hash(e.Seat)
	} else {
		e = &entry{top: t.gone[s.Name][s.Seat]}
		if delete(t.gone[s.Name], s.Seat); len(t.gone[s.Name]) == 0 {
			delete(t.gone, s.Name)
		}
		t.names[s.Name] = slices.Insert(seats, i, e)
		t.stale = true
	}
	e.Seat = s
	t.digest ^= hash(s)
	return e
}

// drop removes the entry of a seat that is no more, if there is any.
func (t *table) drop(k key) {
	seats := t.names[k.name]
	i, found := place(seats, k.seat)
	if !found {
		return
	}
	t.digest ^= hash(seats[i].Seat)
	if len(t.gone) >= MaxElections {
		clear(t.gone)
	}
	if t.gone[k.name] == nil {
		t.gone[k.name] = tops{}
	}
	t.gone[k.name][k.seat] = seats[i].top
	t.stale = true
	if t.names[k.name] = slices.Delete(seats, i, i+1); len(seats) == 1 {
		delete(t.names, k.name)
	}
}

// place is where a seat is in a list of them, or belongs.
func place(seats []*entry, seat int) (i int, found bool) {
	return slices.BinarySearchFunc(seats, seat, func(e *entry, seat int) int { return e.Seat.Seat - seat })
}

// at returns the entry of a seat; nil: there is none.
func (t *table) at(k key) *entry {
	seats := t.names[k.name]
	if i, found := place(seats, k.seat); found {
		return seats[i]
	}
	return nil
}

// drain sets the members that are to lead nothing, and those of them that also give up what has
// no further candidate.
func (t *table) drain(ids, forced []election.ID) {
	for id, force := range t.drained {
		t.digest ^= hashDrain(id, force)
	}
	clear(t.drained)
	for _, id := range ids {
		if !t.isDrained(id) {
			t.drained[id] = slices.Contains(forced, id)
			t.digest ^= hashDrain(id, t.drained[id])
		}
	}
}

func (t *table) isDrained(id election.ID) bool {
	_, is := t.drained[id]
	return is
}

func (t *table) forcedList() []election.ID {
	return slices.DeleteFunc(t.Drained(), func(id election.ID) bool { return !t.drained[id] })
}

// Pinned reports whether a seat of a name was given to its leader by hand, as far as is known.
func (t *table) Pinned(name string, seat int) bool {
	e := t.at(key{name, seat})
	return e != nil && e.Pinned
}

// Drained are the members that are to lead nothing.
func (t *table) Drained() []election.ID { return slices.Sorted(maps.Keys(t.drained)) }

// ordered are all entries, in order.
func (t *table) ordered() []*entry {
	if t.stale {
		t.order, t.stale = make([]*entry, 0, len(t.names)), false
		for _, name := range slices.Sorted(maps.Keys(t.names)) {
			t.order = append(t.order, t.names[name]...)
		}
	}
	return t.order
}

// seatList returns all seats, in order.
func (t *table) seatList() []Seat {
	list := make([]Seat, 0, len(t.names))
	for _, e := range t.ordered() {
		list = append(list, e.Seat)
	}
	return list
}

// lastEpoch is the highest epoch known of a name.
func (t *table) lastEpoch(name string) uint64 {
	highest := uint64(0)
	for _, top := range t.gone[name] {
		highest = max(highest, top)
	}
	for _, e := range t.names[name] {
		highest = max(highest, e.Epoch, e.top)
	}
	return highest
}

// raises are the seats of those names that were seen under a higher epoch than they have.
func (t *table) raises(claims []claim) (list []Seat) {
	for _, cl := range claims {
		for _, e := range t.names[cl.Name] {
			if e.top > e.Epoch {
				list = append(list, Seat{Name: cl.Name, Seat: e.Seat.Seat, Epoch: e.top})
			}
		}
	}
	return list
}

// hash is of what members must have alike of a seat.
func hash(s Seat) uint64 {
	h := hashText(s.Name, 0) ^ uint64(s.Seat)*0xd6e8feb86659fd93
	h = hashText(string(s.Leader), h^s.Epoch*0x9e3779b97f4a7c15)
	if s.Pinned {
		h = ^h
	}
	return h
}

// hashDrain is of what members must have alike of a drained member.
func hashDrain(id election.ID, force bool) uint64 {
	if force {
		return hashText(string(id), 8)
	}
	return hashText(string(id), 7)
}

func hashText(text string, h uint64) uint64 {
	h ^= 14695981039346656037 // FNV-1a
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// reused returns a list without elements: nil if it had many, because it would keep their room.
func reused[E any](list []E) []E {
	if cap(list) > 64 {
		return nil
	}
	clear(list) // what they refer to is not kept
	return list[:0]
}

// emptied returns a map without entries: a new map if it had many, because it would keep their room.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 64 {
		return map[K]V{}
	}
	clear(m)
	return m
}
