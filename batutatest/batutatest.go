// Package batutatest runs a cluster within a single process, for the tests of a service that uses
// batuta. Members communicate over a network in memory, are killed, frozen, cut off and healed by
// calls, and keep their state as on a disk.
//
// Within [testing/synctest] the time that the cluster waits takes none, and a test of what happens
// when the leader is cut off ends in milliseconds:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := batutatest.New(t, 5)
//		c.StartAll()
//		c.Agree("5")
//		c.Kill("5")
//		c.Agree("4")
//	})
//
// Outside of it everything works too, in real time.
//
// [NewElector] needs no cluster: the test itself begins and ends each leadership.
package batutatest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/memnet"
)

// Patience is how long [Cluster.Agree] waits before it fails the test.
const Patience = time.Minute

// Cluster is members with the ids 1 to n, each with all of them on its list. Its methods must be
// called from the test's goroutine, and fail the test if something does not work.
type Cluster struct {
	t       testing.TB
	network *memnet.Network
	members []batuta.Peer
	change  []func(*batuta.Config)
	hosts   map[batuta.ID]*memnet.Host
	disks   map[batuta.ID]*disk
	joins   map[batuta.ID]bool // members on no list
	nodes   map[batuta.ID]*batuta.Node
	ended   map[batuta.ID]*batuta.Node // of members that do not run any more
	frozen  map[batuta.ID]bool
	apart   [][2]batuta.ID // links that are cut
	dir     string
}

// New prepares n members, without starting them. Each of change may alter the configuration of a
// member before it starts: its Algorithm, by default bully, its times, its Health. The list and
// addresses are the cluster's. The Store is in memory unless it is changed; a quorum, which needs a
// DataDir, has one in the test's temporary directory. The test's end stops all.
func New(t testing.TB, n int, change ...func(*batuta.Config)) *Cluster {
	t.Helper()
	if n < 1 || slices.ContainsFunc(change, func(f func(*batuta.Config)) bool { return f == nil }) {
		t.Fatalf("batutatest.New with %d members and %d changes: give at least one member, and no nil function", n, len(change))
	}
	c := &Cluster{t: t, network: memnet.New(), change: change, hosts: map[batuta.ID]*memnet.Host{},
		disks: map[batuta.ID]*disk{}, joins: map[batuta.ID]bool{}, nodes: map[batuta.ID]*batuta.Node{}, ended: map[batuta.ID]*batuta.Node{},
		frozen: map[batuta.ID]bool{}, dir: t.TempDir()}
	for range n {
		c.seat()
	}
	t.Cleanup(c.stop)
	return c
}

// seat makes the next member.
func (c *Cluster) seat() batuta.ID {
	i := len(c.members) + 1
	id := batuta.ID(strconv.Itoa(i))
	c.members = append(c.members, batuta.Peer{ID: id, Addr: fmt.Sprintf("10.0.%d.%d:7400", i/250, i%250)})
	c.disks[id] = &disk{}
	return id
}

// Latency makes each message take the result of takes, from now on; 1 ms by default. It must be
// called before the start.
func (c *Cluster) Latency(takes func() time.Duration) { c.network.Takes = takes }

// Config returns the configuration of a member.
func (c *Cluster) Config(id batuta.ID) batuta.Config {
	c.t.Helper()
	i := c.index(id)
	cfg := batuta.Config{ID: id, Listen: c.members[i].Addr, Algorithm: bully.New(),
		Store: c.disks[id], Logger: slog.New(slog.NewTextHandler(c.t.Output(), nil))}
	for _, m := range c.members {
		switch {
		case c.joins[id] && c.nodes[m.ID] != nil:
			cfg.Join = append(cfg.Join, m.Addr)
		case !c.joins[id] && !c.joins[m.ID]:
			cfg.Peers = append(cfg.Peers, m)
		}
	}
	for _, f := range c.change {
		f(&cfg)
	}
	if cfg.DataDir == "" && cfg.Algorithm != nil && cfg.Algorithm.Name() == "quorum" {
		cfg.DataDir = filepath.Join(c.dir, string(id))
	}
	c.hosts[id] = c.network.Host(string(id))
	cfg.Transport = c.hosts[id]
	return cfg
}

