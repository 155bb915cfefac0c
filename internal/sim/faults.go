package sim

import (
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file applies faults to processes and clocks.

// crash ends the process at once. Its kernel ends its connections after what the process had
// written, or, if torn, loses all of that.
func (w *world) crash(p *process, torn bool) {
	if p.condition != scenario.Alive && p.condition != scenario.Frozen {
		return
	}
	w.note(p, "crashes", "")
	w.end(p, scenario.Dead)
	orphan(w, p)
	w.endConnections(p, torn)
}

func (w *world) endConnections(p *process, torn bool) {
	for s := range p.peers {
		for _, e := range p.peers[s].ends {
			e.state = closed
			w.hangUpOn(e, torn)
		}
		p.peers[s].ends = p.peers[s].ends[:0]
	}
	w.resume(p)
}

// powerOff removes the host, without a message to any member.
func (w *world) powerOff(p *process) {
	w.note(p, "loses power", "")
	w.end(p, scenario.Off)
	for s := range p.peers {
		for _, e := range p.peers[s].ends {
			e.state = closed
		}
		p.peers[s].ends = p.peers[s].ends[:0]
	}
	for _, e := range p.stalled {
		e.in.clear()
	}
	p.stalled = p.stalled[:0]
}

func (w *world) end(p *process, c scenario.Condition) {
	p.condition = c
	p.life++
	w.checks.disturbedAt(p, w.now)
	if p.disk.saving && w.rng.one(2) {
		_ = w.writeOut(p) // it was written, but the process was gone
	}
	p.disk.saving = false
	w.checks.ended(w, p, c)
	p.view, p.working, p.hasSaved = election.Token{}, false, false
}

// restart starts a dead process again; with "rollback" its disk has lost its last write, with
// "emptied" everything.
func (w *world) restart(p *process, with string) error {
	if p.condition == scenario.Alive || p.condition == scenario.Frozen {
		return nil // it was to have ended by itself, and has not yet
	}
	why := ""
	switch with {
	case "rollback":
		p.disk.now, p.disk.rolledBack, why = p.disk.before, true, "its file rolled back one write"
	case "emptied":
		p.disk.now, p.disk.before, p.disk.log, p.disk.rolledBack, why = election.State{}, election.State{}, nil, true, "its disk emptied"
	}
	w.note(p, "starts", why)
	w.checks.disturbedAt(p, w.now-1) // before its life, which is undisturbed so far
	return w.start(p)
}

func (w *world) freeze(p *process) {
	if p.condition != scenario.Alive {
		return
	}
	w.note(p, "freezes", "")
	w.checks.disturbed(w, p)
	p.condition, p.frozenAt = scenario.Frozen, p.clock.at(w.now)
}

// thaw resumes a process. What its kernel has kept and its own timers may come in either order.
func (w *world) thaw(p *process) {
	if p.condition != scenario.Frozen {
		return
	}
	p.condition, p.stall = scenario.Alive, p.clock.at(w.now)-p.frozenAt
	p.wakeAt = never
	w.checks.disturbed(w, p)
	w.note(p, "thaws", "")
	first := w.rng.one(2)
	if first {
		w.arm(p)
	}
	w.resume(p)
	if p.hasSaved {
		p.hasSaved = false
		w.step(p, election.Event{Kind: election.Saved, Err: p.savedErr})
	}
	w.arm(p)
}

func (w *world) drift(p *process, ppm int64) {
	w.note(p, "clock drifts", strconv.FormatInt(ppm, 10)+" ppm")
	p.clock.drift(w.now, ppm)
	p.wakeAt = never
	if p.condition == scenario.Alive {
		w.arm(p)
	}
}

// jump sets the wall clock. A driver takes a jump ahead of more than T for the end of a pause
// that no other clock has seen. Else a jump changes nothing.
func (w *world) jump(p *process, d time.Duration) {
	w.note(p, "wall clock jumps", d.String())
	if d <= w.setup.Timing.T() {
		return
	}
	w.checks.disturbed(w, p) // as by a freeze
	p.clock.leap(w.now, d)
	p.wakeAt = never
	if p.condition == scenario.Alive {
		p.stall += d
		w.arm(p)
	}
}
