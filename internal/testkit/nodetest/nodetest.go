// Package nodetest has the tests of a node that pass under every algorithm. The root package runs them
// with Bully, and quorum/nodes with a quorum: the library's module does not import quorum.
package nodetest

import (
	"context"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
)

// Maker returns an algorithm of its own for each node.
type Maker func() batuta.Algorithm

// patience bounds the wait for an event; no test depends on how soon it comes.
const patience = 30 * time.Second

func status(t *testing.T, n *batuta.Node) batuta.Status {
	t.Helper()
	s, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// watched waits for a view of n that is as it should be, and returns it.
func watched(t *testing.T, n *batuta.Node, ok func(batuta.View) bool) batuta.View {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for v := range n.Watch(ctx) {
		if ok(v) {
			return v
		}
	}
	t.Fatalf("member %s has no such view within %v: %+v", n.ID(), patience, n.Leader())
	return batuta.View{}
}

// within waits, in virtual time, until so returns true.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}
