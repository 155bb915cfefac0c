package batuta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/net/network"
)

// Start is [New], and [Node.Run] on a goroutine of its own. ctx is for the start only: its end
// does not end a node that runs. The caller ends the node with [Node.Shutdown] or [Node.Close].
func Start(ctx context.Context, c Config) (*Node, error) {
	n, err := newNode(ctx, c)
	if err != nil {
		return nil, err
	}
	go n.Run(context.Background()) // its error is that of Err, Shutdown and Close
	return n, nil
}

// New checks c and makes a node, which listens and has loaded its state, but takes no part before
// [Node.Run]. [Node.Watch] and [Node.Events] called before Run yield everything from the
// beginning; methods with a context wait for Run. Run the node, or close it: it
// holds the port and the data directory.
//
// The error wraps [ErrConfig] if only a change of the configuration can correct it.
func New(c Config) (*Node, error) { return newNode(context.Background(), c) }

func newNode(ctx context.Context, c Config) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg := c.withDefaults()
	n := &Node{
		ground: ground{
			cfg: cfg, timeout: cfg.timing().T(),
			calls: calls{commands: make(chan command), turn: make(network.Turn, 1), running: make(chan struct{}), done: make(chan struct{})},
		},
		lost: map[Cause]uint64{},
	}
	n.saver.ground, n.links.ground, n.joiner.links = &n.ground, &n.ground, &n.links
	n.links.addrs, n.links.metas, n.links.sent = map[ID]string{}, map[ID]map[string]string{}, map[string]uint64{}
	n.duties.ground, n.duties.working = &n.ground, map[*work]struct{}{}
	n.candidacies = candidacies{ground: &n.ground, links: &n.links, elections: newElections(), candidates: map[string]*candidate{}, asked: map[uint64]asking{}}
	n.stance.ground, n.stance.saver, n.stance.joiner, n.stance.duties = &n.ground, &n.saver, &n.joiner, &n.duties
	n.joiner.rejoin = make(chan struct{}, 1)
	if a, ok := n.cfg.Algorithm.(interface{ Clone() Algorithm }); ok {
		n.cfg.Algorithm = a.Clone() // so that c can be used again
	}
	if err := claimFor(n); err != nil {
		return nil, err
	}
	n.queueLogs()
	n.ending, n.close = context.WithCancel(context.Background())
	if err := n.prepare(ctx); err != nil {
		releaseOf(n)
		n.saver.Close()
		n.closeLogs()
		return nil, err
	}
	n.timer = time.NewTimer(n.timeout)
	n.cut, n.abort = context.WithCancel(context.Background())
	return n, nil
}

// prepare gets everything ready that can fail.
func (n *Node) prepare(ctx context.Context) error {
	state, err := n.saver.load()
	if err != nil {
		return err
	}
	if err := n.links.secure(ctx); err != nil {
		return err
	}
	n.links.find(ctx)
	listener, err := n.cfg.Transport.Listen(n.cfg.Listen)
	if err != nil {
		if datadir.Failed(err) {
			return fmt.Errorf("listen on %s: %w", n.cfg.Listen, datadir.Remedy(err))
		}
		return config("Config.Listen %s: %w: choose another address of this machine, or stop the process that uses this one", n.cfg.Listen, err)
	}
	if err := n.enroll(ctx, state, listener); err != nil {
		listener.Close()
		return err
	}
	return nil
}

