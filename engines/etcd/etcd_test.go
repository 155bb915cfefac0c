package etcd_test

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/etcd"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
)

func start(t *testing.T, client *clientv3.Client, prefix string, c engines.Config) *engines.Election {
	t.Helper()
	return enginetest.Start(t, etcd.New(client, prefix), c)
}

// The one conformance call, on one real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeEtcd(t, 1)
	enginetest.Conform(t, c.Addrs, c.Servers[0].Fail, func(name string, lines []string) engines.Engine {
		return etcd.New(enginetest.DialEtcd(t, lines...), "/test/"+name+"/")
	})
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
	enginetest.Leads(t, batuta.Token{}, all...)
	for i, s := range c.Servers {
		s.Kill()
		enginetest.Leads(t, batuta.Token{}, all...)
		enginetest.Await(t, "etcd goes on without one", func(ctx context.Context) error {
			_, err := enginetest.DialEtcd(t, c.Addrs[(i+1)%3], c.Addrs[(i+2)%3]).Put(ctx, "up", "")
			return err
		})
		s.Start()
		thaw := c.Servers[(i+1)%3].Freeze()
		enginetest.Leads(t, batuta.Token{}, all...)
		thaw()
	}
	before := enginetest.Leads(t, batuta.Token{}, all...).Leader().Token
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
	enginetest.Leads(t, before, all...)
}

// A transaction that names a leadership happens while that one leads, and not after.
func TestFence(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeEtcd(t, 1)
	client := enginetest.DialEtcd(t, c.Addrs...)
	e := start(t, client, "/fence/", engines.Config{ID: "1", StandAlways: true})
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
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
	second := enginetest.Leads(t, first, e).Leader().Token
	if write(first) {
		t.Errorf("a write of %s is taken while %s leads", first, second)
	}
}

// Damaged records are refused, and so is a foreign value at either key.
func TestDamage(t *testing.T) {
	t.Parallel()
	client := enginetest.DialEtcd(t, enginetest.ServeEtcd(t, 1).Addrs...)
	dial := func(name string) engines.Engine { return etcd.New(client, name) }
	put := func(key, text string) {
		if _, err := client.Put(t.Context(), key, text); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Damage(t, "key %s/leader", nil, func(name, text string) { put(name+"/leader", text) }, dial)
	for i, text := range []string{"mine", "{}", `{"id":"1","process":"p","epoch":1,"lasts_ms":1000}`, `{"epoch":4611686018427387904}`} {
		name := fmt.Sprint("ending", i)
		put(name+"/last", text)
		enginetest.Refuses(t, dial(name), "key "+name+"/last")
	}
	put("nobody/leader", `{"epoch":1,"resigned":true}`)
	enginetest.Refuses(t, dial("nobody"), "key nobody/leader")
}