// index returns the index of id in the list; an unknown id fails the test.
func (c *Cluster) index(id batuta.ID) int {
	c.t.Helper()
	i := slices.IndexFunc(c.members, func(p batuta.Peer) bool { return p.ID == id })
	if i < 0 {
		c.t.Fatalf("there is no member %q: the ids are \"1\" to \"%d\"", id, len(c.members))
	}
	return i
}

// Start starts a member, or starts it again after [Cluster.Kill] or [Cluster.Stop].
func (c *Cluster) Start(id batuta.ID) *batuta.Node {
	c.t.Helper()
	if c.nodes[id] != nil {
		c.t.Fatalf("member %s runs", id)
	}
	n, err := batuta.Start(context.Background(), c.Config(id))
	if err != nil {
		c.t.Fatalf("member %s: %v", id, err)
	}
	c.nodes[id] = n
	return n
}

// Join adds a member to the running cluster, with the next id, and starts it: it joins through the
// members that run. [Cluster.Start] starts it again.
func (c *Cluster) Join() *batuta.Node {
	c.t.Helper()
	var by *batuta.Node
	for _, m := range c.members {
		if c.awake(m.ID) {
			by = c.nodes[m.ID]
		}
	}
	if by == nil {
		c.t.Fatal("no member runs that a newcomer could join through: call Start, StartAll or Thaw first")
	}
	id := c.seat()
	c.joins[id] = true
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := by.AddMember(ctx, c.members[c.index(id)]); err != nil {
		c.t.Fatalf("member %s cannot be added by member %s: %v", id, by.ID(), err)
	}
	return c.Start(id)
}

// StartAll starts every member that does not run.
func (c *Cluster) StartAll() {
	c.t.Helper()
	for _, m := range c.members {
		if c.nodes[m.ID] == nil {
			c.Start(m.ID)
		}
	}
}

// Node returns the node of a member. After [Cluster.Kill] or [Cluster.Stop] it is the one that has
// ended, until [Cluster.Start] starts another: its Done is closed, and calls such as Lead return
// [batuta.ErrClosed]. A member that was never started fails the test.
func (c *Cluster) Node(id batuta.ID) *batuta.Node {
	c.t.Helper()
	c.index(id)
	n := cmp.Or(c.nodes[id], c.ended[id])
	if n == nil {
		c.t.Fatalf("member %s was not started: call Start or StartAll first", id)
	}
	return n
}

// Kill ends a member as kill -9 does: it sends nothing, and its connections end. Work under
// [batuta.Node.Lead] there is cancelled, as it cannot be killed, and waited for.
func (c *Cluster) Kill(id batuta.ID) {
	c.t.Helper()
	c.running(id)
	c.hosts[id].Kill()
	delete(c.frozen, id)
	c.end(id)
}

// PowerOff ends a member as a power failure does: no connection is closed, and dials to it time out
// until it is started again and healed.
func (c *Cluster) PowerOff(id batuta.ID) {
	c.t.Helper()
	c.running(id)
	c.Isolate(id)
	c.Kill(id)
}

// Stop makes a member hand over and end. A frozen member fails the test: Thaw or Kill it.
func (c *Cluster) Stop(id batuta.ID) {
	c.t.Helper()
	c.running(id)
	if c.frozen[id] {
		c.t.Fatalf("member %s is frozen and cannot hand over: call Thaw first, or Kill", id)
	}
	c.end(id)
}

// Freeze stops the node of a member as SIGSTOP stops a process. Until [Cluster.Thaw] it sends, receives
// and elects nothing, and its connections stay open. After Thaw it receives what has arrived, and its
// timers are late. A member that is frozen for longer than T, 2·TMax + TProcess, is replaced: 600 ms by
// default.
//
// The test's own functions cannot be frozen, such as the work of [batuta.Node.Lead] or a
// [batuta.Health] check. Meanwhile the context of work is not cancelled, and methods of the node that
// ask its loop, such as Status, Hold and Resign, wait for the thaw. IsLeader, Leader and
// [batuta.Held.Valid] compare clocks: they report the end of a leadership in time.
//
// Close and Shutdown of the node, and the end of the test, thaw it: none of them waits for Thaw.
func (c *Cluster) Freeze(id batuta.ID) {
	c.t.Helper()
	c.running(id)
	if c.frozen[id] {
		c.t.Fatalf("member %s is frozen already", id)
	}
	if n := c.nodes[id]; !c.hosts[id].Freeze(n.Done()) {
		c.t.Fatalf("member %s has ended by itself: %v", id, n.Err())
	}
	c.frozen[id] = true
}

