package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// scene is the members, what connects them, and the run so far: what checkers and judges look at.
// It steps no process.
type scene struct {
	setup     scenario.Setup
	make      func() election.Algorithm
	quorum    bool              // the algorithm promises never to have two leaders
	list      []election.Member // as each Machine is given it, newcomers left out
	roster    bool              // the list changes
	telling   bool              // members have published metadata
	slots     map[election.ID]int
	contested []string       // the script's named elections, in order
	seats     map[string]int // the most slots of any candidacy

	now   time.Duration
	queue queue
	rng   draw.RNG
	procs []*process // the first len(setup.Members) by rank; a second claimant of an id after them

	net    network
	checks checks
	moves  int               // changes of leaders of named elections
	log    func(trace.Entry) // nil: no log
}

func (w *scene) note(p *process, what, why string) { w.noteOf(p.rank.ID, what, why) }

// noteOf logs what is done to a member, a link or all.
func (w *scene) noteOf(of election.ID, what, why string) {
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: of, What: what, Why: why, Fault: true})
	}
}

// record logs a Machine's own record. The network logs messages, since it can match arrivals
// with departures.
func (w *scene) record(r election.Record) {
	if r.What == "sends" || r.What == "receives" {
		return
	}
	e := trace.Entry{At: w.now, Member: r.Member, What: r.What, Peer: r.Peer, Token: r.Token, Why: r.Why}
	if slices.Contains(w.contested, r.Election) {
		e.Named = r.Election
	}
	w.log(e)
}

func (w *scene) bySlot(id election.ID) *process {
	i, ok := w.slots[id]
	if !ok {
		panic(fmt.Sprintf("sim: %q is no member: the script's parser let it through", id))
	}
	return w.procs[i]
}

// name returns the id, with a prime for a second claimant.
func (w *scene) name(p *process) election.ID {
	if p.place == p.slot {
		return p.rank.ID
	}
	return p.rank.ID + "'"
}

// address returns where a process is dialed. A second claimant's address is on the list only if
// it has joined. If it has its list from a configuration, the member's own address is.
func (w *scene) address(p *process) string {
	if len(p.through) == 0 {
		return string(p.rank.ID)
	}
	return string(w.name(p)) + strings.Repeat("+", p.moves)
}

// newest returns the highest incarnation of any process with an id.
func (w *scene) newest(slot int) uint64 {
	newest := w.procs[slot].incarnation
	for _, q := range w.procs[w.net.n:] {
		if q.slot == slot {
			newest = max(newest, q.incarnation)
		}
	}
	return newest
}

// listed returns the process that listens at the address of a member on p's list; nil: none does.
func (w *scene) listed(p *process, slot int) *process {
	at := w.procs[slot]
	if len(w.procs) == w.net.n && at.moves == 0 {
		return at
	}
	e, known := p.machine.Entry(at.rank.ID)
	for _, q := range w.procs[w.net.n:] {
		if q.slot == slot && e.Address == string(w.name(q)) {
			return q
		}
	}
	if at.moves > 0 && known && e.Address != w.address(at) {
		return nil
	}
	return at
}

func (w *scene) logReceipt(p *process, m *election.Message, flight uint64) {
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "receives", Peer: m.From, Token: m.Token,
			Message: m, Flight: flight})
	}
}

// doubled reports whether a second process has this id.
func (w *scene) doubled(slot int) bool {
	return slices.ContainsFunc(w.procs[w.net.n:], func(q *process) bool { return q.slot == slot && q.condition != scenario.Dead })
}

// everDoubled reports whether a second process has had this id. The two share no disk, and may
// claim the same token if they cannot reach each other.
func (w *scene) everDoubled(slot int) bool {
	return slices.ContainsFunc(w.procs[w.net.n:], func(q *process) bool { return q.slot == slot })
}

// born returns since when a process takes part. A process that joins is admitted first. It then
// leaves elections to the rest, until a leader would have reached it over a new link.
func (w *scene) born(p *process) time.Duration {
	if len(p.through) == 0 {
		return p.started
	}
	return p.begunAt + w.setup.Timing.DialTime() + w.setup.Timing.T()
}

func (w *scene) reach(a, b *process) bool {
	return !w.net.cut[a.slot*w.net.n+b.slot] && !w.net.cut[b.slot*w.net.n+a.slot]
}

// mayLead reports whether a member may lead at all, even as a last resort.
func (w *scene) mayLead(p *process) bool {
	return !p.observer && !p.ending && !p.retired && (!p.unhealthy || w.setup.LeadUnhealthy)
}

// throughThese sets the members that p asks for admission.
func (w *scene) throughThese(p *process, members []election.ID) {
	p.through = p.through[:0]
	for _, id := range members {
		p.through = append(p.through, w.slots[id])
	}
}

