package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/systemd"
)

// manager is a service manager that receives the state of the agent.
type manager struct{ *systemd.Notifier }

// tellManager notifies the service manager, if there is one, that the agent is ready,
// and from then on of the leader and that the node does its work.
func tellManager(a *agentRun) *manager {
	notifier, err := systemd.Open(a.Lookup, os.Getpid())
	if err != nil {
		a.log.Warn("the service manager is not notified", "error", err)
	}
	m := &manager{notifier}
	if notifier == nil {
		return m
	}
	if err := m.Ready(); err != nil {
		a.log.Warn("the service manager is not notified", "error", err)
	}
	go m.tellViews(a.node)
	if m.Beat() > 0 {
		go m.tellAlive(a.node)
	}
	return m
}

// tellViews keeps the line up to date that "systemctl status" shows.
func (m *manager) tellViews(node *batuta.Node) {
	for v, err := range node.Watch(context.Background()) {
		switch {
		case err != nil:
			go m.tellViews(node) // from the present on
		case !v.Defined():
			m.Status("no leader is known")
		case v.Token.Leader.ID == node.ID():
			m.Status(fmt.Sprintf("leading, epoch %d", v.Token.Epoch))
		default:
			m.Status(fmt.Sprintf("following %s, epoch %d", v.Token.Leader.ID, v.Token.Epoch))
		}
	}
}

// tellAlive feeds the manager's watchdog for as long as the node's loop turns.
func (m *manager) tellAlive(node *batuta.Node) {
	beat := time.NewTicker(m.Beat())
	defer beat.Stop()
	for {
		select {
		case <-node.Done():
			return
		case <-beat.C:
		}
		node.Status(context.Background()) // comes back from the loop
		m.Alive()
	}
}

// stopping notifies that the agent ends. Watchdog notifications go on meanwhile.
func (m *manager) stopping() {
	m.Stopping() // a manager that has gone needs no notice
}