// enroll marks this process as the newest with its id, before it publishes
// it, and builds the Machine.
func (n *Node) enroll(ctx context.Context, state election.State, listener net.Listener) error {
	n.born = time.Now().Round(0)
	n.clock = clock.New(n.cfg.clocks, n.timeout)
	n.addr = listener.Addr().String()
	n.links.settleAddress(ctx, state.Members)
	n.incarnation = max(state.Incarnation+1, uint64(n.born.UnixNano()))
	state.ID, state.Incarnation = n.id, n.incarnation
	held, err := n.saver.open(state)
	if err != nil {
		return err
	}
	self := Rank{Priority: n.cfg.Priority, ID: n.id}
	if len(n.cfg.Meta) > 0 {
		n.links.metas[n.id] = n.cfg.Meta
	}
	c := machine.Config{
		Self: self, Election: n.cfg.Election, Address: n.cfg.Advertise, Observer: n.cfg.Observer, Meta: n.cfg.Meta,
		Members: n.cfg.members(), Joins: len(n.cfg.Join) > 0, Closed: n.cfg.closed(), Newcomer: n.cfg.newcomer(), Expect: n.cfg.Expect, MinMembers: n.cfg.MinMembers,
		Algorithm: n.cfg.Algorithm, Timing: n.cfg.timing(), NoPreempt: n.cfg.NoPreempt, LeadUnhealthy: n.cfg.LeadUnhealthy, ReapAfter: n.cfg.ReapAfter,
		Incarnation: n.incarnation, State: state, Records: held, Seed: rand.Uint64(), Trace: n.record,
	}
	if n.machine, err = machine.NewCore(c); err != nil {
		return config("%w", err)
	}
	n.oaths = newOaths(n.cfg.Algorithm)
	if n.cfg.Wire == nil {
		n.named = named.New(n.machine, c, named.PartBytes)
	}
	n.stance.standing, n.stance.stood = StandingEligible, n.born
	n.history = newHistory(View{Election: n.cfg.Election, Since: n.born})
	n.links.ctx, n.links.cancel = context.WithCancel(context.Background())
	n.connect(listener)
	return nil
}

// end stops everything. Nothing works any more, and the other members have received that.
func (n *Node) end() {
	n.timer.Stop()
	if left := len(n.duties.working) + n.candidacies.atWork; left > 0 {
		n.err = errors.Join(n.err, fmt.Errorf("%w: it ended without handing over; functions of Lead that had not returned: %d; have them return soon after their context ends", ErrClosed, left))
		n.cfg.Logger.Error("the node ends while functions of Lead run: another member may lead before they return", "functions", left)
	}
	if v := n.view(); v.Defined() {
		n.loseTo(v.Token, election.CauseStopped, time.Now())
	}
	if n.departing.Load() {
		n.emit(election.Event{Kind: election.Leaving})
		n.drain()
	}
	if n.named != nil {
		n.perform(n.named.Flush(n.now()))
		n.settle()
	}
	n.over = true
	n.links.disconnect()
	fault := n.saver.end()
	n.last = n.status()
	n.err = errors.Join(n.err, fault)
	n.history.End()
	n.candidacies.endElections()
	n.close()
	n.closeLogs()
	releaseOf(n)
	close(n.done)
}

// claimed has the algorithm of every node that runs in this process, as a
// set of claim. It is the package's, since two nodes may have nothing in common but that value.
var claimed sync.Map

// claim is what two nodes cannot both step.
type claim struct {
	of      reflect.Type
	pointer uintptr // kept alive by the node's Config
}

// claimOf is false for an algorithm that is copied when it is given, or has nothing in it.
func claimOf(a Algorithm) (claim, bool) {
	v := reflect.ValueOf(a)
	switch v.Kind() {
	case reflect.Pointer:
		return claim{v.Type(), v.Pointer()}, v.Type().Elem().Size() > 0
	case reflect.Map, reflect.Chan:
		return claim{v.Type(), v.Pointer()}, true
	}
	return claim{}, false
}

// claimFor makes the algorithm this node's, unless a different node has it.
func claimFor(n *Node) error {
	c, shared := claimOf(n.cfg.Algorithm)
	if !shared {
		return nil
	}
	if _, taken := claimed.LoadOrStore(c, true); taken {
		return config("algorithm %s is that of another Node, which would step it at the same time: give each Node a value of its own, or the algorithm a method Clone", n.cfg.Algorithm.Name())
	}
	return nil
}

// releaseOf frees the algorithm for the next node.
func releaseOf(n *Node) {
	if c, shared := claimOf(n.cfg.Algorithm); shared {
		claimed.Delete(c)
	}
}
