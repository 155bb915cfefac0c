package explore

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/batuta-dev/batuta/election"
)

// This file leaves out orders with the same result. It needs a cluster without further faults.
// There the deliveries to a single member suffice (a persistent set) if the rest of the members
// cannot affect them and no rule observes them. Deliveries that change a lease or announce a
// leader are taken in every order. No delivery is put off forever: time, and with it the return
// of a state, needs all messages to have arrived.

// reduced returns a sufficient subset of all moves.
func (x *timed) reduced(c *timedState, all []move) []move {
	if len(all) < 2 || c.crashes > 0 || c.restarts > 0 || c.stops > 0 || c.stopped != 0 { // else all are deliveries
		return all
	}
	for j := range x.n {
		n := 0
		for _, mv := range all {
			if int(mv.b) == j {
				n++
			}
		}
		if n == 0 || n == len(all) || x.seen(c, j) || !x.alone(c, j) {
			continue
		}
		return slices.DeleteFunc(all, func(mv move) bool { return int(mv.b) != j })
	}
	return all
}

// seen reports whether a rule observes a delivery to j.
func (x *timed) seen(c *timedState, j int) bool {
	for i := range x.n {
		if len(c.pipes[i*x.n+j]) == 0 {
			continue
		}
		m := c.members[j]
		e := x.store.effect(m, causeOf(i, c.pipes[i*x.n+j][0]))
		if e.ended != nil || e.to.guard == 0 && m.guard > 0 {
			return true
		}
		for k := range e.acts {
			if a := &e.acts[k]; a.kind == election.NotifyElected && a.token.Leader.ID == x.ranks[j].ID {
				return true
			}
		}
	}
	return false
}

// aloneness caches which members are alone. The key leaves out the state of j and the messages
// to it: the answer does not depend on them.
type aloneness struct {
	mu    sync.RWMutex
	known map[digest]bool
}

// remembered is how many answers are kept, at most.
const remembered = 2_000_000

// find returns the cached answer of a state, if there is any.
func (a *aloneness) find(h digest) (is, known bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	is, known = a.known[h]
	return is, known
}

func (a *aloneness) keep(is bool, states ...digest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= remembered {
		a.known = map[digest]bool{}
	}
	for _, h := range states {
		a.known[h] = is
	}
}

// alone reports whether j is isolated from the rest: whatever they do before j acts, j's next
// messages and links stay the same. If so, that holds in every state on the way too.
func (x *timed) alone(c *timedState, j int) bool {
	from := digestOf(x.besides(c, j, nil))
	if is, known := x.met.find(from); known {
		return is
	}
	met, todo := map[digest]bool{from: true}, []*timedState{c}
	for buf := []byte(nil); len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for link, pipe := range at.pipes {
			if to := link % x.n; len(pipe) == 0 || to == j || !at.runs(to) {
				continue
			}
			next, left := x.leaves(at, j, move{kind: deliverHead, a: uint8(link / x.n), b: uint8(link % x.n)})
			buf = x.besides(next, j, buf[:0])
			h := digestOf(buf)
			is, known := x.met.find(h)
			if !left || known && !is {
				x.met.keep(false, from)
				return false
			}
			if !known && !met[h] {
				met[h] = true
				todo = append(todo, next)
			}
		}
	}
	x.met.keep(true, slices.Collect(maps.Keys(met))...)
	return true
}

// leaves makes a move and reports whether j's next messages and its links stay the same.
func (x *timed) leaves(c *timedState, j int, mv move) (next *timedState, left bool) {
	r := &round{x: x, c: c.clone()}
	r.do(mv)
	left = r.broken == nil && r.c.members[j] == c.members[j] && x.linksOf(r.c, j) == x.linksOf(c, j)
	for i := range x.n {
		left = left && (len(c.pipes[i*x.n+j]) > 0 || len(r.c.pipes[i*x.n+j]) == 0)
	}
	return r.c, left
}

// besides appends all that decides whether j is alone.
func (x *timed) besides(c *timedState, j int, b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, byte(j), flag(c.members[j].dead), flag(c.members[j].guard > 0)), c.linked)
	for i, m := range c.members {
		if i != j {
			b = binary.LittleEndian.AppendUint32(b, m.number)
		}
	}
	for i := range x.n {
		b = append(b, flag(len(c.pipes[i*x.n+j]) > 0))
	}
	b = x.appendTold(c, b)
	for link, pipe := range c.pipes {
		if link%x.n != j {
			b = x.appendPipe(pipe, b)
		}
	}
	return b
}

// linksOf returns the links of a member.
func (x *timed) linksOf(c *timedState, j int) (links uint64) {
	for i := range x.n {
		links |= c.linked&(1<<(i*x.n+j)) | c.linked&(1<<(j*x.n+i))
	}
	return links
}
