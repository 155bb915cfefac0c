package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest/oath"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// process is a member's process on its host: it drives the Machine as the runtime does.
type process struct {
	place int // in world.procs
	slot  int // of its id; a second claimant shares it
	rank  election.Rank

	machine      machine.Core
	namedProcess // elections besides the cluster's own
	condition    scenario.Condition
	life         uint64 // incremented at every start and end; events of an earlier life are dropped
	incarnation  uint64
	clock        clock
	disk         disk

	wakeAt    time.Duration // the earliest wake scheduled, or never
	frozenAt  time.Duration // own time of the freeze
	stall     time.Duration // how long the last freeze lasted, until the first step after it
	working   bool
	observer  bool            // it follows and never leads
	timing    election.Timing // of this life
	times     election.Timing // of its next life
	unhealthy bool            // its health check has failed
	savedErr  error
	hasSaved  bool // a save ended while frozen, with savedErr
	after     []election.Event
	busy      bool
	guard     guard // of its leadership, while it lives

	joining
	ending bool  // it ends as soon as its work has stopped
	leaves bool  // and gives up its membership
	moves  int   // how often its address has changed
	halted error // why its Machine takes no further part; nil: it does

	peers   []peer      // by slot
	stalled []*endpoint // arrivals that wait for a thaw
	runs    []int       // in world.waits: those that go on

	view    election.Token // as announced to its watchers; zero: undefined
	says    string         // its metadata; empty: none
	refused error          // why its hello was refused; nil: it was not
	resting bool           // asked to resign, and neither restarted nor asked to campaign since
	retired bool           // there is no work for it as a leader
	started time.Duration
	heldAt  time.Duration // when the disk's token last changed
}

// peer is a process's state about a member.
type peer struct {
	ends    []*endpoint
	heard   bool          // in this life
	known   bool          // the Machine has reported it as added; kept only where the list changes
	since   time.Duration // of known
	dropped time.Duration // when the Machine last reported it as removed
}

const never = time.Duration(1<<63 - 1)

func (p *process) reset(place, slot int, r election.Rank, n int) {
	life := p.life + 1
	peers, stalled, after := p.peers, p.stalled[:0], p.after[:0]
	if cap(peers) < n {
		peers = make([]peer, n)
	}
	peers = peers[:n]
	for i := range peers {
		clear(peers[i].ends)
		peers[i] = peer{ends: peers[i].ends[:0]}
	}
	*p = process{place: place, slot: slot, rank: r, life: life, wakeAt: never,
		peers: peers, stalled: stalled, after: after}
}

func (w *world) start(p *process) error {
	p.life++
	p.timing = p.times
	p.incarnation = w.newest(p.slot) + 1
	p.condition, p.started = scenario.Alive, w.now
	p.view, p.working, p.resting, p.retired, p.unhealthy, p.refused = election.Token{}, false, false, false, false, nil
	p.wakeAt, p.hasSaved, p.stall, p.disk.saves = never, false, 0, false
	p.ending, p.leaves, p.halted, p.says = false, false, nil, ""
	p.back = p.back[:0]
	for i := range p.peers {
		p.peers[i].heard = false
	}
	c := machine.Config{
		Self: p.rank, Address: w.address(p), Members: w.list, Algorithm: w.make(), Timing: p.timing,
		NoPreempt: w.setup.NoPreempt, NoDetector: w.setup.NoDetector, Observer: p.observer, LeadUnhealthy: w.setup.LeadUnhealthy,
		Incarnation: p.incarnation, Seed: w.rng.Uint64(),
	}
	_, w.quorum = c.Algorithm.(machine.CoreMaker)
	if len(p.through) > 0 {
		c.Members, c.Joins, c.Newcomer = nil, true, w.setup.Newcomer // the member that admits it sends the list
	}
	if len(w.setup.Lists) > 0 {
		c.Members = slices.DeleteFunc(slices.Clone(c.Members), func(e election.Member) bool { return !w.setup.Has(p.rank.ID, e.ID) })
	}
	c.Expect, c.MinMembers, c.ReapAfter = w.setup.Expect, w.setup.MinMembers, w.setup.ReapAfter
	c.CompactAfter = w.setup.CompactAfter
	if !w.setup.NoDisk {
		c.State, c.Records = p.disk.now, p.disk.log
	}
	if w.log != nil {
		c.Trace = w.record
	}
	if w.setup.Settled && w.now == 0 {
		w.settle(p, &c)
	}
	w.checks.startedLife(&w.scene, p)
	m, err := machine.NewCore(c)
	if err != nil {
		return err
	}
	p.machine = m
	w.beginNamed(p, c)
	if w.roster {
		w.checks.enrolled(&w.scene, p)
	}
	if len(p.through) > 0 {
		w.beginJoin(p)
		return nil
	}
	w.step(p, &election.Event{Kind: election.Started})
	return nil
}

