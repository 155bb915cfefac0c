package explore

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/batuta-dev/batuta/election"
)

// This file leaves out orders that come to the same. Once no fault is left to come,
// deliveries to one member alone are enough where they do not depend on what the others do
// meanwhile (a persistent set), and where no rule looks at them: those that change a lease or
// tell of a leader are taken in every order. No delivery is put off for ever: time does not
// pass, and so no state comes again, before all has arrived.

// calm says that no fault is left to come, and nobody is stopped.
func (c *cluster) calm() bool {
	return c.crashes == 0 && c.restarts == 0 && c.stops == 0 && c.stopped == 0
}

// reduced gives the moves that are enough, of all that may happen.
func (x *timed) reduced(c *cluster, all []move) []move {
	if len(all) < 2 || !c.calm() { // else all are deliveries
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
		own := all[:0]
		for _, mv := range all {
			if int(mv.b) == j {
				own = append(own, mv)
			}
		}
		return own
	}
	return all
}

// seen says that a rule looks at what a delivery to j does.
func (x *timed) seen(c *cluster, j int) bool {
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

// aloneness keeps what was found out about who is alone: what j is like, and what it is to
// get, matters to the others as little as to the answer.
type aloneness struct {
	mu    sync.RWMutex
	known map[xxh3.Uint128]bool
}

// remembered bounds how many answers are kept.
const remembered = 2_000_000

// find gives what is known of a state.
func (a *aloneness) find(h xxh3.Uint128) (is, known bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	is, known = a.known[h]
	return is, known
}

func (a *aloneness) keep(is bool, states ...xxh3.Uint128) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= remembered {
		a.known = map[xxh3.Uint128]bool{}
	}
	for _, h := range states {
		a.known[h] = is
	}
}

// alone says that the others, whatever they do before j does anything, change neither which
// messages j may get next nor j's links. If they do not, nor do they from any state on the way.
func (x *timed) alone(c *cluster, j int) bool {
	from := xxh3.Hash128(x.besides(c, j, nil))
	if is, known := x.met.find(from); known {
		return is
	}
	met, todo := map[xxh3.Uint128]bool{from: true}, []*cluster{c}
	for buf := []byte(nil); len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for link, pipe := range at.pipes {
			if to := link % x.n; len(pipe) == 0 || to == j || !at.runs(to) {
				continue
			}
			next, left := x.leaves(at, j, move{kind: deliverHead, a: uint8(link / x.n), b: uint8(link % x.n)})
			buf = x.besides(next, j, buf[:0])
			h := xxh3.Hash128(buf)
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

// leaves takes a move, and says whether it leaves alone what j may get next and j's links.
func (x *timed) leaves(c *cluster, j int, mv move) (next *cluster, left bool) {
	r := &round{x: x, c: c.clone()}
	r.do(mv)
	left = r.broken == nil && r.c.members[j] == c.members[j] && x.linksOf(r.c, j) == x.linksOf(c, j)
	for i := range x.n {
		left = left && (len(c.pipes[i*x.n+j]) > 0 || len(r.c.pipes[i*x.n+j]) == 0)
	}
	return r.c, left
}

// besides appends all on which it depends whether j is alone.
func (x *timed) besides(c *cluster, j int, b []byte) []byte {
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

// linksOf are the links of a member.
func (x *timed) linksOf(c *cluster, j int) (links uint64) {
	for i := range x.n {
		links |= c.linked&(1<<(i*x.n+j)) | c.linked&(1<<(j*x.n+i))
	}
	return links
}
