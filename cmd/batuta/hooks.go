package main

import (
	"log/slog"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/hooks"
)

// hookFlags are the agent's flags about hooks.
type hookFlags struct{ cli.LeadHooks }

// follow runs the hooks until node ends; what it returns is closed when the last has. OnLead reports that the leader serves
// if it is alone: no command reports that it serves.
func (f *hookFlags) follow(node *batuta.Node, alone bool, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	config := f.Config(log)
	if alone {
		config.Ready = node.Ready
	}
	if !config.Any() {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		hooks.Follow(node, config)
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
