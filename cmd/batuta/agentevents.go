package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/agent"
)

// This file prints what an agent sees, as --events has it.

// watch takes up the events that are printed, and no others: what nobody reads would be
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

// printEvents prints until the node ends, or nobody reads any more. A reader that was too far
// behind is told so, and then what is so now, and what follows that.
func (a *agentRun) printEvents(ready agent.Line) {
	if a.told == nil {
		return
	}
	write := agent.Line.WriteText
	if a.flags.output.Events == "json" {
		write = agent.Line.WriteJSON
	}
	var mu sync.Mutex
	print := func(l agent.Line) bool {
		mu.Lock()
		defer mu.Unlock()
		err := write(l, a.stdout)
		if err != nil {
			a.log.Warn("events are not printed any more: nobody reads them", "err", err)
		}
		return err == nil
	}
	if !print(ready) {
		return
	}
	var named sync.WaitGroup
	defer named.Wait()
	if shows := a.job.shows(); shows != nil {
		named.Go(func() {
			for a.printNamed(shows, print) {
				a.named = a.node.Elections(context.Background())
			}
		})
	}
	for a.printOwn(print) {
		a.told = a.node.Events(context.Background())
	}
}

// printOwn prints the cluster's own events, and tells whether to begin anew.
func (a *agentRun) printOwn(print func(agent.Line) bool) (again bool) {
	for ev, err := range a.told {
		if errors.Is(err, batuta.ErrBehind) {
			return print(a.behind(a.node.Status().Election))
		}
		if !print(agent.EventLine(a.node.ID(), ev)) {
			return false
		}
	}
	return false
}

// printNamed does the same for named elections.
func (a *agentRun) printNamed(shows func(string) bool, print func(agent.Line) bool) (again bool) {
	for v, err := range a.named {
		if errors.Is(err, batuta.ErrBehind) {
			return print(a.behind(""))
		}
		if l, ok := agent.NamedLine(a.node.ID(), v); ok && shows(v.Election) && !print(l) {
			return false
		}
	}
	return false
}

func (a *agentRun) behind(election string) agent.Line {
	a.log.Warn("events were read too slowly and some are left out: read them faster, or have fewer with --events off", "election", election)
	return agent.BehindLine(a.node.ID(), time.Now(), election)
}
