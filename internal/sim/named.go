package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// namedProcess is the state of a process in named elections.
type namedProcess struct {
	assigned *named.Core                // nil: the script has no named elections
	stoodFor map[string]named.Candidacy // in later lives too

	leads map[string]lead          // now, as announced to it
	led   map[string]uint64        // the highest epoch that it has led under in this life
	toils map[string]bool          // the names with running work
	sees  map[place]election.Token // as announced to its watchers
	tops  map[place]uint64         // the highest epoch announced to them
	ends  []ending                 // of work that was asked to stop
}

// place is a slot of a named election.
type place struct {
	name string
	seat int
}

// lead is a process's leadership of a named election.
type lead struct {
	election.Token
	seat int
}

type ending struct {
	at   time.Duration
	name string
}

// electionsOf returns the names of a script's named elections, in order.
func electionsOf(s *scenario.Scenario) (names []string) {
	for i := range s.Steps {
		if s.Steps[i].Do == scenario.Stand {
			names = append(names, s.Steps[i].Word)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namedPart is so low that lists of more than two names take several messages, as lists of more
// than two thousand do in production.
const namedPart = 100

// namedBound returns how much longer than the cluster itself named elections may take: two
// expiries of old leaderships, requests for lost messages, and two hand-overs.
func namedBound(s scenario.Setup) time.Duration {
	return 3*wait(s.Timing) + 20*s.Timing.T() + 3*s.Drain + 40*s.Timing.Heartbeat
}

// beginNamed makes a process a candidate of its former names.
func (w *world) beginNamed(p *process, c machine.Config) {
	p.namedProcess = namedProcess{stoodFor: p.stoodFor}
	if len(w.contested) == 0 {
		return
	}
	p.leads, p.led, p.toils, p.sees, p.tops = map[string]lead{}, map[string]uint64{}, map[string]bool{}, map[place]election.Token{}, map[place]uint64{}
	if p.stoodFor == nil {
		p.stoodFor = map[string]named.Candidacy{}
	}
	p.assigned = named.New(p.machine, c, namedPart)
	at := epochOfTime.Add(p.clock.at(w.now))
	for _, name := range slices.Sorted(maps.Keys(p.stoodFor)) {
		p.assigned.Campaign(at, named.Stand{Name: name, Candidacy: p.stoodFor[name]})
	}
}

func (w *world) request(p *process, r named.Request) {
	w.command(p, func(at time.Time) []election.Action {
		_, actions := p.assigned.Request(at, r)
		return actions
	})
}

// command calls f on a process between its steps.
func (w *world) command(p *process, f func(time.Time) []election.Action) {
	if p.condition != scenario.Alive || p.assigned == nil {
		return
	}
	w.turn(p, func() { w.stepBy(p, &election.Event{Kind: election.Woke}, f) })
}

// namedChanges handles the changes of the last step: work is notified first.
func (w *world) namedChanges(p *process) []named.Change {
	if p.assigned == nil {
		return nil
	}
	changes := slices.Clone(p.assigned.Changes())
	for i := range changes {
		w.namedChange(p, &changes[i])
	}
	return changes
}

func (w *world) namedChange(p *process, ch *named.Change) {
	if ch.Gone && !ch.Lost {
		return
	}
	w.moves++
	w.checks.told++
	w.checks.namedChanged(&w.scene, p, ch)
	mine := ch.Token.Leader.ID == p.rank.ID
	at := place{ch.Name, ch.Seat}
	if ch.Lost {
		delete(p.sees, at)
		if mine {
			delete(p.leads, ch.Name)
			p.ends = append(p.ends, ending{w.now + w.setup.Drain, ch.Name})
			w.queue.push(occurrence{at: w.now + w.setup.Drain, kind: namedDone, place: int32(p.place), life: p.life})
		}
		return
	}
	p.sees[at], p.tops[at] = ch.Token, ch.Token.Epoch
	if mine {
		p.leads[ch.Name], p.led[ch.Name] = lead{ch.Token, ch.Seat}, ch.Token.Epoch
	}
}

// namedFollows starts the work of leaderships that the last step brought.
func (w *world) namedFollows(p *process, changes []named.Change) {
	for i := range changes {
		name := changes[i].Name
		if !p.leads[name].Defined() || p.leads[name].Token != changes[i].Token || changes[i].Lost || p.toils[name] || p.condition != scenario.Alive {
			continue
		}
		p.toils[name] = true
		w.stepBy(p, &election.Event{Kind: election.Woke}, func(at time.Time) []election.Action { return p.assigned.Begin(at, []string{name}) })
	}
}

// namedStopped handles that the work of former leaders has stopped.
func (w *world) namedStopped(p *process, life uint64) {
	if p.life != life {
		return
	}
	if p.condition == scenario.Frozen { // it goes on after the thaw
		w.queue.push(occurrence{at: w.now + w.setup.Timing.Heartbeat, kind: namedDone, place: int32(p.place), life: life})
		return
	}
	for i := 0; i < len(p.ends); {
		e := p.ends[i]
		if e.at > w.now {
			i++
			continue
		}
		p.ends = slices.Delete(p.ends, i, i+1)
		delete(p.toils, e.name)
		w.command(p, func(at time.Time) []election.Action { return p.assigned.Stopped(at, []string{e.name}) })
	}
}
