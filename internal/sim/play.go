// Package sim is the lab. It runs the same [machine.Machine] as production under virtual time,
// on a network, disks and clocks that fail on purpose, all from a single seed. The same seed
// gives the same trace, byte for byte, on every machine.
//
// [Play] plays a [scenario.Scenario], [Soak] plays random scenarios, and [Shrink] shortens a
// failing scenario. [Count] counts an algorithm's messages under the conventions of textbooks.
// Package scenario is the language, draw makes random scenarios, explore tries every order of
// events of a small cluster, and trace draws what happened.
//
// Rules are checked at every step; a broken rule is an [invariant.Violation]. The files, from the
// ground up:
//
//   - scene.go has the members and their disks, network.go their connections;
//   - process.go and world.go step the members: they are the driver. join.go and named.go add
//     newcomers and named elections;
//   - play.go and faults.go do what a scenario has;
//   - rules.go, rules_besteffort.go and rules_quorum.go check each step. judge.go checks what must
//     come in the end. history.go has the past that both need.
package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/newcomer"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// Outcome is the result of a run.
type Outcome struct {
	Elapsed  time.Duration                // simulated
	Agreed   time.Duration                // the longest time of an agree or settle
	Share    float64                      // the largest part of its bound that any of them took
	Messages map[election.MessageKind]int // sent since the last mark; nil unless logged
	Leader   election.ID                  // of the highest token that any member has at the end
	Ended    []time.Duration              // when each possible step was over; nil unless logged
	Waits    []Wait                       // what ran out at members, by From; nil unless logged
}

// Wait is what ran out at a member, or was to. Until and Ended are of the world's time.
type Wait struct {
	Member             election.ID
	What               machine.Wait
	From, Until, Ended time.Duration // Ended: when it changed or ended; never: it had not
}

// waits records what runs out at p since its last step.
func waits(w *world, p *process) {
	now := slices.DeleteFunc(machine.Waits(p.machine), func(x machine.Wait) bool { return x.Until.IsZero() && x.Need == 0 })
	p.runs = slices.DeleteFunc(p.runs, func(i int) bool {
		if k := slices.Index(now, w.waits[i].What); k >= 0 {
			now = slices.Delete(now, k, k+1)
			return false
		}
		w.waits[i].Ended = w.now
		return true
	})
	for _, x := range now {
		at := w.now
		if !x.Until.IsZero() {
			at = p.clock.when(x.Until.Sub(epochOfTime))
		}
		p.runs = append(p.runs, len(w.waits))
		w.waits = append(w.waits, Wait{w.name(p), x, w.now, at, never})
	}
}

// Play runs the scenario and passes all that happens to log, which may be nil. Its error is a
// *[invariant.Violation], a *[scenario.Unmet], or describes an invalid setup.
func Play(s *scenario.Scenario, maker scenario.Maker, log func(trace.Entry)) (Outcome, error) {
	fresh, err := maker(s.Setup.Algorithm, s.Setup.Option)
	if err == nil {
		err = s.CheckKinds(fresh())
	}
	if err != nil {
		return Outcome{}, err
	}
	if s.Setup.Manual {
		elapsed, err := explore.Play(s, maker, log)
		return Outcome{Elapsed: elapsed}, err
	}
	return newStory().play(s, maker, log)
}

// story plays a scenario in a world. It is used for many schedules; reset keeps the memory it has allocated.
type story struct {
	world
	judge
	*scene // of that world
}

func newStory() *story {
	w := &story{}
	w.scene = &w.world.scene
	w.judge.scene, w.slots = w.scene, map[election.ID]int{}
	w.checks.register()
	return w
}

func (w *story) play(s *scenario.Scenario, maker scenario.Maker, log func(trace.Entry)) (Outcome, error) {
	fresh, err := maker(s.Setup.Algorithm, s.Setup.Option)
	if err != nil {
		return Outcome{}, err
	}
	w.roster = changesList(s)
	w.contested, w.seats = electionsOf(s), map[string]int{}
	if err := w.reset(s.Setup.Filled(), fresh, log); err != nil {
		return Outcome{}, err
	}
	if counts(s) && w.checks.counted == nil {
		w.checks.counted = map[election.MessageKind]int{}
	}
	var o Outcome
	for i := range s.Steps {
		if err := w.take(s, &s.Steps[i], &o); err != nil {
			o.Elapsed, o.Waits = w.now, w.waits
			return o, err
		}
		if log != nil {
			o.Ended = append(o.Ended, w.now)
		}
	}
	o.Elapsed, o.Messages, o.Waits = w.now, w.checks.counted, w.waits
	var top election.Token
	for _, p := range w.procs {
		if p.view.Above(top) {
			top = p.view
		}
	}
	o.Leader = top.Leader.ID
	return o, nil
}

