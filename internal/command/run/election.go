package run

import (
	"context"

	"github.com/batuta-dev/batuta"
)

// Under returns the Node for a command that runs under one of a member's named elections.
func Under(n *batuta.Node, e *batuta.Election) Node { return electionNode{n, e} }

// NamedNotice is [Config].Notice for such a command: it is asked to end only after a coordinator
// that fails can have been replaced.
const NamedNotice = 4

// electionNode is a member as a participant in one of its elections.
type electionNode struct {
	node *batuta.Node
	*batuta.Election
}

// ID returns the member's id.
func (n electionNode) ID() batuta.ID { return n.node.ID() }

// Meta returns the member's metadata.
func (n electionNode) Meta() map[string]string {
	status, _ := n.node.Status(context.Background())
	for _, m := range status.Members {
		if m.ID == n.node.ID() {
			return m.Meta
		}
	}
	return nil
}

// SetHealth does nothing: a member with a failed command is no candidate of this election until it
// tries the command again; its eligibility for the rest is unchanged.
func (electionNode) SetHealth(context.Context, error) error { return nil }

// Done returns the node's channel.
func (n electionNode) Done() <-chan struct{} { return n.node.Done() }

var _ Node = electionNode{}
