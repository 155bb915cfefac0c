package main

import (
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/hooks"
)

// hookFlags are the agent's flags about hooks.
type hookFlags struct {
	onLead, onLose, onChange string
	timeout                  time.Duration
}

func (f *hookFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.onLead, "on-lead", "", "`command` to run when this member begins to lead; no shell reads it, BATUTA_ variables tell what happened")
	fs.StringVar(&f.onLose, "on-lose", "", "`command` to run when it leads no more, before another may, and at the start")
	fs.StringVar(&f.onChange, "on-change", "", "`command` to run when any leadership begins or ends")
	fs.DurationVar(&f.timeout, "hook-timeout", 10*time.Second, "`time` after which a hook is killed, with its process group")
}

// check finds out before anything starts whether the hooks can run.
func (f *hookFlags) check() error {
	if f.timeout <= 0 {
		return usagef("--hook-timeout %v: give a time above zero, such as 10s", f.timeout)
	}
	for _, h := range []struct{ flag, line string }{{"--on-lead", f.onLead}, {"--on-lose", f.onLose}, {"--on-change", f.onChange}} {
		if _, err := hooks.Command(h.line); err != nil {
			return usagef("%s %q: %w", h.flag, h.line, err)
		}
	}
	return nil
}

// config is for hooks that check has found good.
func (f *hookFlags) config(log *slog.Logger) hooks.Config {
	words := func(line string) []string {
		argv, _ := hooks.Words(line)
		return argv
	}
	return hooks.Config{OnLead: words(f.onLead), OnLose: words(f.onLose), OnChange: words(f.onChange),
		Timeout: f.timeout, Logger: log}
}

// follow runs the hooks until node ends; what it gives is closed when the last has.
func (f *hookFlags) follow(node *batuta.Node, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	config := f.config(log)
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

// parting is how long hooks may take when the agent ends: one may be at work,
// and those of the end follow.
func (f *hookFlags) parting() time.Duration {
	if !f.config(nil).Any() {
		return 0
	}
	return 3 * f.timeout
}
