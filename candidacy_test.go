package batuta

import (
	"context"
	"errors"
	"testing"
	"time"
)

// lead runs Lead once on n, until it leads and its work has failed.
func leadOnce(t *testing.T, n *Node) {
	t.Helper()
	failed := errors.New("failed")
	if err := n.Lead(t.Context(), func(context.Context, Leadership) error { return failed }); err != failed {
		t.Fatalf("Lead: %v", err)
	}
}

func TestWhoIsAloneAndHasNoWorkDoesNotLead(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 1)
		n := c.start("1")
		leadOnce(t, n)
		time.Sleep(time.Minute)
		if v := n.Leader(); v.Defined() {
			t.Errorf("it leads as %s", v.Token)
		}
		if err := n.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.agree("1")
	})
}

func TestStandAlways(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 1)
		n := c.start("1", func(cfg *Config) { cfg.StandAlways = true })
		first := c.agree("1")
		leadOnce(t, n)
		if again := c.agree("1"); !again.Above(first) {
			t.Errorf("it never gave the lead away: %s, then %s", first, again)
		}
	})
}
