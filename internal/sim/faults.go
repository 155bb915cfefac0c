package sim

import (
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file applies faults to processes and clocks, and requests of users.

// crash ends the process at once. Its kernel ends its connections after what the process had
// written, or, if torn, loses all of that.
func (w *story) crash(p *process, torn bool) {
	if p.condition != scenario.Alive && p.condition != scenario.Frozen {
		return
	}
	w.note(p, "crashes", "")
	w.end(p, scenario.Dead)
	orphan(&w.world, p)
	w.endConnections(p, torn)
}

// powerOff removes the host, without a message to any member.
func (w *story) powerOff(p *process) {
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

// restart starts a dead process again; with "rollback" its disk has lost its last write, with
// "emptied" everything.
func (w *story) restart(p *process, with string) error {
	if p.condition == scenario.Alive || p.condition == scenario.Frozen {
		return nil // it was to have ended by itself, and has not yet
	}
	why := ""
	switch with {
	case "rollback":
		p.disk.now, p.disk.rolledBack, why = p.disk.before, true, "its file rolled back one write"
	case "moved":
		p.moves++
		why = "at another address"
	case "emptied":
		p.disk.now, p.disk.before, p.disk.log, p.disk.rolledBack, why = election.State{}, election.State{}, nil, true, "its disk emptied"
	}
	w.note(p, "starts", why)
	w.checks.disturbedAt(p, w.now-1) // before its life, which is undisturbed so far
	return w.start(p)
}

func (w *story) freeze(p *process) {
	if p.condition != scenario.Alive {
		return
	}
	w.note(p, "freezes", "")
	w.checks.disturbed(w.scene, p)
	p.condition, p.frozenAt = scenario.Frozen, p.clock.at(w.now)
}

// thaw resumes a process. What its kernel has kept and its own timers may come in either order.
func (w *story) thaw(p *process) {
	if p.condition != scenario.Frozen {
		return
	}
	p.condition, p.stall = scenario.Alive, p.clock.at(w.now)-p.frozenAt
	p.wakeAt = never
	w.checks.disturbed(w.scene, p)
	w.note(p, "thaws", "")
	first := w.rng.One(2)
	if first {
		w.arm(p)
	}
	w.resume(p)
	if p.hasSaved {
		p.hasSaved = false
		w.step(p, &election.Event{Kind: election.Saved, Err: p.savedErr})
	}
	w.arm(p)
}

func (w *story) drift(p *process, ppm int64) {
	w.note(p, "clock drifts", strconv.FormatInt(ppm, 10)+" ppm")
	p.clock.drift(w.now, ppm)
	p.wakeAt = never
	if p.condition == scenario.Alive {
		w.arm(p)
	}
}

// jump sets the wall clock. A driver takes a jump ahead of more than T for the end of a pause
// that no other clock has seen. Else a jump changes nothing.
func (w *story) jump(p *process, d time.Duration) {
	w.note(p, "wall clock jumps", d.String())
	if d <= w.setup.Timing.T() {
		return
	}
	w.checks.disturbed(w.scene, p) // as by a freeze
	p.clock.leap(w.now, d)
	p.wakeAt = never
	if p.condition == scenario.Alive {
		p.stall += d
		w.arm(p)
	}
}

// health applies a result of the process's health check.
func (w *story) health(p *process, state string) {
	w.note(p, "is "+state, "")
	if p.condition == scenario.Alive {
		p.unhealthy = state == "unhealthy"
		w.step(p, &election.Event{Kind: election.Health, On: !p.unhealthy})
	}
}

// candidacy applies that the user has work for p as a leader, or no longer.
func (w *story) candidacy(p *process, state string) {
	if p.condition == scenario.Alive {
		w.note(p, "candidacy "+state, "")
		p.retired = state == "off"
		w.step(p, &election.Event{Kind: election.Candidacy, On: !p.retired})
	}
}

func (w *story) instruct(p *process, k election.EventKind) {
	if p.condition == scenario.Alive {
		p.resting, p.retired = k == election.Resigned, p.retired && k != election.Campaign
		w.step(p, &election.Event{Kind: k})
	}
}

// transfer applies a user's request that p hand over to a member.
func (w *story) transfer(p *process, to election.ID) {
	if p.condition == scenario.Alive {
		p.resting = p.resting || p.machine.AdmitTransfer(to) == nil && to != p.rank.ID
		w.step(p, &election.Event{Kind: election.Transfer, Peer: to})
	}
}

// tells applies a user's request that p publish metadata.
func (w *story) tells(p *process, word string) {
	w.note(p, "publishes metadata", word)
	if p.condition != scenario.Alive {
		return
	}
	p.says = word
	var pairs map[string]string
	if word != scenario.Nothing {
		pairs = map[string]string{said: word}
	}
	w.telling = true
	w.step(p, &election.Event{Kind: election.Tells, Meta: pairs})
}

// join starts p as a process with no members on its list, except those that it asks and those in
// its file.
func (w *story) join(p *process, through []election.ID) error {
	lives := p.condition == scenario.Alive || p.condition == scenario.Frozen
	if lives && !p.ending {
		return nil
	}
	w.throughThese(p, through)
	if lives {
		return nil // its work has not stopped yet; when it starts again it joins
	}
	w.note(p, "joins", "through "+scenario.JoinIDs(through, ", "))
	w.checks.disturbedAt(p, w.now-1)
	return w.start(p)
}

// leave makes a process give up its membership and end.
func (w *story) leave(p *process) {
	if p.condition == scenario.Alive && !p.ending {
		w.note(p, "leaves", "")
		p.leaves = true
		w.quit(p, nil)
	}
}

// change applies a user's change of the list at p.
func (w *story) change(p *process, step *scenario.Step, of *process) {
	if p.condition != scenario.Alive {
		return
	}
	if step.Do == scenario.Add {
		what := string(of.rank.ID)
		if step.Ranked {
			what += " with priority " + strconv.Itoa(step.Priority)
		}
		w.note(p, "adds", what)
		w.step(p, &election.Event{Kind: election.MemberAdded, On: step.Ranked, Member: election.Member{
			Rank: election.Rank{Priority: step.Priority, ID: of.rank.ID}, Address: string(of.rank.ID), Observer: of.observer}})
		return
	}
	w.note(p, "removes", string(of.rank.ID))
	w.step(p, &election.Event{Kind: election.MemberRemoved, Peer: of.rank.ID})
}

// campaignNamed applies a user's request about an election at p.
func (w *story) campaignNamed(p *process, step *scenario.Step) {
	if p.condition != scenario.Alive {
		return // it has ended or is frozen: it cannot be asked
	}
	w.note(p, string(step.Do)+"s "+step.Word, "")
	switch step.Do {
	case scenario.Stand:
		how := named.Candidacy{Weight: max(step.Weight, 1), Seats: max(step.Seats, 1), Prefer: step.Prefer}
		w.seats[step.Word] = max(w.seats[step.Word], how.Seats)
		if p.stoodFor != nil {
			p.stoodFor[step.Word] = how
		}
		w.command(p, func(at time.Time) []election.Action {
			return p.assigned.Campaign(at, named.Stand{Name: step.Word, Candidacy: how})
		})
	case scenario.Withdraw:
		delete(p.stoodFor, step.Word)
		w.command(p, func(at time.Time) []election.Action { return p.assigned.Withdraw(at, step.Word) })
	case scenario.Yield:
		w.command(p, func(at time.Time) []election.Action { return p.assigned.Resign(at, step.Word) })
	case scenario.Give:
		w.request(p, named.Request{Do: named.DoTransfer, Name: step.Word, Member: step.Via[0]})
	}
}

func (w *story) drain(p *process, step *scenario.Step) {
	do := map[scenario.Verb]string{scenario.Drain: named.DoDrain, scenario.Undrain: named.DoUndrain}[step.Do]
	w.note(p, "is asked to "+do, string(step.Members[0]))
	w.request(p, named.Request{Do: do, Member: step.Members[0], Force: true})
}

// duplicate starts a second process with p's id, on its own host. If it joins, it can be dialed
// there.
func (w *story) duplicate(p *process, through []election.ID) error {
	q := &process{}
	q.reset(len(w.procs), p.slot, p.rank, w.net.n)
	q.observer, q.times = p.observer, p.times
	w.procs = append(w.procs, q)
	if len(through) == 0 {
		w.note(p, "is claimed by a second process", "")
		return w.start(q)
	}
	w.note(p, "is claimed by a second process", "which joins through "+scenario.JoinIDs(through, ", "))
	w.throughThese(q, through)
	return w.start(q)
}
