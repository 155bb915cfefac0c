package sim

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/newcomer"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// joining is how a process asks to be admitted to a cluster: the decisions of [newcomer.Newcomer]
// over the lab's network.
type joining struct {
	through []int // slots of the members it asks; none: it has its list from a configuration
	left    []int // those of them that have not answered
	asked   int   // answers awaited in this round
	begunAt time.Duration
	asks    newcomer.Newcomer // what the answers mean
	met     bool              // a connection to a member was open in this life
	paused  bool              // the next round is to come
	back    []int             // slots of the members asked to let it return
}

// admission is the answer of the member that admits a newcomer. In the newcomer's request, its
// list is the newcomer's own entry.
type admission = newcomer.Admission

// askTime returns how long a newcomer waits for the connection and the answer on it.
func askTime(t election.Timing) time.Duration { return 2*t.TMax + greetTime(t, true) }

// beginJoin starts the first round of a life.
func (w *world) beginJoin(p *process) {
	p.left = append(p.left[:0], p.through...)
	p.asked, p.asks, p.met, p.paused = 0, newcomer.Newcomer{}, false, false
	w.askAround(p)
}

func (w *world) askAround(p *process) {
	p.paused = false
	p.asked = len(p.left)
	p.asks.BeginRound()
	for _, slot := range p.left {
		w.askMember(p, slot)
	}
}

func (w *world) askMember(p *process, slot int) {
	c := w.newConn()
	c.asks = true
	own, _ := p.machine.Entry(p.rank.ID)
	own.Address = w.address(p)
	w.connect(p, slot, c, frame{kind: ask, in: &admission{List: []election.Member{own}, Token: p.machine.Held()}})
}

// rejoin asks a member again, or, with [election.None], all through which p joins.
func (w *world) rejoin(p *process, to election.ID) {
	if to != election.None {
		w.askToReturn(p, w.slots[to])
		return
	}
	p.left = append(p.left[:0], p.through...)
	p.asks.Again()
	if p.asked == 0 && !p.paused && len(p.left) > 0 {
		w.askAround(p)
	}
}

// askAgain begins a further round.
func (w *world) askAgain(p *process, life uint64) {
	switch {
	case p.life != life:
	case p.condition == scenario.Frozen:
		w.queue.push(occurrence{at: w.now + w.setup.Timing.TMax, kind: nextRound, place: int32(p.place), life: life})
	default:
		w.askAround(p)
	}
}

// letIn answers a newcomer as the process that owns e does, or its kernel.
func (w *world) letIn(e *endpoint, f *frame) {
	q, from := e.proc, e.far()
	e.state = closed
	if q.condition != scenario.Alive {
		w.push(from, frame{kind: refusal})
		return
	}
	newcomer := f.in.List[0]
	newcomer.Departure, newcomer.Fixed, newcomer.Pinned = election.Present, false, false
	err := q.sameTimes(from.proc)
	if err == nil {
		err = q.machine.AdmitJoin(epochOfTime.Add(q.clock.at(w.now)), newcomer, from.inc)
	}
	if err != nil {
		w.push(from, frame{kind: refusal, err: err})
		return
	}
	w.step(q, &election.Event{Kind: election.JoinRequested, Member: newcomer, Token: f.in.Token})
	t, age := q.machine.Vouch()
	w.push(from, frame{kind: admitted, in: &admission{List: q.machine.List(), Token: t, Age: age}})
}

// answered handles an answer of a round; in and err are nil if there was none.
func (w *world) answered(e *endpoint, in *admission, err error) {
	p := e.proc
	if e.state != opening || e.life != p.life {
		return
	}
	e.state = closed
	if slices.Contains(p.back, e.peer) {
		w.returned(p, e.peer, in)
		return
	}
	if p.asks.Answered(in, err) {
		p.left = slices.DeleteFunc(p.left, func(slot int) bool { return slot == e.peer })
		if err != nil {
			p.refused = err
			w.note(p, "is refused by "+string(w.procs[e.peer].rank.ID), err.Error())
		}
	}
	if p.asked--; p.asked == 0 {
		w.roundOver(p)
	}
}

// roundOver passes the results of a round to the Machine.
func (w *world) roundOver(p *process) {
	begins := !p.asks.Begun()
	ev, tell, fatal := p.asks.RoundOver(p.met)
	if fatal != nil {
		w.quit(p, fatal)
		return
	}
	if len(p.left) > 0 {
		p.paused = true
		at := p.clock.when(p.clock.at(w.now) + p.asks.Pause(w.setup.Timing))
		w.queue.push(occurrence{at: at, kind: nextRound, place: int32(p.place), life: p.life})
	}
	if begins {
		p.begunAt = w.now
	}
	if tell {
		w.step(p, &ev)
	}
}

// askToReturn asks a member, unless that is under way.
func (w *world) askToReturn(p *process, slot int) {
	if p.condition == scenario.Alive && !slices.Contains(p.left, slot) && !slices.Contains(p.back, slot) {
		p.back = append(p.back, slot)
		w.askMember(p, slot)
	}
}

// returned handles the answer to askToReturn.
func (w *world) returned(p *process, slot int, in *admission) {
	p.back = slices.DeleteFunc(p.back, func(s int) bool { return s == slot })
	if in != nil {
		ev := p.asks.Returned(in)
		w.step(p, &ev)
	}
}

// quit begins the end of a process, on request or because of err: it hands over, and ends when
// its work has stopped.
func (w *world) quit(p *process, err error) {
	if p.ending {
		return
	}
	p.ending, p.halted = true, err
	last := func() { w.step(p, &election.Event{Kind: election.Closing}) } // in the same turn: that may end the process
	if p.busy {
		last()
		return
	}
	w.turn(p, last)
}

// exit is the last action of a process. What it has sent arrives.
func (w *world) exit(p *process) {
	p.ending = false // else its last step would end it again
	if p.leaves {
		p.leaves = false
		w.step(p, &election.Event{Kind: election.Leaving})
		if p.condition != scenario.Alive {
			return // it was just removed, too
		}
	}
	if p.disk.saving {
		_ = w.writeOut(p)
	}
	why := ""
	if p.halted != nil {
		why = p.halted.Error()
	}
	w.note(p, "exits", why)
	w.end(p, scenario.Dead)
	w.endConnections(p, false)
}

// listed returns the members on p's list.
func (p *process) listed() (ids []election.ID) {
	for _, e := range p.machine.List() {
		if e.Departure == election.Present {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
