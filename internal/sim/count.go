package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// CountConfig is the election whose messages are counted. The zero value of each optional field
// works.
type CountConfig struct {
	Algorithm string        // required; passed to the [scenario.Maker]
	Option    string        // the algorithm's own option
	Nodes     int           // required: members 1 to n
	Start     []election.ID // the members that begin, all at the same instant; default: the lowest live member
	Crashed   []election.ID // dead and not detected yet; on a ring, a sender to a dead member detects it
	Seed      uint64
}

// CountResult is the cost of an election.
type CountResult struct {
	Leader   election.ID
	Messages map[election.MessageKind]int // sent, to dead members too
	Rounds   int                          // the highest round number of any message
	Units    int                          // virtual time until the last message arrived, in message delays
}

// unit is how long a message takes when messages are counted.
const unit = time.Millisecond

// Count runs an election under the conventions of textbooks. Every message takes a unit, t_max
// is two, handling takes none, and there is no detector. All members have settled under the
// highest member, which may be dead. Every message sent counts. A ring must skip dead members,
// so there the sender to a dead member is notified.
func Count(maker scenario.Maker, c CountConfig) (CountResult, error) {
	s, err := c.setup()
	if err != nil {
		return CountResult{}, err
	}
	fresh, err := maker(c.Algorithm, c.Option)
	if err != nil {
		return CountResult{}, err
	}
	w := newStory()
	if err := w.reset(s, fresh, nil); err != nil {
		return CountResult{}, err
	}
	_, w.refuses = fresh().(interface{ Successor() election.ID })
	w.runTo(w.now + 10*unit) // the first messages pass
	w.checks.mark()
	start := c.Start
	if len(start) == 0 {
		lowest := slices.IndexFunc(s.Members, func(r election.Rank) bool { return !slices.Contains(c.Crashed, r.ID) })
		start = []election.ID{s.Members[lowest].ID}
	}
	from := w.now
	for _, id := range start {
		w.instruct(w.bySlot(id), election.Campaign)
	}
	return w.countResult(from)
}

func (c CountConfig) setup() (scenario.Setup, error) {
	if c.Nodes < 1 || c.Nodes > scenario.MaxMembers {
		return scenario.Setup{}, fmt.Errorf("%d members: give 1 to %d", c.Nodes, scenario.MaxMembers)
	}
	s := scenario.Setup{Algorithm: c.Algorithm, Option: c.Option, NoDetector: true, NoDisk: true, Seed: c.Seed,
		Latency: scenario.Span{Min: unit, Max: unit}, Timing: election.Timing{Heartbeat: 1, TMax: 2 * unit, TProcess: 1}}
	for i := 1; i <= c.Nodes; i++ {
		s.Members = append(s.Members, election.Rank{ID: election.ID(strconv.Itoa(i))})
	}
	for _, id := range slices.Concat(c.Start, c.Crashed) {
		if !slices.Contains(s.Members, election.Rank{ID: id}) {
			return scenario.Setup{}, fmt.Errorf("member %q: give one of 1 to %d", id, c.Nodes)
		}
	}
	for _, id := range c.Start {
		if slices.Contains(c.Crashed, id) {
			return scenario.Setup{}, fmt.Errorf("member %s cannot start an election: it is among the crashed", id)
		}
	}
	if len(c.Crashed) >= c.Nodes {
		return scenario.Setup{}, fmt.Errorf("all %d members are crashed: leave one alive", c.Nodes)
	}
	s.Absent, s.Settled = c.Crashed, true
	return s, s.Validate()
}

// countResult waits until no message is on its way and no timer runs.
func (w *story) countResult(from time.Duration) (CountResult, error) {
	r := CountResult{Messages: map[election.MessageKind]int{}}
	last := from
	limit := from + time.Duration(100+20*len(w.procs))*unit
	for {
		o, ok := w.queue.due(limit)
		if !ok || w.checks.broken != nil {
			break
		}
		w.now = o.at
		if o.kind == datagramArrival && w.datagrams.flights[o.place].to.condition == scenario.Alive {
			last = o.at
		}
		w.happen(&o)
	}
	if w.checks.broken != nil {
		return r, w.checks.broken
	}
	for _, p := range w.procs {
		if p.condition != scenario.Alive {
			continue
		}
		if r.Leader != election.None && r.Leader != p.view.Leader.ID {
			return r, fmt.Errorf("no agreement after %v: %s follows %s, another follows %s", w.now-from, p.rank.ID, p.view.Leader.ID, r.Leader)
		}
		r.Leader = p.view.Leader.ID
	}
	if w.bySlot(r.Leader).condition != scenario.Alive {
		return r, fmt.Errorf("%s is taken for the leader and is dead: no member has detected it", r.Leader)
	}
	maps.Copy(r.Messages, w.checks.counted)
	r.Rounds = int(w.checks.rounds)
	r.Units = int((last - from) / unit)
	return r, nil
}
