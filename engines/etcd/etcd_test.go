package etcd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/electiontest/electortest"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/etcd"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
)

func start(t *testing.T, client *clientv3.Client, prefix string, c engines.Config) *engines.Election {
	t.Helper()
	return enginetest.Start(t, etcd.New(client, prefix), c)
}

// candidates are three of one election, each with a line of its own to each server.
func candidates(t *testing.T, c *enginetest.Etcd, fail func() func()) electortest.Candidates {
	prefix := fmt.Sprintf("/test/%d/", rand.Int64())
	lines := map[batuta.ID][]*enginetest.Proxy{}
	return electortest.Candidates{
		OneLeader: true,
		Start: func(id batuta.ID) electortest.Candidate {
			var addrs []string
			for _, to := range c.Addrs {
				p := enginetest.NewProxy(t, to)
				lines[id] = append(lines[id], p)
				addrs = append(addrs, p.Addr())
			}
			return start(t, enginetest.DialEtcd(t, addrs...), prefix, engines.Config{ID: id})
		},
		Cut: func(id batuta.ID) func() {
			var heals []func()
			for _, p := range lines[id] {
				heals = append(heals, p.Cut())
			}
			return func() {
				for _, heal := range heals {
					heal()
				}
			}
		},
		Fail: fail,
	}
}

// The one conformance call, on one real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeEtcd(t, 1)
	electortest.Run(t, func(t *testing.T) electortest.Candidates {
		return candidates(t, c, func() func() {
			c.Servers[0].Kill()
			return c.Servers[0].Start
		})
	})
}

// leads waits until one of those leads under a token above floor.
func leads(t *testing.T, floor batuta.Token, all ...*engines.Election) *engines.Election {
	t.Helper()
	var found *engines.Election
	enginetest.Await(t, "one leads", func(context.Context) error {
		i := slices.IndexFunc(all, func(e *engines.Election) bool { return e.IsLeader() && e.Leader().Token.Above(floor) })
		if i < 0 {
			return fmt.Errorf("nobody leads above %q", floor)
		}
		found = all[i]
		return nil
	})
	return found
}

// Of three servers each is killed, and each is stopped, the one that leads etcd too: the
// leader goes on, or another does; with two gone nobody leads.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeEtcd(t, 3)
	var all []*engines.Election
	for i := range 3 {
		all = append(all, start(t, enginetest.DialEtcd(t, c.Addrs...), "/three", engines.Config{ID: batuta.ID(fmt.Sprint(i + 1)), StandAlways: true}))
	}
	leads(t, batuta.Token{}, all...)
	for i, s := range c.Servers {
		s.Kill()
		leads(t, batuta.Token{}, all...)
		enginetest.Await(t, "etcd goes on without one", func(ctx context.Context) error {
			_, err := enginetest.DialEtcd(t, c.Addrs[(i+1)%3], c.Addrs[(i+2)%3]).Put(ctx, "up", "")
			return err
		})
		s.Start()
		thaw := c.Servers[(i+1)%3].Freeze()
		leads(t, batuta.Token{}, all...)
		thaw()
	}
	before := leads(t, batuta.Token{}, all...).Leader().Token
	c.Servers[0].Kill()
	thaw := c.Servers[1].Freeze()
	enginetest.Await(t, "nobody leads without a majority of etcd", func(context.Context) error {
		for _, e := range all {
			if e.IsLeader() {
				return fmt.Errorf("%s does", e.ID())
			}
		}
		return nil
	})
	thaw()
	c.Servers[0].Start()
	leads(t, before, all...)
}

// A transaction that names a leadership happens while that one leads, and not after.
func TestFence(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeEtcd(t, 1)
	client := enginetest.DialEtcd(t, c.Addrs...)
	e := start(t, client, "/fence/", engines.Config{ID: "1", StandAlways: true})
	first := leads(t, batuta.Token{}, e).Leader().Token
	write := func(token batuta.Token) bool {
		resp, err := client.Txn(t.Context()).If(etcd.Fence("/fence/", token)).Then(clientv3.OpPut("data", token.String())).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Succeeded
	}
	if !write(first) && e.Leader().Token == first {
		t.Error("the leader's write is refused")
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := leads(t, first, e).Leader().Token
	if write(first) {
		t.Errorf("a write of %s is taken while %s leads", first, second)
	}
}

// A key that somebody else has put there is left alone, and told.
func TestAForeignKey(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeEtcd(t, 1)
	client := enginetest.DialEtcd(t, c.Addrs...)
	if _, err := client.Put(t.Context(), "/foreign/leader", "mine"); err != nil {
		t.Fatal(err)
	}
	e := start(t, client, "/foreign", engines.Config{ID: "1", StandAlways: true})
	enginetest.Await(t, "status tells", func(context.Context) error {
		if why := statusOf(e).StandingWhy; !strings.Contains(why, "/foreign/leader is not batuta's") {
			return fmt.Errorf("it says %q", why)
		}
		return nil
	})
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *engines.Election) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
