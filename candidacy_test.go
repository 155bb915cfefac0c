package batuta

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/quorum"
)

// lead runs Lead once on n, until it leads and its work has failed.
func leadOnce(t *testing.T, n *Node) {
	t.Helper()
	failed := errors.New("failed")
	if err := n.Lead(t.Context(), func(context.Context, Leadership) error { return failed }); err != failed {
		t.Fatalf("Lead: %v", err)
	}
}

// A member whose Lead has returned does not lead with no work, nor does it keep others
// from leading; it stands again when Lead is called again.
func TestWhoHasNoWorkLeadsNoMore(t *testing.T) {
	for name, algorithm := range map[string]func() Algorithm{"bully": nil, "quorum": func() Algorithm { return quorum.New() }} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				c := newVirtualCluster(t, 3)
				c.startAll(func(cfg *Config) {
					if algorithm != nil {
						cfg.Algorithm, cfg.DataDir = algorithm(), stalltest.Dir(t)
					}
				})
				c.agree("3")
				leadOnce(t, c.nodes["3"])
				c.agree("2")
				if s := statusOf(c.nodes["3"]); s.Standing != StandingResigned || !strings.Contains(s.StandingWhy, "Lead has returned") {
					t.Errorf("%s: %s", s.Standing, s.StandingWhy)
				}
				time.Sleep(5 * time.Second)                              // a shorter leadership than 2·T would not count
				if err := c.nodes["2"].Resign(t.Context()); err != nil { // after which a member that has only resigned stands again
					t.Fatal(err)
				}
				c.agree("1")
				time.Sleep(20 * time.Second)
				if v := c.nodes["1"].Leader(); v.Token.Leader.ID == "3" {
					t.Error("3 leads again, with no work")
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.nodes["3"].Lead(ctx, func(ctx context.Context, _ Leadership) error {
						<-ctx.Done()
						return nil
					})
				}()
				c.agree("3")
				cancel()
				<-ended
			})
		})
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
