package cli

import (
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/hooks"
)

// Hooks are flags that name commands to run when something happens.
type Hooks struct {
	Timeout  time.Duration
	PodLabel bool // label the pod; see package podlabel
	flags    []string
	lines    map[string]*string
}

// Register adds a flag for each hook, given as its name and its help in turn, and their timeout.
func (h *Hooks) Register(fs *pflag.FlagSet, namesAndHelp ...string) {
	h.lines = map[string]*string{}
	for i := 0; i < len(namesAndHelp); i += 2 {
		name := namesAndHelp[i]
		h.flags = append(h.flags, name)
		h.lines[name] = fs.String(name, "", namesAndHelp[i+1])
	}
	fs.DurationVar(&h.Timeout, "hook-timeout", 10*time.Second, "kill a hook and its process group after `DURATION`")
}

// Check returns an error, before anything starts, if a hook cannot run.
func (h *Hooks) Check() error {
	if h.Timeout <= 0 {
		return Usagef("--hook-timeout %v: give a time above zero, such as 10s", h.Timeout)
	}
	for _, flag := range h.flags {
		if _, err := hooks.Command(*h.lines[flag]); err != nil {
			return Usagef("--%s %q: %w", flag, *h.lines[flag], err)
		}
	}
	return nil
}

// Words returns the arguments of a hook that Check accepted; nil: there is no such hook.
func (h *Hooks) Words(flag string) []string {
	words, _ := hooks.Words(*h.lines[flag])
	return words
}

// LeadHooks are the hooks of a process that takes part in an election.
type LeadHooks struct{ Hooks }

// Register adds the flags; their help names the kind of process.
func (h *LeadHooks) Register(fs *pflag.FlagSet, who string) {
	h.Hooks.Register(fs,
		"on-lead", "`COMMAND` to run when this "+who+" begins to lead, without a shell; BATUTA_ variables describe the event",
		"on-lose", "`COMMAND` to run when its leadership has ended, and at the start; after a resignation, before the next leads",
		"on-change", "`COMMAND` to run when any leadership begins or ends")
	fs.BoolVar(&h.PodLabel, "pod-label", false, "in Kubernetes, set this pod's label batuta.dev/role to leader while it leads, and to follower otherwise")
}

// Config returns the configuration for hooks that Check accepted.
func (h *LeadHooks) Config(log *slog.Logger) hooks.Config {
	return hooks.Config{OnLead: h.Words("on-lead"), OnLose: h.Words("on-lose"), OnChange: h.Words("on-change"), Timeout: h.Timeout, Logger: log}
}
