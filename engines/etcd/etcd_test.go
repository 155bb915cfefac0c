package etcd_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/electiontest/electortest"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/etcd"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
)

// lease is short, so that the tests are, and bears a machine that stands still for seconds.
const lease = 6 * time.Second

// ensemble is real etcd servers.
type ensemble struct {
	servers []*enginetest.Server
	clients []string // HOST:PORT of each
}

// serve starts n servers, of one etcd.
func serve(t *testing.T, n int) *ensemble {
	t.Helper()
	program := enginetest.Program(t, "etcd", "etcd-server")
	ports := enginetest.Ports(t, 2*n)
	c := &ensemble{}
	var initial []string
	for i := range n {
		c.clients = append(c.clients, fmt.Sprintf("127.0.0.1:%d", ports[2*i]))
		initial = append(initial, fmt.Sprintf("e%d=http://127.0.0.1:%d", i, ports[2*i+1]))
	}
	for i := range n {
		dir := t.TempDir()
		c.servers = append(c.servers, enginetest.Serve(t, func() *exec.Cmd {
			_, peer, _ := strings.Cut(initial[i], "=")
			return exec.Command(program, "--name", fmt.Sprintf("e%d", i), "--data-dir", dir, "--listen-client-urls", "http://"+c.clients[i],
				"--advertise-client-urls", "http://"+c.clients[i], "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--initial-cluster", strings.Join(initial, ","), "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn")
		}))
	}
	client := dial(t, c.clients...)
	enginetest.Await(t, "etcd answers", func(ctx context.Context) error {
		_, err := client.Put(ctx, "up", "")
		return err
	})
	return c
}

// dial makes a client of its own.
func dial(t *testing.T, addrs ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func start(t *testing.T, client *clientv3.Client, prefix string, c engines.Config) *engines.Election {
	t.Helper()
	c.Lease, c.Logger = lease, slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engines.Start(t.Context(), etcd.New(client, prefix), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// candidates are three of one election, each with a line of its own to each server.
func candidates(t *testing.T, c *ensemble, fail func() func()) electortest.Candidates {
	prefix := fmt.Sprintf("/test/%d/", rand.Int64())
	lines := map[batuta.ID][]*enginetest.Proxy{}
	return electortest.Candidates{
		OneLeader: true,
		Start: func(id batuta.ID) batuta.Elector {
			var addrs []string
			for _, to := range c.clients {
				p := enginetest.NewProxy(t, to)
				lines[id] = append(lines[id], p)
				addrs = append(addrs, p.Addr())
			}
			return start(t, dial(t, addrs...), prefix, engines.Config{ID: string(id)})
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
	c := serve(t, 1)
	electortest.Run(t, func(t *testing.T) electortest.Candidates {
		return candidates(t, c, func() func() {
			c.servers[0].Kill()
			return c.servers[0].Start
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
	c := serve(t, 3)
	var all []*engines.Election
	for i := range 3 {
		all = append(all, start(t, dial(t, c.clients...), "/three", engines.Config{ID: fmt.Sprint(i + 1), StandAlways: true}))
	}
	leads(t, batuta.Token{}, all...)
	for i, s := range c.servers {
		s.Kill()
		leads(t, batuta.Token{}, all...)
		enginetest.Await(t, "etcd goes on without one", func(ctx context.Context) error {
			_, err := dial(t, c.clients[(i+1)%3], c.clients[(i+2)%3]).Put(ctx, "up", "")
			return err
		})
		s.Start()
		thaw := c.servers[(i+1)%3].Freeze()
		leads(t, batuta.Token{}, all...)
		thaw()
	}
	before := leads(t, batuta.Token{}, all...).Leader().Token
	c.servers[0].Kill()
	thaw := c.servers[1].Freeze()
	enginetest.Await(t, "nobody leads without a majority of etcd", func(context.Context) error {
		for _, e := range all {
			if e.IsLeader() {
				return fmt.Errorf("%s does", e.ID())
			}
		}
		return nil
	})
	thaw()
	c.servers[0].Start()
	leads(t, before, all...)
}

// A transaction that names a leadership happens while that one leads, and not after.
func TestFence(t *testing.T) {
	t.Parallel()
	c := serve(t, 1)
	client := dial(t, c.clients...)
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
	c := serve(t, 1)
	client := dial(t, c.clients...)
	if _, err := client.Put(t.Context(), "/foreign/leader", "mine"); err != nil {
		t.Fatal(err)
	}
	e := start(t, client, "/foreign", engines.Config{ID: "1", StandAlways: true})
	enginetest.Await(t, "status tells", func(context.Context) error {
		if why := e.Status().StandingWhy; !strings.Contains(why, "/foreign/leader is not batuta's") {
			return fmt.Errorf("it says %q", why)
		}
		return nil
	})
}
