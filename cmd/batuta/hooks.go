package main

import (
	"log/slog"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/hooks"
	"github.com/batuta-dev/batuta/internal/command/podlabel"
)

// hookFlags are the agent's flags about hooks.
type hookFlags struct{ cli.LeadHooks }

// follow runs the hooks and labels pod, unless nil, until node ends; then what it returns is closed. OnLead reports that
// the leader serves if alone is set: then no command reports that it serves.
func (f *hookFlags) follow(node *batuta.Node, pod *podlabel.Pod, alone bool, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	config := f.Config(log)
	if alone {
		config.Ready = node.Ready
	}
	go func() {
		defer close(done)
		var labels sync.WaitGroup
		defer labels.Wait()
		if pod != nil {
			labels.Go(func() { pod.Follow(node) })
		}
		if config.Any() {
			hooks.Follow(node, config)
		}
	}()
	return done
}

// parting is how long hooks may take when the agent ends: a hook may be at work,
// and those of the end follow.
func (f *hookFlags) parting() time.Duration {
	if !f.Config(nil).Any() {
		return 0
	}
	return 3 * f.Timeout
}
