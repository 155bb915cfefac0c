package peeragent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/batuta-dev/batuta/internal/command/hooks"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/batuta-dev/batuta/superpeer"
)

// Hooks are what to run. A command is a program and its arguments; no shell reads it.
type Hooks struct {
	OnSuper  []string // this node becomes a super peer
	OnClient []string // a super peer serves it: the first, or a new one
	Timeout  time.Duration
	Log      *slog.Logger
}

// Any reports whether there is anything to run.
func (h *Hooks) Any() bool { return len(h.OnSuper)+len(h.OnClient) > 0 }

// Follow runs hooks for the events of node, a single hook at a time and in order, until node ends.
func (h *Hooks) Follow(node *superpeer.Member) {
	for ev, err := range follow.On(context.Background(), superpeer.ErrBehind, node.Watch) {
		if err != nil {
			h.Log.Error("hooks have missed what happened meanwhile and go on with what holds now", "error", err)
			continue
		}
		h.see(node, ev)
	}
}

func (h *Hooks) see(node *superpeer.Member, ev superpeer.Event) {
	set := []string{"BATUTA_EVENT=" + ev.Kind, "BATUTA_ID=" + node.ID()}
	switch {
	case ev.Kind == superpeer.EventSuper:
		h.run("on-super", h.OnSuper, append(set, fmt.Sprintf("BATUTA_TOKEN=%d:%d", ev.Version, ev.Token)))
	case ev.Kind == superpeer.EventHome && ev.Home != nil:
		h.run("on-client", h.OnClient, append(set, "BATUTA_HOME="+ev.Home.ID, "BATUTA_ADDRESS="+ev.Home.Address, "BATUTA_SERVICE="+ev.Home.Service))
	}
}

// run runs a hook. A failure is only logged.
func (h *Hooks) run(name string, argv, set []string) {
	if len(argv) == 0 {
		return
	}
	if err := hooks.Run(context.Background(), argv, h.Timeout, set...); err != nil {
		h.Log.Error("hook failed", "hook", name, "command", argv[0], "error", err)
		return
	}
	h.Log.Info("hook has run", "hook", name)
}
