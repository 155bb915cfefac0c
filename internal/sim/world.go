package sim

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// world steps the processes with what happens on the scene: it is their driver.
type world struct {
	wires
	guards  []guard // of crashed leaders
	refuses bool    // the sender of a datagram to a dead member is notified that it is down
	waits   []Wait  // while there is a log
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
	for len(w.procs) < len(s.Members) {
		w.procs = append(w.procs, &process{})
	}
	w.procs = w.procs[:len(s.Members)]
	w.net.reset(len(s.Members))
	w.setLatencies()
	w.datagrams.reset()
	w.refuses = false
	w.checks.reset(&w.scene)
	for i, r := range s.Members {
		w.procs[i].reset(i, i, r, len(s.Members))
		w.procs[i].times = s.Timing
		w.procs[i].observer = slices.Contains(s.Observers, r.ID)
	}
	for i, r := range s.Members {
		if slices.Contains(s.Absent, r.ID) || slices.Contains(s.Newcomers, r.ID) {
			continue
		}
		if err := w.start(w.procs[i]); err != nil {
			return err
		}
	}
	return nil
}

// runTo lets everything happen up to and including the moment end, unless a rule is broken first.
func (w *world) runTo(end time.Duration) {
	for w.checks.broken == nil {
		o, ok := w.queue.due(end)
		if !ok {
			break
		}
		w.checks.tick(&w.scene, o.at)
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
		w.wakeUp(w.procs[o.place], o.life)
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