// changesList reports whether members come or go.
func changesList(s *scenario.Scenario) bool {
	return len(s.Setup.Newcomers) > 0 || s.Setup.ReapAfter > 0 || slices.ContainsFunc(s.Steps, func(step scenario.Step) bool {
		return slices.Contains(MembershipFaults(), step.Do) || step.Do == scenario.Duplicate && len(step.Via) > 0
	})
}

// boundOf returns how long agreement may take. If members come and go, it includes a round of
// requests with the pause before it, and the time until a removed member accepts its removal.
func boundOf(s *scenario.Scenario) time.Duration {
	bound := s.Setup.Bound()
	if changesList(s) {
		t := s.Setup.Filled().Timing
		bound += newcomer.Backoff + askTime(t) + 3*t.T()
	}
	if len(electionsOf(s)) > 0 {
		bound += namedBound(s.Setup.Filled())
	}
	return bound
}

func counts(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Steps, func(step scenario.Step) bool { return step.Expect.What == "messages" })
}

func (w *story) take(s *scenario.Scenario, step *scenario.Step, o *Outcome) error {
	var err error
	switch step.Do {
	case scenario.Run:
		w.runTo(w.now + step.For)
	case scenario.At:
		if step.For < w.now {
			return s.Unmet(step, w.now, "it is later by now")
		}
		w.runTo(step.For)
	case scenario.Agree:
		bound := cmp.Or(step.For, boundOf(s))
		o.took(w.demand(bound, false), bound)
	case scenario.Settle:
		w.calmDown(step.Word)
		o.took(w.demand(boundOf(s), true), boundOf(s))
		w.demandTold(boundOf(s))
		w.demandWritten(boundOf(s))
	case scenario.Expect:
		if got := w.meets(&step.Expect); got != "" {
			return s.Unmet(step, w.now, got)
		}
	default:
		err = w.strike(step)
	}
	if w.checks.broken != nil {
		return w.checks.broken
	}
	return err
}

// took records how long an agreement took, and its bound.
func (o *Outcome) took(d, bound time.Duration) {
	o.Agreed, o.Share = max(o.Agreed, d), max(o.Share, float64(d)/float64(bound))
}

