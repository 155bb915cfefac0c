package explore

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// round is the effect of a move on a cluster, and all that follows at once.
type round struct {
	x      *timed
	c      *timedState
	queue  []pending
	broken *invariant.Violation
}

// pending is an action still to be done.
type pending struct {
	of  int
	act timedAct
}

func (r *round) fail(i int, rule, format string, args ...any) {
	if r.broken == nil {
		r.broken = r.x.broken(i, rule, format, args...)
	}
}

func (r *round) do(mv move) {
	a, b := int(mv.a), int(mv.b)
	switch mv.kind {
	case deliverHead:
		r.arrive(a, b)
	case crashMember:
		r.x.note(a, "crashes", "")
		r.c.crashes--
		r.crash(a)
	case startMember:
		r.x.note(a, "starts", "")
		r.c.restarts--
		r.start(a)
	case stopMember:
		r.x.note(a, "is stopped", "")
		r.c.stops--
		r.c.stopped |= 1 << a
	case wakeMember:
		r.x.note(a, "goes on", "")
		r.c.stopped &^= 1 << a
		r.c.pause = 0
		r.step(a, timedCause{kind: itWakes})
		r.settle()
		r.relink(a)
	case passTime:
		r.pass(r.c.next())
	}
	r.settle()
}

// settle does all pending actions.
func (r *round) settle() {
	for k := 0; k < len(r.queue) && r.broken == nil; k++ {
		i, act := r.queue[k].of, r.queue[k].act
		switch act.kind {
		case election.Dial:
			r.dial(i, act.to)
		case election.Send:
			r.send(i, act.to, parcel{act.m, act.age})
		case election.Hangup:
			if r.linked(i, act.to) {
				r.link(i, act.to, false)
				r.c.pipes[i*r.x.n+act.to] = []parcel{{}}
			}
		}
	}
	r.queue = r.queue[:0]
}

// step applies a cause to a member and checks what the member announces.
func (r *round) step(i int, cause timedCause) {
	e := r.x.store.effect(r.c.members[i], cause)
	if e.ended != nil {
		r.fail(i, invariant.Driver, "it ends: %v", e.ended)
		return
	}
	told, held := r.c.members[i].told, r.c.members[i].held
	r.c.members[i] = e.to
	for k := range e.acts {
		switch act := &e.acts[k]; act.kind {
		case election.NotifyElected:
			r.elected(i, told, held, act.token)
			told, held = act.token, act.token.Epoch
		case election.NotifyLost:
			told = election.Token{}
		default:
			r.queue = append(r.queue, pending{i, *act})
		}
	}
	r.leases()
}

func (r *round) elected(i int, told election.Token, held uint64, t election.Token) {
	switch {
	case told.Defined():
		r.fail(i, invariant.Lost, "it announces %v and has not lost %v", t, told)
	case t.Epoch < held:
		r.fail(i, invariant.Monotone, "it has announced epoch %d and announces %v", held, t)
	}
	last := election.Token{}
	for _, o := range r.c.led {
		switch {
		case o == t:
			return
		case o.Epoch == t.Epoch:
			r.fail(i, invariant.OneEpochOnly, "epoch %d is %s's and %s's", t.Epoch, o.Leader.ID, t.Leader.ID)
		}
		last = o
	}
	if t.Leader.ID == r.x.ranks[i].ID && t.Epoch < last.Epoch {
		r.fail(i, invariant.OneEpochOnly, "it leads as %v, and epoch %d has had a leader", t, last.Epoch)
	}
	r.c.led = append(slices.Clip(r.c.led), t)
	slices.SortStableFunc(r.c.led, election.Token.Compare)
}

// leases checks that at most a single lease is in force. Leases of stopped members count.
func (r *round) leases() {
	in := -1
	for i, m := range r.c.members {
		switch {
		case m.dead || m.guard == 0:
		case in >= 0:
			r.fail(i, invariant.OneLease, "its lease is in force, and so is that of %s", r.x.ranks[in].ID)
		default:
			in = i
		}
	}
}

