package sim

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// disk keeps the saved state, and the state before it.
type disk struct {
	log         [][]byte // the records of a core that has its own log
	nextRecords [][]byte
	appends     bool // the outstanding write is to log
	replaces    bool // it replaces the whole log

	now, before election.State
	saving      bool
	next        election.State
	slow        time.Duration // on top of the usual time
	began, due  time.Duration // of the outstanding write: its start, by the clock of its process, and its end
	failing     bool
	failed      bool // the last save was refused
	rolledBack  bool // ever
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

// unsaved reports whether a member may follow a leadership that is not on its disk: the disk has
// refused it, or has not answered for T.
func (w *scene) unsaved(p *process) bool {
	return p.disk.failed || p.disk.saving && p.clock.at(w.now)-p.disk.began >= w.setup.Timing.T()
}

// setDisk changes how a disk works. A disk that recovers soon ends a slow write.
func (w *scene) setDisk(p *process, slow time.Duration, failing bool) {
	p.disk.slow, p.disk.failing = slow, failing
	if soon := w.now + w.setup.Fsync.Max; p.disk.saving && slow == 0 && p.disk.due > soon {
		w.writes(p, soon)
	}
}

type diskError struct{}

func (diskError) Error() string { return "the simulated disk refuses to write" }

func (w *scene) writeOut(p *process) error {
	d := &p.disk
	d.saving = false
	if d.failing || d.slow > 0 {
		w.checks.fault = w.now
	}
	if d.failed = d.failing; d.failing {
		return diskError{}
	}
	if d.appends {
		if d.replaces {
			d.log = nil
		}
		d.log = append(d.log, d.nextRecords...)
		return nil
	}
	if d.now.Token != d.next.Token {
		p.heldAt = w.now
	}
	d.before, d.now = d.now, d.next
	return nil
}

// appendLog writes records outside of the loop.
func (w *scene) appendLog(p *process, a *election.Action) {
	w.checks.saves(w, p, election.Token{})
	d := &p.disk
	d.saving, d.appends, d.replaces, d.nextRecords, d.began = true, true, a.Replace, slices.Clone(a.Records), p.clock.at(w.now)
	w.writes(p, w.now+w.rng.in(w.setup.Fsync)+d.slow)
}