// Thaw ends [Cluster.Freeze]: the member goes on as after SIGCONT.
func (c *Cluster) Thaw(id batuta.ID) {
	c.t.Helper()
	if !c.frozen[id] {
		c.t.Fatalf("member %s is not frozen: call Freeze first", id)
	}
	delete(c.frozen, id)
	c.hosts[id].Thaw()
}

// awake reports whether a member runs and is not frozen.
func (c *Cluster) awake(id batuta.ID) bool { return c.nodes[id] != nil && !c.frozen[id] }

func (c *Cluster) running(id batuta.ID) {
	c.t.Helper()
	if c.index(id); c.nodes[id] == nil {
		c.t.Fatalf("member %s does not run: call Start first", id)
	}
}

func (c *Cluster) end(id batuta.ID) {
	n := c.nodes[id]
	delete(c.nodes, id)
	c.ended[id] = n
	if err := n.Shutdown(context.Background()); err != nil { // a test that hangs shows the work that does not end
		c.t.Logf("member %s: %v", id, err)
	}
}

// Cut blocks all messages between two members: they wait.
func (c *Cluster) Cut(a, b batuta.ID) {
	c.t.Helper()
	c.index(a)
	c.index(b)
	c.network.Cut(string(a), string(b))
	c.apart = append(c.apart, [2]batuta.ID{a, b})
}

// Isolate cuts a member off from the rest, and it runs on. What it sends, and what they send to it,
// arrives when the cluster is healed.
func (c *Cluster) Isolate(id batuta.ID) {
	c.t.Helper()
	c.Part(id)
}

// Part cuts these members off from the rest, but not from each other.
func (c *Cluster) Part(side ...batuta.ID) {
	c.t.Helper()
	for _, a := range side {
		for _, b := range c.members {
			if !slices.Contains(side, b.ID) {
				c.Cut(a, b.ID)
			}
		}
	}
}

// Heal ends every cut.
func (c *Cluster) Heal() {
	for _, link := range c.apart {
		c.network.Heal(string(link[0]), string(link[1]))
	}
	c.apart = nil
}

// Agree waits until these members, by default all that run and are not frozen, follow leader under the
// same token, and returns it.
func (c *Cluster) Agree(leader batuta.ID, among ...batuta.ID) batuta.Token {
	c.t.Helper()
	if len(among) == 0 {
		for _, m := range c.members {
			if c.awake(m.ID) {
				among = append(among, m.ID)
			}
		}
	}
	if len(among) == 0 {
		c.t.Fatal("no member runs that could agree: call Start, StartAll or Thaw first")
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		var tokens []batuta.Token
		for _, id := range among {
			c.running(id)
			tokens = append(tokens, c.await(ctx, id, leader))
		}
		if len(slices.Compact(tokens)) == 1 && c.still(among, tokens[0]) {
			return tokens[0]
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			c.t.Fatalf("after %v the members %v do not agree on %s: %s", Patience, among, leader, c.views())
		}
	}
}

// still reports whether all hold that token now.
func (c *Cluster) still(ids []batuta.ID, token batuta.Token) bool {
	return !slices.ContainsFunc(ids, func(id batuta.ID) bool { return c.nodes[id].Leader().Token != token })
}

// await waits until a member follows leader.
func (c *Cluster) await(ctx context.Context, id, leader batuta.ID) batuta.Token {
	c.t.Helper()
	for v := range c.nodes[id].Watch(ctx) {
		if v.Token.Leader.ID == leader {
			return v.Token
		}
	}
	c.t.Fatalf("member %s does not come to follow %s in %v: %s", id, leader, Patience, c.views())
	return batuta.Token{}
}

func (c *Cluster) views() (s string) {
	for _, m := range c.members {
		if n := c.nodes[m.ID]; n != nil {
			s += fmt.Sprintf("%s → %s; ", m.ID, n.Leader().Token)
		}
	}
	return s
}

// stop ends all running members.
func (c *Cluster) stop() {
	c.Heal()
	for id := range c.frozen {
		c.Thaw(id)
	}
	for id := range c.nodes {
		c.end(id)
	}
}

// disk is a [batuta.Store] that outlives its process.
type disk struct {
	mu    sync.Mutex
	state election.State
}

// Load implements [batuta.Store].
func (d *disk) Load() (election.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, nil
}

// Save implements [batuta.Store].
func (d *disk) Save(s election.State) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
	return nil
}