// pass lets time pass and steps the members that are due.
func (r *round) pass(d time.Duration) {
	if r.c.stopped != 0 {
		r.c.pause += d
	}
	for i, m := range r.c.members {
		if !m.dead && d > 0 {
			r.c.members[i] = r.x.store.effect(m, timedCause{kind: timePasses, pass: d}).to
		}
	}
	for k, pipe := range r.c.pipes {
		if len(pipe) > 0 && d > 0 {
			pipe = slices.Clone(pipe)
			for i := range pipe {
				pipe[i].age = min(pipe[i].age+d, r.x.long()) // beyond that, age has no effect
			}
			r.c.pipes[k] = pipe
		}
	}
	r.leases()
	for i := range r.c.members {
		if r.c.runs(i) && r.c.members[i].due <= 0 {
			r.step(i, timedCause{kind: itWakes})
		}
	}
}

func (r *round) linked(i, j int) bool { return r.c.linked>>(i*r.x.n+j)&1 == 1 }

// link opens or closes a connection; messages on their way are lost.
func (r *round) link(i, j int, on bool) {
	n := r.x.n
	r.c.linked &^= 1<<(i*n+j) | 1<<(j*n+i)
	if on {
		r.c.linked |= 1<<(i*n+j) | 1<<(j*n+i)
	}
	r.c.pipes[i*n+j], r.c.pipes[j*n+i] = nil, nil
}

func (r *round) dial(i, j int) {
	p, q := r.c.members[i], r.c.members[j]
	switch {
	case p.dead:
	case !r.c.runs(j):
		r.step(i, timedCause{kind: dialFailed, peer: j, refused: q.dead})
	default:
		r.link(i, j, true)
		r.step(i, timedCause{kind: linkUp, peer: j, life: q.life})
		r.step(j, timedCause{kind: linkUp, peer: i, life: p.life})
	}
}

// relink connects a resumed member to those that it could not reach meanwhile, or that could not
// reach it. A member that has yet to receive the end of its link dials by itself.
func (r *round) relink(a int) {
	for i := range r.x.n {
		if i != a && r.c.runs(i) && !r.linked(i, a) && len(r.c.pipes[i*r.x.n+a]) == 0 {
			r.dial(i, a)
		}
	}
}

func (r *round) send(i, j int, p parcel) {
	if !r.linked(i, j) {
		r.dial(i, j)
	}
	if r.linked(i, j) && !r.c.members[j].dead {
		r.push(i, j, p)
	}
}

func (r *round) push(i, j int, p parcel) {
	at := i*r.x.n + j
	r.c.pipes[at] = append(slices.Clip(r.c.pipes[at]), p)
	if len(r.c.pipes[at]) > 40 {
		r.fail(i, invariant.Bounded, "40 messages wait on the way to %s", r.x.ranks[j].ID)
	}
}

func (r *round) arrive(i, j int) {
	at := i*r.x.n + j
	p := r.c.pipes[at][0]
	r.c.pipes[at] = r.c.pipes[at][1:]
	if p.m != nil {
		r.x.passes(p.m.m, p.m.m.To, "receives", p.m.m.From)
	}
	r.step(j, causeOf(i, p))
}

// causeOf returns what the arrival of a parcel from i causes.
func causeOf(i int, p parcel) timedCause {
	if p.m == nil {
		return timedCause{kind: linkDown, peer: i}
	}
	return timedCause{kind: itHears, m: p.m, age: p.age}
}

func (r *round) crash(a int) {
	n := r.x.n
	r.c.members[a] = r.x.store.effect(r.c.members[a], timedCause{kind: itDies}).to
	r.c.stopped &^= 1 << a
	r.c.pause = 0
	for j := range n {
		r.c.pipes[j*n+a] = nil
		if r.linked(a, j) && !r.c.members[j].dead {
			r.push(a, j, parcel{})
		}
		r.c.linked &^= 1<<(a*n+j) | 1<<(j*n+a)
	}
}

func (r *round) start(a int) {
	r.step(a, timedCause{kind: itStarts, life: r.c.members[a].life + 1})
}