// settle makes a process begin in a leadership that all members agree on.
func (w *world) settle(p *process, c *machine.Config) {
	t := election.Token{Epoch: 1, Leader: w.setup.SettledLeader()}
	p.disk.now = election.State{ID: p.rank.ID, Incarnation: p.incarnation, Token: t}
	p.disk.before = p.disk.now
	c.State, c.Following = election.State{}, t
	w.checks.top = max(w.checks.top, t.Epoch)
	w.checks.allUp(p)
	if t.Leader.ID != p.rank.ID {
		w.checks.claims[t] = w.slots[t.Leader.ID]
	}
}

// step is a turn of the driver's loop, including what follows at once.
func (w *world) step(p *process, ev *election.Event) {
	if p.busy {
		p.after = append(p.after, *ev)
		return
	}
	w.turn(p, func() { w.stepOnce(p, ev) })
}

// turn calls first and handles all that follows from it at once.
func (w *world) turn(p *process, first func()) {
	p.busy = true
	first()
	for i := 0; i < len(p.after) && p.condition == scenario.Alive; i++ {
		next := p.after[i]
		w.stepOnce(p, &next)
		if i > 1000 {
			w.checks.fail(&w.scene, p, invariant.Rest, "it has taken 1000 steps without pausing")
			break
		}
	}
	p.busy = false
	if w.log != nil {
		waits(w, p)
	}
	if len(p.after) > 0 {
		clear(p.after)
		p.after = p.after[:0]
	}
	switch {
	case p.condition != scenario.Alive:
	case p.ending && !p.working && len(p.toils) == 0:
		w.exit(p)
	default:
		w.arm(p)
	}
}

func (w *world) stepOnce(p *process, ev *election.Event) {
	w.stepBy(p, ev, func(at time.Time) []election.Action {
		if p.assigned == nil {
			return p.machine.Step(at, *ev)
		}
		return p.assigned.Step(at, *ev)
	})
	if w.roster {
		w.checks.performed(&w.scene, p)
	}
}

// stepBy calls step and performs its actions.
func (w *world) stepBy(p *process, ev *election.Event, step func(time.Time) []election.Action) {
	now := epochOfTime.Add(p.clock.at(w.now))
	w.checks.about(&w.scene, p, now)
	actions := step(now)
	w.checks.stepped(&w.scene, p, ev.Message, actions) // the event itself stays off the heap
	p.stall = 0
	changes := w.namedChanges(p)
	for i := range actions {
		w.perform(p, &actions[i])
	}
	w.namedFollows(p, changes)
}

func (w *world) perform(p *process, a *election.Action) {
	switch a.Kind {
	case election.NotifyElected, election.NotifyLost, election.NotifyRenewed:
		w.elect(p, a)
	case election.Save:
		w.save(p, a.State)
	case election.Send:
		w.send(p, a.To, a.Message)
	case election.Dial:
		w.dial(p, a.To)
	case election.Hangup:
		w.hangup(p, a.To)
	case election.Notify:
		w.checks.notified(&w.scene, p, a)
		if a.Status == election.StateRemoved {
			w.hangup(p, a.Member)
		}
	case election.Rejoin:
		w.rejoin(p, a.To)
	case election.Halt:
		w.checks.halts(&w.scene, p, a.Err)
		w.quit(p, a.Err)
	case election.Append:
		w.appendLog(p, a)
	case election.Warn:
		w.note(p, "warns", a.Err.Error())
	}
}

func (w *world) elect(p *process, a *election.Action) {
	w.checks.elected(&w.scene, p, a)
	if a.Kind == election.NotifyRenewed {
		p.view = a.Token
		return
	}
	if a.Kind == election.NotifyElected {
		p.view = a.Token
		if w.setup.Work && a.Token.Leader.ID == p.rank.ID {
			p.working = true
			w.step(p, &election.Event{Kind: election.Working, On: true})
		}
		if w.setup.Option == "attested" && a.Token.Leader.ID == p.rank.ID {
			swear(w, p, a.Token)
		}
		return
	}
	if a.Token.Leader.ID == p.rank.ID {
		p.guard.Takes(oath.Oath{})
	}
	p.view = election.Token{}
	if p.working && a.Token.Leader.ID == p.rank.ID {
		w.queue.push(occurrence{at: w.now + w.setup.Drain, kind: workDone, place: int32(p.place), life: p.life})
	}
}

func (w *world) workStopped(p *process, life uint64) {
	if p.life != life || !p.working {
		return
	}
	if p.condition == scenario.Frozen { // it goes on after the thaw
		w.queue.push(occurrence{at: w.now + w.setup.Timing.Heartbeat, kind: workDone, place: int32(p.place), life: life})
		return
	}
	p.working = false
	w.step(p, &election.Event{Kind: election.Working})
}

// arm schedules the next wake. A needless earlier wake is cheaper than to cancel it.
func (w *world) arm(p *process) {
	deadline, ok := p.deadline()
	if !ok {
		return
	}
	at := max(p.clock.when(own(deadline)), w.now)
	if at < p.wakeAt {
		p.wakeAt = at
		w.queue.push(occurrence{at: at, kind: wake, place: int32(p.place), life: p.life})
	}
}

