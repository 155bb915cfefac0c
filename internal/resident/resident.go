// Package resident keeps what a process holds of memory small while it waits.
//
// A process that is killed is missed when its connections end. The kernel ends them only
// after it has taken the process's memory back, page by page: some 0.1 ms a MiB. So every
// MiB that an agent holds and does not need delays the failover from it.
package resident

import (
	"log/slog"
	"time"
)

// settled is how long after its start a process no longer needs what it started with.
const settled = 100 * time.Millisecond

// ShedOnceSettled has the process shed a little after its start, unless stop is called before.
func ShedOnceSettled(log *slog.Logger) (stop func() bool) {
	return time.AfterFunc(settled, func() {
		if err := Shed(); err != nil {
			log.Debug("memory that is not needed is kept", "error", err)
		}
	}).Stop
}