// strike applies a step to members and links.
func (w *story) strike(step *scenario.Step) error {
	switch step.Do {
	case scenario.Cut, scenario.Heal, scenario.Reset, scenario.Reject, scenario.Delay:
		w.strikeLinks(step)
	case scenario.Partition:
		w.partition(step.Sides)
	case scenario.Mark:
		w.checks.mark()
	case scenario.Join:
		return w.join(w.bySlot(step.Members[0]), step.Via)
	case scenario.Add, scenario.Remove:
		w.change(w.bySlot(step.Via[0]), step, w.bySlot(step.Members[0]))
	case scenario.Drain, scenario.Undrain:
		w.drain(w.bySlot(step.Via[0]), step)
	case scenario.Stand, scenario.Withdraw, scenario.Yield, scenario.Give:
		w.campaignNamed(w.bySlot(step.Members[0]), step)
	case scenario.Transfer:
		w.transfer(w.bySlot(step.Members[0]), step.Via[0])
	case scenario.Suspect, scenario.Trust:
		at, of := w.bySlot(step.Members[0]), step.Members[1]
		kind := map[scenario.Verb]election.EventKind{scenario.Suspect: election.PeerDown, scenario.Trust: election.PeerUp}[step.Do]
		w.note(at, map[scenario.Verb]string{scenario.Suspect: "is notified that it is down:", scenario.Trust: "is notified that it is up:"}[step.Do], string(of))
		w.step(at, &election.Event{Kind: kind, Peer: of})
	default:
		for _, id := range step.Members {
			if err := w.strikeMember(step, w.bySlot(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *story) strikeMember(step *scenario.Step, p *process) error {
	switch step.Do {
	case scenario.Start, scenario.Restart:
		return w.restart(p, step.Word)
	case scenario.Crash:
		w.crash(p, step.Word == "torn")
	case scenario.PowerOff:
		w.powerOff(p)
	case scenario.Freeze:
		w.freeze(p)
	case scenario.Thaw:
		w.thaw(p)
	case scenario.Campaign:
		w.instruct(p, election.Campaign)
	case scenario.Leave:
		w.leave(p)
	case scenario.Resign:
		w.instruct(p, election.Resigned)
	case scenario.Pause:
		if p.condition == scenario.Alive {
			w.step(p, &election.Event{Kind: election.Pausing, Age: step.For})
		}
	case scenario.Candidacy:
		w.candidacy(p, step.Word)
	case scenario.Health:
		w.health(p, step.Word)
	case scenario.Tell:
		w.tells(p, step.Word)
	case scenario.Duplicate:
		return w.duplicate(p, step.Via)
	case scenario.Clock:
		if step.Word == "drift" {
			w.drift(p, step.PPM)
		} else {
			w.jump(p, step.For)
		}
	case scenario.Times:
		w.note(p, "is to start with other times", step.For.String()+" "+step.Process.String())
		p.times.TMax, p.times.TProcess = step.For, step.Process
	case scenario.Disk:
		w.note(p, "disk "+strings.TrimSpace(step.Word+" "+spell(step.For)), "")
		slow := step.For
		if step.Word == "hang" {
			slow = hung
		}
		w.setDisk(p, slow, step.Word)
	}
	return nil
}

func (w *story) strikeLinks(step *scenario.Step) {
	links := step.Links
	if len(links) == 0 { // heal without links: all
		w.noteOf("all:", "all links heal", "")
		for _, a := range w.procs[:w.net.n] {
			for _, b := range w.procs[:w.net.n] {
				w.healLink(a, b)
			}
		}
		return
	}
	for _, l := range links {
		a, b := w.bySlot(l.A), w.bySlot(l.B)
		if step.Do == scenario.Reset {
			w.resetLink(a, b)
			continue
		}
		w.noteOf(election.ID(l.String()), strings.TrimSpace(string(step.Do)+" "+spell(step.For)), "")
		w.strikeLink(step, a, b)
		if l.Both {
			w.strikeLink(step, b, a)
		}
	}
}

func (w *story) strikeLink(step *scenario.Step, a, b *process) {
	switch step.Do {
	case scenario.Cut:
		w.cutLink(a, b)
	case scenario.Reject:
		w.rejectLink(a, b)
	case scenario.Heal:
		w.healLink(a, b)
	case scenario.Delay:
		w.checks.disturbed(w.scene, a)
		w.checks.disturbed(w.scene, b)
		w.net.delay[a.slot*w.net.n+b.slot] = step.For
	}
}

func (w *story) partition(sides [][]election.ID) {
	var names []string
	for i, side := range sides {
		names = append(names, scenario.JoinIDs(side, ","))
		for _, other := range sides[i+1:] {
			for _, a := range side {
				for _, b := range other {
					w.cutLink(w.bySlot(a), w.bySlot(b))
					w.cutLink(w.bySlot(b), w.bySlot(a))
				}
			}
		}
	}
	w.noteOf("all:", "partition "+strings.Join(names, " | "), "")
}

// calmDown ends every fault except what is to stay: cuts heal, delays end, frozen processes
// thaw, disks work, second processes with a member's id crash. Dead members stay dead.
func (w *story) calmDown(but string) {
	for _, a := range w.procs[:w.net.n] {
		for _, b := range w.procs[:w.net.n] {
			if link := a.slot*w.net.n + b.slot; but == scenario.ButCuts && w.net.cut[link] {
				w.net.delay[link] = 0
			} else {
				w.healLink(a, b)
			}
		}
		if stays := a.disk.hangs() || w.quorum && a.disk.full; but != scenario.ButDisks || !stays {
			w.setDisk(a, 0, "ok")
		}
	}
	for _, p := range w.procs {
		if p.place != p.slot {
			w.crash(p, false)
		}
		w.thaw(p)
	}
}

// demand runs until all members have agreed for a while. It fails if the agreement does not
// begin within bound, and returns the time until it began. With promised, only groups with a
// promise of agreement must agree.
func (w *story) demand(bound time.Duration, promised bool) time.Duration {
	from, since, agreed := w.now, time.Duration(0), false
	stride, hold := w.setup.Timing.Heartbeat/2, w.setup.Hold()
	var last election.Token
	moves := w.moves
	for w.checks.broken == nil {
		t, _, ok := w.agreement(promised)
		switch {
		case !ok:
			agreed = false
		case !agreed || t != last || moves != w.moves:
			agreed, since, last, moves = true, w.now, t, w.moves
		}
		if agreed && w.now-since >= hold {
			return since - from
		}
		if !agreed && w.now-from > bound {
			w.disagree(bound, promised)
			break
		}
		if w.now-from > 3*bound {
			w.checks.fail(w.scene, w.procs[0], invariant.Endless, "after %v the agreement has still not lasted for %v", w.now-from, hold)
			break
		}
		told := w.checks.told
		w.runTo(w.now + stride)
		for agreed && w.checks.told == told && w.now-since < hold && w.checks.broken == nil {
			w.runTo(w.now + stride) // no member changes its leader: checked when its time is over
		}
	}
	return 0
}

// demandTold runs until every member has the metadata of its group, and breaks a rule if that
// takes longer than bound.
func (w *story) demandTold(bound time.Duration) {
	from := w.now
	for w.telling && w.checks.broken == nil {
		p, q := w.untold()
		if p == nil {
			return
		}
		if w.now-from > bound {
			w.checks.fail(w.scene, p, invariant.Told, "%v after the agreement it has %s as the metadata of %s, which publishes %q", w.now-from, p.told(q.rank.ID), q.rank.ID, q.says)
			return
		}
		w.runTo(w.now + w.setup.Timing.Heartbeat)
	}
}

// demandWritten runs until the disk of every member has its list, and breaks a rule if that takes
// longer than bound.
func (w *story) demandWritten(bound time.Duration) {
	late := func(p *process) bool {
		return p.condition == scenario.Alive && !p.disk.hangs() && w.unwritten(p)
	}
	for from := w.now; w.roster && w.checks.broken == nil; w.runTo(w.now + w.setup.Timing.Heartbeat) {
		i := slices.IndexFunc(w.procs, late)
		if i < 0 {
			return
		}
		if p := w.procs[i]; w.now-from > bound {
			w.checks.fail(w.scene, p, invariant.Kept, "%v after the agreement its disk lists %s", w.now-from, spellList(p.disk.now.Members))
		}
	}
}

// MembershipFaults returns the verbs of schedules in which members come and go. With Join, some
// members are newcomers.
func MembershipFaults() []scenario.Verb {
	return []scenario.Verb{scenario.Join, scenario.Leave, scenario.Add, scenario.Remove}
}

// meets returns "" if e holds, else what is the case instead.
func (w *judge) meets(e *scenario.Expectation) string {
	switch e.What {
	case "changes":
		return compare(int64(w.checks.changes), e, "changes of leader")
	case "lost":
		return compare(int64(w.checks.lost[w.slots[election.ID(e.Of)]]), e, fmt.Sprintf("losses of a leader at %s", e.Of))
	case "messages":
		return compare(int64(w.checks.counted[election.MessageKind(e.Of)]), e, fmt.Sprintf("%s messages", e.Of))
	case "refused":
		for _, p := range w.procs[w.net.n:] {
			if string(p.rank.ID) == e.Of && p.refused != nil && !p.view.Defined() {
				return ""
			}
		}
		return fmt.Sprintf("no second %s was refused", e.Of)
	case "halted":
		if p := w.bySlot(election.ID(e.Of)); p.condition != scenario.Dead || p.halted == nil {
			return fmt.Sprintf("%s is %s, and no Machine has halted it", p.rank.ID, p.condition)
		}
		return ""
	}
	for _, p := range w.procs[:w.net.n] {
		if p.machine == nil || p.condition != scenario.Alive && len(e.On) == 0 || len(e.On) > 0 && !slices.Contains(e.On, p.rank.ID) {
			continue
		}
		if got := w.meetsAt(p, e); got != "" {
			return got
		}
	}
	return ""
}

func (w *judge) meetsAt(p *process, e *scenario.Expectation) string {
	ok := true
	switch e.What {
	case "leader":
		ok = string(p.view.Leader.ID) == e.Of
	case "members":
		if got := scenario.JoinIDs(p.listed(), ","); got != e.Of {
			return fmt.Sprintf("%s lists %s", p.rank.ID, got)
		}
	case "told":
		if got := p.told(election.ID(e.Of)); got != e.Said {
			return fmt.Sprintf("%s has %s for what %s publishes", p.rank.ID, got, e.Of)
		}
	case "undefined":
		ok = !p.view.Defined()
	case "epoch":
		ok = p.view.Epoch == uint64(e.N)
	case "state":
		of := w.slots[election.ID(e.Of)]
		if got := w.checks.states[p.place*w.checks.n+of]; of != p.slot && got != e.State {
			return fmt.Sprintf("%s has %s as %q", p.rank.ID, e.Of, got)
		}
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%s, which is %s, has %s for its leader", p.rank.ID, p.condition, invariant.OrNone(p.view))
}

func compare(n int64, e *scenario.Expectation, what string) string {
	ok := map[string]bool{"=": n == e.N, "<": n < e.N, "<=": n <= e.N, ">": n > e.N, ">=": n >= e.N}[e.Op]
	if ok {
		return ""
	}
	return fmt.Sprintf("there were %d %s", n, what)
}
