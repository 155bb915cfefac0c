package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/follow"
)

// This file prints what an agent sees, as --events has it.

// watch subscribes to the events that are printed, and no more: the rest would be
// kept for its reader.
func (a *agentRun) watch(n *batuta.Node) {
	if a.flags.output.Events == "off" {
		return
	}
	a.told = n.Events(context.Background())
	if a.job.shows() != nil {
		a.named = n.Elections(context.Background())
	}
}

// printEvents prints until the node ends, or the reader is gone. A reader that was too far
// behind receives that, then the present state, then what follows.
func (a *agentRun) printEvents(ready api.Line) {
	if a.told == nil {
		return
	}
	write := api.Line.WriteText
	if cli.IsTerminal(a.Stdout) {
		write = api.Line.WriteShort
	}
	if a.flags.output.Events == "json" {
		write = api.Line.WriteJSON
	}
	var mu sync.Mutex
	print := func(l api.Line) bool {
		mu.Lock()
		defer mu.Unlock()
		err := write(l, a.Stdout)
		if err != nil {
			a.log.Warn("events are not printed any more: standard output has no reader", "error", err)
		}
		return err == nil
	}
	if !print(ready) {
		return
	}
	if a.flags.output.Events == "text" && cli.IsTerminal(a.Stdout) {
		fmt.Fprint(a.Stderr, a.nextSteps(ready))
	}
	var named sync.WaitGroup
	defer named.Wait()
	if shows := a.job.shows(); shows != nil {
		named.Go(func() {
			for v, err := range follow.On(context.Background(), batuta.ErrBehind, follow.From(a.named, a.node.Elections)) {
				switch l, ok := api.NamedLine(a.node.ID(), v); {
				case err != nil && !print(a.behind("")):
					return
				case err == nil && ok && shows(v.Election) && !print(l):
					return
				}
			}
		})
	}
	for ev, err := range follow.On(context.Background(), batuta.ErrBehind, follow.From(a.told, a.node.Events)) {
		l := api.EventLine(a.node.ID(), ev)
		if err != nil {
			l = a.behind(a.node.Leader().Election)
		}
		if !print(l) {
			return
		}
	}
}

// nextSteps is what a person at a terminal may want to do with the agent that is ready.
func (a *agentRun) nextSteps(ready api.Line) (text string) {
	f := a.flags
	known, _ := a.node.Status(context.Background()) // its disk may know of others
	if len(f.members)+len(f.membership.join)+f.membership.expect == 0 && len(known.Members) == 1 && f.wire.name == "batuta" {
		text = "A cluster of one. Others join with: batuta agent --join " + cmp.Or(ready.Advertise, ready.Listen)
		if api.Loopback(ready.Listen) {
			text += " --listen 127.0.0.1:0" // this port is taken on this machine
		}
		for _, given := range [][2]string{{"cluster", f.cluster}, {"algorithm", f.algorithm}, {"secret-file", f.security.secretFile}} {
			if a.cmd.Flags().Changed(given[0]) {
				text += " --" + given[0] + " " + given[1]
			}
		}
		text += "\n"
	}
	if a.address != "" && !strings.HasPrefix(a.address, "unix:") {
		scheme := "http"
		if f.security.servesTLS(f.http) {
			scheme = "https"
		}
		text += fmt.Sprintf("Dashboard: %s://%s   Ask it: batuta status --agent %[2]s\n", scheme, a.address)
	}
	return text
}

// tooSlow is the log line about a reader that was too far behind.
const tooSlow = "events were read too slowly and some are left out: read them faster, or have fewer with --events off"

func (a *agentRun) behind(election string) api.Line {
	a.log.Warn(tooSlow, "election", election)
	return api.BehindLine(a.node.ID(), time.Now(), election)
}
