package explore

import (
	"encoding/binary"
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

// ahead bounds how many states are looked at to find out whether a member is alone.
const ahead = 300

// aloneness keeps what was found out about who is alone: what j is like, and what it is to
// get, matters to the others as little as to the answer.
type aloneness struct {
	mu    sync.Mutex
	known map[xxh3.Uint128]bool
}

// remembered bounds how many answers are kept.
const remembered = 2_000_000

// alone says that the others, whatever they do before j does anything, change neither which
// messages j may get next nor j's links.
func (x *timed) alone(c *cluster, j int) bool {
	var room [512]byte
	h := xxh3.Hash128(x.besides(c, j, room[:0]))
	x.met.mu.Lock()
	is, known := x.met.known[h]
	x.met.mu.Unlock()
	if known {
		return is
	}
	is = x.isAlone(c, j)
	x.met.mu.Lock()
	if x.met.known == nil || len(x.met.known) >= remembered {
		x.met.known = map[xxh3.Uint128]bool{}
	}
	x.met.known[h] = is
	x.met.mu.Unlock()
	return is
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

func (x *timed) isAlone(c *cluster, j int) bool {
	known := map[string]bool{}
	todo := []*cluster{c}
	var buf []byte
	for len(todo) > 0 {
		from := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for link, pipe := range from.pipes {
			to := link % x.n
			if len(pipe) == 0 || to == j || !from.runs(to) {
				continue
			}
			r := &round{x: x, c: from.clone()}
			r.do(move{kind: deliverHead, a: uint8(link / x.n), b: uint8(to)})
			if r.broken != nil || r.c.members[j] != from.members[j] || x.linksOf(r.c, j) != x.linksOf(from, j) || len(known) > ahead {
				return false
			}
			for i := range x.n {
				if len(from.pipes[i*x.n+j]) == 0 && len(r.c.pipes[i*x.n+j]) > 0 {
					return false
				}
			}
			buf = x.key(r.c, buf[:0])
			if !known[string(buf)] {
				known[string(buf)] = true
				todo = append(todo, r.c)
			}
		}
	}
	return true
}

// linksOf are the links of a member.
func (x *timed) linksOf(c *cluster, j int) (links uint64) {
	for i := range x.n {
		links |= c.linked&(1<<(i*x.n+j)) | c.linked&(1<<(j*x.n+i))
	}
	return links
}
