// Package resident keeps the memory of a waiting process small.
//
// Members detect that a process was killed when its connections end. The kernel ends them only
// after it has reclaimed the process's memory, page by page: some 0.1 ms a MiB. So every MiB that
// an agent holds without need delays the failover from it.
package resident

import (
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// settled is how long after its start a process no longer needs its start-up memory, and joined how
// long after it no longer needs the memory used to join a cluster.
const (
	settled = 100 * time.Millisecond
	joined  = 30 * time.Second
)

// Times and bounds of [Keep]. The checks are close together, so that a burst has collected its garbage
// a second later: to mark in the middle of the next would add half to what that takes.
const (
	calmFor = 500 * time.Millisecond // between two checks
	busy    = 256 << 10              // bytes that a busy process allocates between them
	slack   = 3 << 20                // bytes that may be held without need
	small   = 4 << 20                // bytes that a small process holds
)

// How much garbage, in percent of the live memory, may gather before it is collected. A small process
// collects early, and has a MiB or two less. A large one does not collect in the middle of a failover:
// of 10,000 elections that takes a third longer. At rest both have been shed.
const (
	early = 50
	usual = 100
)

// Keep sheds memory shortly after the start, and once the process has joined its cluster. It sheds
// again whenever an idle process holds more than slack beyond what it needed after the last time:
// after a burst of work, for which the runtime keeps memory, and as garbage accumulates. A small
// process has garbage collected early; GOGC in the environment overrides that.
func Keep(log *slog.Logger) (stop func()) {
	k := &keeper{read: readHeap, shed: func() {
		if err := Shed(); err != nil {
			log.Debug("memory that is not needed is kept", "error", err)
		}
	}, collect: collect}
	done := make(chan struct{})
	go func() {
		wait, once := time.NewTimer(settled), time.NewTimer(joined)
		defer wait.Stop()
		defer once.Stop()
		for {
			select {
			case <-once.C:
				k.needed = 0
				k.look()
			case <-wait.C:
				k.look()
				wait.Reset(calmFor)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// collect has garbage collected at a percentage of the live memory, unless the environment sets it.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// heap is what the runtime holds for objects, and how much it has ever allocated.
type heap struct{ held, given uint64 }

// keeper decides when to shed.
type keeper struct {
	read    func() heap
	shed    func()
	collect func(percent int)
	percent int    // that was set last; 0: none yet
	needed  uint64 // bytes held after the last time; 0: it has not shed
	given   uint64 // at the last check
}

func (k *keeper) look() {
	now := k.read()
	rests := now.given-k.given < busy
	k.given = now.given
	if k.needed == 0 || rests && now.held > k.needed+slack {
		k.shed()
		now = k.read()
		k.needed, k.given = now.held, now.given
	}
	percent := usual
	if now.held <= small || k.percent == early && now.held <= 2*small { // half of it may be garbage
		percent = early
	}
	if percent != k.percent {
		k.percent = percent
		k.collect(percent)
	}
}

func readHeap() heap {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return heap{held: s[0].Value.Uint64() + s[1].Value.Uint64() + s[2].Value.Uint64(), given: s[3].Value.Uint64()}
}
