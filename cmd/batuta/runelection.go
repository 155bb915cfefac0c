package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	runner "github.com/batuta-dev/batuta/internal/run"
)

// runElection says which election "batuta run" is about.
type runElection struct{ name string }

func (r *runElection) register(fs *pflag.FlagSet) {
	fs.StringVar(&r.name, "election", "", "`name` of one of many elections of the cluster: the command runs while this member leads that (default the cluster's own)")
}

func (r *runElection) check(f *agentFlags, p *planFlags) error {
	switch {
	case r.name == "" || r.name == ownElection:
		r.name = ""
		return nil
	case f.wire.name != "batuta":
		return usagef("--election does not go with --wire %s, by which there is the cluster's election alone", f.wire.name)
	case p.schedule != "":
		return usagef("--schedule does not go with --election: members tell each other of the ticks of one schedule alone; leave one out, or use a cluster for it")
	case f.membership.observer:
		return usagef("--election does not go with --observer, which leads nothing: leave one out")
	}
	return checkElection(r.name)
}

// ownElection is the name of the cluster's own election.
const ownElection = "default"

// node is what the command runs on.
func (r *runElection) node(n *batuta.Node) runner.Node {
	if r == nil || r.name == "" {
		return n
	}
	return electionNode{n, n.Election(r.name)}
}

// notice is the part of a lease before whose end the command is asked to end: late enough
// for a coordinator that fails to be replaced meanwhile.
func (r *runElection) notice() int {
	if r == nil || r.name == "" {
		return 0
	}
	return 4
}

// electionNode is a member as one of its elections sees it.
type electionNode struct {
	node *batuta.Node
	*batuta.Election
}

// ID is the member's.
func (n electionNode) ID() batuta.ID { return n.node.ID() }

// Leader is the view of the election, with what the member tells of itself while it leads.
func (n electionNode) Leader() batuta.View {
	v := n.Election.Leader()
	if v.Token.Leader.ID != n.node.ID() {
		return v
	}
	for _, m := range n.node.Status().Members {
		if m.ID == n.node.ID() {
			v.Meta = m.Meta
		}
	}
	return v
}

// SetHealthy does nothing: whose command fails stands for this election no more until it
// is tried again, and is as fit for the others as before.
func (electionNode) SetHealthy(context.Context, bool) error { return nil }

// Done is the node's.
func (n electionNode) Done() <-chan struct{} { return n.node.Done() }

var _ runner.Node = electionNode{}
