package batuta

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/memnet"
	"github.com/batuta-dev/batuta/internal/testkit/tcpnet"
)

// patience is how long a test waits for an event before it gives up: generous, for
// a machine that does other things too. No test passes or fails by how soon it comes.
const patience = 30 * time.Second

// awaitEnd waits until a node has ended by itself.
func awaitEnd(t *testing.T, n *Node) {
	t.Helper()
	select {
	case <-n.Done():
	case <-time.After(patience):
		t.Fatalf("it still runs:\n%s", story(n))
	}
}

// cluster is members 1 to n on loopback, or in a memory.
type cluster struct {
	t          *testing.T
	memory     *memnet.Network // nil: real connections
	transports []killable
	members    []Peer
	nodes      map[ID]*Node
}

// killable is a member's transport, which can end as a process does.
type killable interface {
	Transport
	Kill()
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	return (&cluster{t: t, nodes: map[ID]*Node{}}).seats(n)
}

// newVirtualCluster is a cluster within [virtually].
func newVirtualCluster(t *testing.T, n int) *cluster {
	t.Helper()
	return (&cluster{t: t, memory: memnet.New(), nodes: map[ID]*Node{}}).seats(n)
}

func (c *cluster) seats(n int) *cluster {
	c.t.Helper()
	for range n {
		c.seat("127.0.0.1:0")
	}
	return c
}

// seat adds a member that will listen there, and gives the address as bound.
func (c *cluster) seat(addr string) string {
	c.t.Helper()
	if c.memory != nil {
		addr = "127.0.0.1:" + strconv.Itoa(7401+len(c.transports))
		c.transports = append(c.transports, c.memory.Host(strconv.Itoa(len(c.transports)+1)))
	} else {
		host, err := tcpnet.Bind(addr)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { host.Close() })
		addr = host.Addr().String()
		c.transports = append(c.transports, host)
	}
	c.members = append(c.members, Peer{ID: ID(strconv.Itoa(len(c.transports))), Addr: addr})
	return addr
}

func (c *cluster) config(id ID) Config {
	i, _ := strconv.Atoi(string(id))
	return Config{ID: id, Peers: c.members, Algorithm: bully.New(),
		Listen: c.members[i-1].Addr, Transport: c.transports[i-1], Logger: testLog(c.t, id)}
}

func (c *cluster) start(id ID, change ...func(*Config)) *Node {
	c.t.Helper()
	cfg := c.config(id)
	for _, f := range change {
		f(&cfg)
	}
	n, err := Start(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { n.Shutdown(context.Background()) })
	c.nodes[id] = n
	return n
}

// unhurried is a config with which no member is suspected, and none stops leading, when this machine stalls.
func unhurried(c *Config) { c.TProcess = 6 * time.Second }

func (c *cluster) startAll(change ...func(*Config)) {
	c.t.Helper()
	for _, m := range c.members {
		c.start(m.ID, change...)
	}
}

// kill ends a member's process, as far as the others can tell.
func (c *cluster) kill(id ID) {
	i, _ := strconv.Atoi(string(id))
	c.transports[i-1].Kill()
	delete(c.nodes, id)
}

// rebind gives a killed member a new life at its old address.
func (c *cluster) rebind(id ID) {
	c.t.Helper()
	i, _ := strconv.Atoi(string(id))
	if c.memory != nil {
		c.transports[i-1] = c.memory.Host(string(id))
		return
	}
	host, err := tcpnet.Bind(c.members[i-1].Addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.transports[i-1] = host
}

// agree waits until every living member names leader, all with one token, and
// gives it.
func (c *cluster) agree(leader ID) Token {
	c.t.Helper()
	for {
		views, highest := c.views()
		id := c.dissenter(views, Token{Epoch: highest.Epoch, Leader: Rank{ID: leader}})
		if id == "" {
			return highest
		}
		waitView(c.t, c.nodes[id], fmt.Sprintf("member %s and the others agree on %s", id, leader),
			func(v View) bool { return v.Token != views[id] })
	}
}

// views are the tokens that living members hold, and the highest of them.
func (c *cluster) views() (views map[ID]Token, highest Token) {
	views = map[ID]Token{}
	for id, n := range c.nodes {
		views[id] = n.Leader().Token
		if views[id].Above(highest) {
			highest = views[id]
		}
	}
	return views, highest
}

// dissenter is a member that must change its view before all agree on want, if
// there is one. Priorities do not matter here.
func (c *cluster) dissenter(views map[ID]Token, want Token) ID {
	for id, t := range views {
		if t.Epoch != want.Epoch || t.Leader.ID != want.Leader.ID {
			return id
		}
	}
	return ""
}

// waitView waits for a view that is good.
func waitView(t *testing.T, n *Node, what string, good func(View) bool) View {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := View{}
	for v := range n.Watch(ctx) {
		if good(v) {
			return v
		}
		last = v
	}
	t.Fatalf("waited in vain until %s; last view: %+v; trace:\n%s", what, last, story(n))
	return View{}
}

func story(n *Node) (s string) {
	for _, r := range n.Trace() {
		kind, token := election.MessageKind(""), r.Token
		if r.Message != nil {
			kind, token = r.Message.Kind, r.Message.Token
		}
		s += fmt.Sprintf("  %s %s %s %s %s %s\n", r.At.Format("05.000000"), r.What, kind, r.Peer, token, r.Why)
	}
	return s
}

// testLog logs to t, where -v shows it.
func testLog(t *testing.T, id ID) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("id", id)
}

func TestTwoThatDialEachOtherAtOnceAgree(t *testing.T) {
	c := newCluster(t, 2)
	c.startAll()
	c.agree("2")
	waitLinks(t, c.nodes["1"], 1)
	waitLinks(t, c.nodes["2"], 1)
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *Node) Status {
	s, _ := n.Status(context.Background())
	return s
}
