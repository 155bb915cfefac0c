package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// world is everything outside of the Machines: time, network, disks and processes. It is used
// for many schedules; reset keeps the memory it has allocated.
type world struct {
	setup   scenario.Setup
	make    func() election.Algorithm
	quorum  bool              // the algorithm promises never to have two leaders
	list    []election.Member // as each Machine is given it, newcomers left out
	roster  bool              // the list changes
	telling bool              // members have published metadata
	slots   map[election.ID]int
	named   bool           // there are named elections
	seats   map[string]int // the most slots of any candidacy

	now    time.Duration
	queue  queue
	rng    rng
	guards []guard    // of crashed leaders
	procs  []*process // the first len(setup.Members) by rank; a second claimant of an id after them

	net         network
	checks      checks
	datagrams   datagrams
	refuses     bool // the sender of a datagram to a dead member is notified that it is down
	flights     uint64
	connections uint64            // opened so far, each counted at both its ends
	moves       int               // changes of leaders of named elections
	log         func(trace.Entry) // nil: no log
	waits       []Wait            // while there is a log
}

func newWorld() *world {
	w := &world{slots: map[election.ID]int{}}
	w.checks.register()
	return w
}

// reset makes a new world of s, whose fields are filled and valid.
func (w *world) reset(s scenario.Setup, maker func() election.Algorithm, log func(trace.Entry)) error {
	w.setup, w.make, w.log = s, maker, log
	w.quorum, w.telling = false, false // until a process starts
	w.moves, w.waits = 0, nil
	w.now, w.flights, w.connections = 0, 0, 0
	w.queue.reset()
	w.guards = w.guards[:0]
	w.rng.seed(s.Seed)
	w.list = w.list[:0]
	clear(w.slots)
	for i, r := range s.Members {
		w.slots[r.ID] = i
		if !slices.Contains(s.Newcomers, r.ID) {
			if !s.Settled && !s.NoDetector {
				r.Priority = 0 // a configured list has no priorities: each process announces its own
			}
			w.list = append(w.list, election.Member{Rank: r, Address: string(r.ID), Observer: slices.Contains(s.Observers, r.ID)})
		}
	}
	w.procs = resized(w.procs, len(s.Members))
	w.net.reset(len(s.Members))
	w.setLatencies()
	w.datagrams.reset()
	w.refuses = false
	w.checks.reset(w)
	for i, r := range s.Members {
		w.procs[i].reset(i, i, r, len(s.Members))
		w.procs[i].times = s.Timing
		w.procs[i].observer = slices.Contains(s.Observers, r.ID)
	}
	for i := range w.setup.Members {
		if w.absent(w.procs[i].rank.ID) {
			continue
		}
		if err := w.start(w.procs[i]); err != nil {
			return err
		}
	}
	return nil
}

// resized returns a list of n processes, the old processes first.
func resized(procs []*process, n int) []*process {
	if len(procs) > n {
		return procs[:n]
	}
	for len(procs) < n {
		procs = append(procs, &process{})
	}
	return procs
}

func (w *world) absent(id election.ID) bool {
	return slices.Contains(w.setup.Absent, id) || slices.Contains(w.setup.Newcomers, id)
}

// settledToken returns the leadership that all start in if Setup.Settled is set.
func (w *world) settledToken() election.Token {
	return election.Token{Epoch: 1, Leader: w.setup.SettledLeader()}
}

// runTo lets everything happen up to and including the moment end, unless a rule is broken first.
func (w *world) runTo(end time.Duration) {
	for w.checks.broken == nil {
		o, ok := w.queue.due(end)
		if !ok {
			break
		}
		w.checks.tick(w, o.at)
		w.now = o.at
		w.happen(&o)
	}
	if w.now < end && w.checks.broken == nil {
		w.now = end
	}
}

func (w *world) happen(o *occurrence) {
	switch o.kind {
	case wake:
		w.wake(w.procs[o.place], o.life)
	case arrival:
		w.deliver(w.net.endAt(o.place))
	case dialTimeout:
		w.dialTimedOut(w.net.endAt(o.place))
	case idleTimeout:
		w.idleTimedOut(w.net.endAt(o.place))
	case diskDone:
		w.saved(w.procs[o.place], o.life)
	case workDone:
		w.workStopped(w.procs[o.place], o.life)
	case workGone:
		guardSeesEnd(w, o.place)
	case attested:
		handProof(w, o)
	case namedDone:
		w.namedStopped(w.procs[o.place], o.life)
	case datagramArrival:
		w.datagramArrived(o.place)
	case nextRound:
		w.askAgain(w.procs[o.place], o.life)
	}
}

func (w *world) note(p *process, what, why string) {
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: p.rank.ID, What: what, Why: why, Fault: true})
	}
}

// record logs a Machine's own record. The network logs messages, since it can match arrivals
// with departures.
func (w *world) record(r election.Record) {
	if r.What == "sends" || r.What == "receives" {
		return
	}
	w.log(trace.Entry{At: w.now, Member: r.Member, What: r.What, Peer: r.Peer, Token: r.Token, Why: r.Why})
}

func (w *world) bySlot(id election.ID) *process {
	i, ok := w.slots[id]
	if !ok {
		panic(fmt.Sprintf("sim: %q is no member: the script's parser let it through", id))
	}
	return w.procs[i]
}