func (w *world) wakeUp(p *process, life uint64) {
	if p.life != life || p.condition != scenario.Alive || p.wakeAt > w.now {
		return
	}
	p.wakeAt = never
	deadline, ok := p.deadline()
	if ok && p.clock.at(w.now) >= own(deadline) {
		w.step(p, &election.Event{Kind: election.Woke})
		return
	}
	w.arm(p)
}

// save writes outside of the loop.
func (w *world) save(p *process, s election.State) {
	if w.setup.NoDisk {
		w.step(p, &election.Event{Kind: election.Saved})
		return
	}
	w.checks.saves(&w.scene, p, s.Token)
	p.disk.saving, p.disk.saves, p.disk.next, p.disk.began = true, true, write{state: s}, p.clock.at(w.now)
	w.writes(p, w.now+w.rng.In(w.setup.Fsync)+p.disk.slow)
}

func (w *world) saved(p *process, life uint64) {
	if p.life != life || !p.disk.saving || w.now != p.disk.due {
		return
	}
	err := w.writeOut(p)
	if p.condition == scenario.Frozen {
		p.hasSaved, p.savedErr = true, err
		return
	}
	w.step(p, &election.Event{Kind: election.Saved, Err: err})
}

// guard is the process next to a leader that attests its end. It outlives the leader's process.
type guard struct {
	oath.Witness
	place int    // of the leader
	life  uint64 // the life of that place after the leader's end
	sent  bool
}

// swear gives the guard of a leader its secret, and the leader the commitment.
func swear(w *world, p *process, t election.Token) {
	if p.guard = (guard{}); w.rng.One(8) {
		return // it has none
	}
	var secret []byte
	for range oath.Size / 8 {
		secret = binary.BigEndian.AppendUint64(secret, w.rng.Uint64())
	}
	p.guard.Takes(oath.Oath{Token: t, Secret: secret})
	p.guard.Works(true)
	core := p.machine.(interface{ Commits(secret []byte) []byte })
	w.step(p, &election.Event{Kind: election.Sworn, Token: t, Proof: core.Commits(secret)})
}

// orphan makes the guard of a crashed leader end the work. The guard may have been killed too,
// or may take longer than the lease.
func orphan(w *world, p *process) {
	g := p.guard
	if p.guard = (guard{}); !g.Swore() || w.rng.One(6) {
		return
	}
	g.place, g.life = p.place, p.life
	g.Died()
	w.guards = append(w.guards, g)
	attestNow(w, len(w.guards)-1)
	longest := w.setup.Timing.Heartbeat / 4
	if w.rng.One(4) {
		longest = 3 * w.setup.Timing.T()
	}
	w.queue.push(occurrence{at: w.now + w.rng.In(scenario.Span{Max: longest}), kind: workGone, place: int32(len(w.guards) - 1)})
}

// guardSeesEnd handles that nothing is left of a crashed leader's work.
func guardSeesEnd(w *world, i int32) {
	g := &w.guards[i]
	w.checks.lease.orphaned(g.place, g.life)
	g.Works(false)
	attestNow(w, int(i))
}

// attestNow sends the secret to all members once there is something to attest. It may arrive
// late, twice or not at all.
func attestNow(w *world, i int) {
	g := &w.guards[i]
	if _, ok := g.Attests(); !ok || g.sent {
		return
	}
	g.sent = true
	for _, q := range w.procs {
		for copies := [...]int{0, 1, 1, 1, 1, 1, 1, 2}[w.rng.Below(8)]; copies > 0 && w.reach(w.procs[g.place], q); copies-- {
			late := w.rng.In(w.setup.Latency)
			if w.rng.One(8) {
				late = w.rng.In(scenario.Span{Max: 4 * w.setup.Timing.T()})
			}
			w.queue.push(occurrence{at: w.now + late, kind: attested, place: int32(i), life: uint64(q.place)})
		}
	}
}

// handProof delivers a secret to a process.
func handProof(w *world, o *occurrence) {
	switch p := w.procs[o.life]; p.condition {
	case scenario.Alive:
		oath, _ := w.guards[o.place].Attests()
		w.step(p, &election.Event{Kind: election.Attested, Proof: oath.Secret})
	case scenario.Frozen: // it comes after the thaw
		late := *o
		late.at = w.now + w.setup.Timing.Heartbeat
		w.queue.push(late)
	}
}

func (w *world) end(p *process, c scenario.Condition) {
	p.condition = c
	p.life++
	w.checks.disturbedAt(p, w.now)
	w.checks.ending(&w.scene, p)
	if p.disk.saving && w.rng.One(2) {
		_ = w.writeOut(p) // it was written, but the process was gone
	}
	if left := p.disk.left; left.appends() || left.state.ID != election.None {
		w.put(p, left)
	}
	p.disk.saving = false
	w.checks.ended(&w.scene, p, c)
	p.view, p.working, p.hasSaved = election.Token{}, false, false
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
