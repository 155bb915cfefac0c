package electortest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/electiontest/electortest"
)

// A Node is an Elector, under Bully and on a ring.
func TestNode(t *testing.T) {
	for name, change := range map[string]func(*batuta.Config){
		"bully": func(*batuta.Config) {},
		"ring":  func(c *batuta.Config) { c.Algorithm = ring.New() },
	} {
		t.Run(name, func(t *testing.T) {
			electortest.RunIn(t, synctest.Test, func(t *testing.T) electortest.Candidates { return nodes(t, change) })
		})
	}
}

func nodes(t *testing.T, change func(*batuta.Config)) electortest.Candidates {
	c := batutatest.New(t, 3, change)
	return electortest.Candidates{
		Start: func(id batuta.ID) electortest.Candidate { return node{c.Start(id), c, id} },
		Cut: func(id batuta.ID) func() {
			c.Isolate(id)
			return c.Heal
		},
	}
}

// node is one that the cluster of the test knows to be stopped when it is.
type node struct {
	*batuta.Node
	cluster *batutatest.Cluster
	id      batuta.ID
}

// Shutdown implements [electortest.Candidate].
func (n node) Shutdown(ctx context.Context) error {
	select {
	case <-n.Done():
	default:
		n.cluster.Stop(n.id)
	}
	return n.Node.Shutdown(ctx)
}
