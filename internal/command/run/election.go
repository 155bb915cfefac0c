package run

import (
	"context"

	"github.com/batuta-dev/batuta"
)

// Under is what a command runs on that runs under one of a member's many elections.
func Under(n *batuta.Node, e *batuta.Election) Node { return electionNode{n, e} }

// NamedNotice is [Config].Notice for such a command: it is asked to end late enough for a
// coordinator that fails to be replaced meanwhile.
const NamedNotice = 4

// electionNode is a member as one of its elections sees it.
type electionNode struct {
	node *batuta.Node
	*batuta.Election
}

// ID is the member's.
func (n electionNode) ID() batuta.ID { return n.node.ID() }

// Meta is what the member tells of itself.
func (n electionNode) Meta() map[string]string {
	status, _ := n.node.Status(context.Background())
	for _, m := range status.Members {
		if m.ID == n.node.ID() {
			return m.Meta
		}
	}
	return nil
}

// SetHealth does nothing: a member whose command fails is no candidate of this election until
// the command is tried again, and is as fit as before for the rest.
func (electionNode) SetHealth(context.Context, error) error { return nil }

// Done is the node's.
func (n electionNode) Done() <-chan struct{} { return n.node.Done() }

var _ Node = electionNode{}
