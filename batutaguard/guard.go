//go:build unix

// Package batutaguard has a guard attest the end of a program that uses a quorum, so that the next member
// leads within milliseconds of a crash, and does not wait for the lease (package quorum, TakeoverAttested).
//
//	g, err := batutaguard.Start(nil)
//	...
//	defer g.Close()
//	algorithm := quorum.New(quorum.WithTakeover(quorum.TakeoverAttested), quorum.WithGuard(g))
//
// All members use TakeoverAttested. The guard is this program's own file, started again as a child of some 10 MB,
// with no argument and the name "batuta-guard". It never reaches main: an init function of this package takes it over.
//
// It attests that this process is dead, so that nothing else may do the leader's work: a process that the program has
// started must not outlive it. Where that cannot be had, use quorum.TakeoverLease. On systems that are not Linux, and
// on Linux before 5.3, a guard attests nothing, and the lease is waited for.
package batutaguard

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/batuta-dev/batuta/internal/work/run"
)

// name is that of a guard's process.
const name = "batuta-guard"

func init() {
	if len(os.Args) != 1 || os.Args[0] != name {
		return
	}
	if _, err := run.Guard(nil); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Guard is what quorum.WithGuard takes. It is of a single node, and made by Start.
type Guard struct{ *sentry }

type sentry = run.Sentry

// Close ends the guard's process. It must be called once, after the node has ended.
func (g *Guard) Close() { g.sentry.Close() }

// Start starts the guard of this process, and a new guard a second after a guard has died. The log receives the
// reason why a guard attests nothing; nil: it is not logged, and the node's status has it (Unattested).
// The caller must call Close once, after the node has ended.
func Start(log *slog.Logger) (*Guard, error) {
	self, err := run.Self()
	if err != nil {
		return nil, fmt.Errorf("batutaguard: the file of this program is not found: %w", err)
	}
	s, err := run.NewSentry(self, []string{name}, log)
	if err != nil {
		return nil, fmt.Errorf("batutaguard: the guard of this process cannot be started: %w", err)
	}
	return &Guard{s}, nil
}
