package nodes_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/testkit/tcpnet"
	"github.com/batuta-dev/batuta/quorum"
)

// heldOath is a guard that does nothing with what it is to attest.
type heldOath struct {
	mu   sync.Mutex
	oath attest.Oath
}

func (g *heldOath) Swear(o attest.Oath) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.oath = o
}

func (g *heldOath) Bars() string { return "it is a test's" }

func (g *heldOath) held() attest.Oath {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.oath
}

// seen is a quorum. Its core reports when it has the commitment that the leader's guard can open.
type seen struct {
	*quorum.Algorithm
	leader *heldOath
	opens  atomic.Bool
}

func (s *seen) Clone() election.Algorithm { return s }

func (s *seen) NewCore(c machine.Config) (machine.Core, error) {
	core, err := s.Algorithm.NewCore(c)
	if err != nil {
		return nil, err
	}
	return &seenCore{core.(*quorum.Core), s}, nil
}

type seenCore struct {
	*quorum.Core
	seen *seen
}

func (c *seenCore) Step(now time.Time, ev election.Event) []election.Action {
	actions := c.Core.Step(now, ev)
	c.seen.opens.Store(c.Opens(c.seen.leader.held().Secret))
	return actions
}

// attested is three members on real connections, of which the third leads.
type attested struct {
	t          *testing.T
	members    []batuta.Peer
	hosts      []*tcpnet.Host
	guards     []*heldOath
	algorithms []*seen
	nodes      []*batuta.Node
}

func newAttested(t *testing.T, security batuta.Security) *attested {
	c := &attested{t: t}
	for i := range 3 {
		host, err := tcpnet.Bind("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { host.Close() })
		c.hosts, c.guards = append(c.hosts, host), append(c.guards, &heldOath{})
		c.members = append(c.members, batuta.Peer{ID: batuta.ID(fmt.Sprint(i + 1)), Addr: host.Addr().String()})
	}
	for i, m := range c.members {
		a := &seen{Algorithm: quorum.New(quorum.WithTakeover(quorum.TakeoverAttested), quorum.WithGuard(c.guards[i])), leader: c.guards[2]}
		n, err := batuta.Start(t.Context(), batuta.Config{ID: m.ID, Peers: c.members, Algorithm: a, Listen: m.Addr, Transport: c.hosts[i],
			TProcess: time.Minute, DataDir: stalltest.Dir(t), Security: security, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("id", m.ID)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Shutdown(context.Background()) })
		c.algorithms, c.nodes = append(c.algorithms, a), append(c.nodes, n)
	}
	return c
}

// agree waits until the first n members follow one of the leaders under one token, and returns it.
func (c *attested) agree(ctx context.Context, n int, leaders ...batuta.ID) batuta.Token {
	c.t.Helper()
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		token := c.nodes[0].Leader().Token
		if slices.Contains(leaders, token.Leader.ID) && !slices.ContainsFunc(c.nodes[:n], func(n *batuta.Node) bool { return n.Leader().Token != token }) {
			return token
		}
	}
	c.t.Fatalf("the first %d members do not agree on one of %v: 1 follows %v, 2 %v", n, leaders, c.nodes[0].Leader().Token, c.nodes[1].Leader().Token)
	return batuta.Token{}
}

func (c *attested) status(i int) batuta.Status {
	c.t.Helper()
	s, err := c.nodes[i].Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// The secret of a leader's guard ends its leadership at once, whichever process brings it: without a key
// where members have keys. No other secret does, and one that is wrong is counted.
func TestAnAttestedLeaderIsReplacedAtOnce(t *testing.T) {
	key := filepath.Join(t.TempDir(), "cluster.key")
	if err := os.WriteFile(key, []byte(security.NewSecret()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, secured := range map[string]batuta.Security{"insecure": {}, "secret": {SecretFile: key}} {
		t.Run(mode, func(t *testing.T) {
			c := newAttested(t, secured)
			within, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := c.agree(within, 3, "3")
			oath := c.guards[2].held()
			if want := []string{c.members[0].Addr, c.members[1].Addr}; oath.Token != before || !slices.Equal(oath.Members, want) {
				t.Fatalf("its guard is to attest %v to %v, want %v to %v", oath.Token, oath.Members, before, want)
			}
			if s := c.status(2); s.Takeover != "attested" || s.Unattested != "it is a test's" {
				t.Errorf("status: takeover %q, unattested %q", s.Takeover, s.Unattested)
			}
			for _, a := range c.algorithms[:2] { // the commitment comes with a heartbeat
				for ; !a.opens.Load(); time.Sleep(time.Millisecond) {
					if within.Err() != nil {
						t.Fatal("no heartbeat has the commitment")
					}
				}
			}
			wrong := oath
			wrong.Secret = make([]byte, attest.Size)
			if err := transport.SendOath(within, wrong); err != nil {
				t.Fatal(err)
			}
			for i, m := range c.members[:2] {
				if s := c.status(i); s.Token != before || s.Refused["attest"] != 1 {
					t.Errorf("after a wrong secret member %s follows %v, and has counted %v", m.ID, s.Token, s.Refused)
				}
			}
			c.hosts[2].Kill()
			began := time.Now()
			if err := transport.SendOath(within, oath); err != nil {
				t.Fatal(err)
			}
			after := c.agree(within, 2, "1", "2")
			if took := time.Since(began); took > 20*time.Second || after.Epoch <= before.Epoch {
				t.Errorf("%v follows %v after %v, and T is over a minute", after, before, took)
			}
			if err := transport.SendOath(within, oath); err != nil { // it comes once more, late
				t.Fatal(err)
			}
			if got := c.agree(within, 2, "1", "2"); got != after || c.status(0).Refused["attest"] != 1 {
				t.Errorf("a late copy: %v leads, and not %v", got, after)
			}
		})
	}
}