func spell(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// deadline returns when p is to be stepped next.
func (p *process) deadline() (time.Time, bool) {
	if p.assigned != nil {
		return p.assigned.Deadline()
	}
	return p.machine.Deadline()
}

// onOwnList reports whether p is on its own list.
func (p *process) onOwnList() bool {
	e, ok := p.machine.Entry(p.rank.ID)
	return ok && e.Departure == election.Present
}

// told returns the metadata of a member, according to p.
func (p *process) told(id election.ID) string {
	for _, v := range p.machine.Members() {
		if word, ok := v.Meta[said]; ok && v.ID == id {
			return word
		}
	}
	return scenario.Nothing
}

// said is the key of the metadata that members of the lab publish.
const said = "says"

// write is what a write puts on a disk: a state, or records.
type write struct {
	state    election.State
	records  [][]byte // to the log
	replaces bool     // they replace the whole log
}

func (c *write) appends() bool { return len(c.records) > 0 }

// disk keeps the saved state, and the state before it.
type disk struct {
	log         [][]byte // the records of a core that has its own log
	now, before election.State
	next        write // the outstanding write, or the last
	left        write // a refused write that is there after a crash; zero: none

	saving     bool
	saves      bool          // it has saved in this life
	slow       time.Duration // on top of the usual time
	began, due time.Duration // of the outstanding write: its start, by the clock of its process, and its end
	failing    bool
	full       bool
	room       int  // while it is full: the longest list that it takes
	failed     bool // the last save was refused
	rolledBack bool // ever
}

// writes sets the end of the outstanding write.
func (w *scene) writes(p *process, due time.Duration) {
	p.disk.due = due
	w.queue.push(occurrence{at: due, kind: diskDone, place: int32(p.place), life: p.life})
}

// hung is how long a hung disk takes: longer than any run.
const hung = 100 * 365 * 24 * time.Hour

// hangs reports whether a write will not end within any bound.
func (d *disk) hangs() bool { return d.slow >= time.Minute }

// stuck reports whether a disk takes no write at all that a quorum's member asks for: the first needs a
// new file.
func (d *disk) stuck() bool { return d.hangs() || d.full && len(d.log) == 0 }

// unsaved reports whether a member may follow a leadership that is not on its disk: the disk has
// refused it, or has not answered for T.
func (w *scene) unsaved(p *process) bool {
	return p.disk.failed || p.disk.saving && p.clock.at(w.now)-p.disk.began >= w.setup.Timing.T()
}

// unwritten reports whether a list that has changed is neither on disk nor on its way there. What a
// process starts with is in its configuration.
func (w *scene) unwritten(p *process) bool {
	d := &p.disk
	return !w.quorum && !w.setup.NoDisk && d.saves && !d.saving && p.condition == scenario.Alive && !slices.Equal(d.now.Members, p.machine.List())
}

// setDisk changes how a disk works. A disk that recovers soon ends a slow write.
func (w *scene) setDisk(p *process, slow time.Duration, state string) {
	if fills := state == "full" && !p.disk.full; fills && p.machine != nil {
		p.disk.room = len(p.machine.List())
	}
	p.disk.slow, p.disk.failing, p.disk.full = slow, state == "fail", state == "full"
	if soon := w.now + w.setup.Fsync.Max; p.disk.saving && slow == 0 && p.disk.due > soon {
		w.writes(p, soon)
	}
}

var errDisk = errors.New("the simulated disk refuses to write")

// refuses reports whether the disk refuses the outstanding write. On a full disk a state overwrites
// the state before the last, and fits unless its list is longer than any before. A log has room
// for further records, and none for the second file that is to replace it.
func (d *disk) refuses() bool {
	if d.full && d.next.appends() {
		return d.next.replaces
	}
	return d.failing || d.full && len(d.next.state.Members) > d.room
}

func (w *scene) writeOut(p *process) error {
	d := &p.disk
	d.saving = false
	if d.failed = d.refuses(); d.failed || d.slow > 0 {
		w.checks.fault = w.now
	}
	if d.failed {
		if w.setup.LateWrites && w.rng.One(2) {
			d.left = d.next
		}
		return errDisk
	}
	w.put(p, d.next)
	return nil
}

// put changes what is on disk. A refused write was to take the same place.
func (w *scene) put(p *process, c write) {
	d := &p.disk
	d.left = write{}
	if c.appends() {
		if c.replaces {
			d.log = nil
		}
		d.log = append(d.log, c.records...)
		return
	}
	if d.now.Token != c.state.Token {
		p.heldAt = w.now
	}
	d.before, d.now = d.now, c.state
}

// appendLog writes records outside of the loop.
func (w *scene) appendLog(p *process, a *election.Action) {
	w.checks.saves(w, p, election.Token{})
	d := &p.disk
	d.saving, d.next, d.began = true, write{records: slices.Clone(a.Records), replaces: a.Replace}, p.clock.at(w.now)
	w.writes(p, w.now+w.rng.In(w.setup.Fsync)+d.slow)
}

// epochOfTime is the start of every simulated clock.
var epochOfTime = time.Unix(0, 0).UTC()

// own returns a time of a member as its clock has it. Unlike time.Time.Sub, it costs next to nothing.
func own(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// clock is a member's own. It drifts by parts per million, and leaps where a driver detects that
// time has passed unseen.
type clock struct {
	since time.Duration // world time of the last change of rate
	local time.Duration // own time then
	ppm   int64
}

const million = 1_000_000

func (c *clock) at(world time.Duration) time.Duration {
	d := world - c.since
	return c.local + d + d/million*time.Duration(c.ppm) + d%million*time.Duration(c.ppm)/million
}

// when returns the first moment of the world at which the clock shows local or more.
func (c *clock) when(local time.Duration) time.Duration {
	if c.ppm == 0 {
		return c.since + local - c.local
	}
	d := local - c.local
	w := c.since + d - d/million*time.Duration(c.ppm)
	for range 64 { // each turn leaves a millionth of the error
		gap := local - c.at(w)
		if gap == 0 {
			break
		}
		w += gap
	}
	for c.at(w) < local {
		w++
	}
	return w
}

func (c *clock) drift(world time.Duration, ppm int64) {
	c.local, c.since, c.ppm = c.at(world), world, ppm
}

func (c *clock) leap(world, d time.Duration) {
	c.local, c.since = c.at(world)+d, world
}
