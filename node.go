package batuta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// Node is a running member of an election. Its methods may be called from any
// goroutine. [Start] and [New] make one; the zero Node is of no use.
type Node struct {
	ground
	saver       saver
	links       links
	joiner      joiner
	duties      duties
	candidacies candidacies
	stance      stance
	trace       trace
	begun       atomic.Bool        // Run was called, or what ends a node that never runs
	cut         context.Context    // is over when the node is to end although work runs
	abort       context.CancelFunc // ends it
	last        Status             // valid once done is closed

	// Used in a turn of the node.
	began     Token // that with which the present leadership began
	lost      map[Cause]uint64
	departing atomic.Bool // it leaves the cluster for good
	oaths     oaths
}

// loop steps the Machine, does the actions in their order, and sleeps until the Machine's
// deadline otherwise. What arrives meanwhile does the same in a turn of its own, on the goroutine
// that has read it.
func (n *Node) loop() {
	if n.cfg.Health.Check != nil {
		n.stance.checked = errUnchecked
		n.emit(election.Event{Kind: election.Health}) // until it has been asked
		c := checkup{Health: n.cfg.Health.withDefaults(), id: n.id, log: n.cfg.Logger, report: func(ctx context.Context, err error) error {
			return n.call(ctx, func() {
				n.stance.checked = err
				n.stance.judge()
			})
		}}
		n.links.background(c.run)
	}
	if n.joiner.awaited() != "" {
		n.links.background(n.joiner.sayAwaited)
	}
	if len(n.cfg.Join) > 0 && n.cfg.Wire == nil {
		n.links.background(n.joiner.join)
	} else {
		n.emit(election.Event{Kind: election.Started})
		if n.cfg.Advertise == "" {
			n.links.background(n.links.keepLocating)
		}
	}
	if n.links.security != nil {
		n.links.background(n.links.keepReloading)
	}
	n.drain()
	end := n.ending.Done()
	for (!n.closing || len(n.duties.working)+n.candidacies.atWork > 0) && n.cut.Err() == nil {
		n.arm()
		n.turn <- struct{}{}
		var c command
		select {
		case <-n.timer.C:
			c.do = func() { n.links.wake(); n.armed = time.Time{} } // the timer has run, and is to be set again
		case err := <-n.saver.saved:
			c.do = func() { n.saver.wasSaved(err) }
		case c = <-n.commands:
		case <-end:
			end = nil
			c.do = n.leave
		case <-n.cut.Done():
			c.do = n.leave
		}
		<-n.turn
		c.do()
		n.links.wake() // before the timer's turn, or because the clock has leapt over time that the timer does not see
		n.drain()
		if c.done != nil {
			close(c.done)
		}
	}
	n.leave()
	n.drain()
	n.end()
}

// drain steps the Machine with everything that waits, and with what comes of it.
func (n *Node) drain() {
	n.settle()
	for i := 0; i < len(n.todo); i++ {
		n.step(n.todo[i])
	}
	clear(n.todo)
	n.todo = n.todo[:0]
}

// settleTurn ends a turn that is not the loop's. What is due is done in it.
func (n *Node) settleTurn() {
	if n.over {
		return
	}
	n.links.wake()
	n.drain()
	n.arm()
}

func (n *Node) step(ev election.Event) {
	now := time.Now() // for people: the Machine's time goes on if the wall clock is set back
	o := n.advance(ev)
	if ev.Kind == election.Received {
		n.links.rhythm.takesIn(n.stepped, ev.Message)
	}
	n.publish(o, now)
	n.settle()
	n.prolong()
	n.stance.noteStanding()
}

// settle publishes the outcome of calls to named.
func (n *Node) settle() {
	for n.called {
		o := n.wanted
		n.wanted, n.called = outcome{}, false
		n.publish(o, time.Now())
	}
}

// publish does what a step asks for. What the step changes for leaderships of this member
// that have ended is published first, the rest afterward.
func (n *Node) publish(o outcome, now time.Time) {
	rest := n.candidacies.tellLost(o.changes, now)
	for _, a := range o.actions {
		n.do(a, now)
	}
	n.candidacies.tellElections(rest, o.replies, now)
}

func (n *Node) do(a election.Action, now time.Time) {
	switch a.Kind {
	case election.NotifyElected, election.NotifyLost, election.NotifyRenewed:
		n.elect(a, now)
		n.links.rhythm.forgets()
		n.links.net.Lead(n.machine.View())
	case election.Save:
		n.saver.save(a.State)
	case election.Send:
		n.links.sent[string(a.Message.Kind)]++
		n.links.rhythm.sends(n.stepped, a.To, a.Message)
		n.links.net.Send(a.To, a.Message)
	case election.Dial:
		if a.Address != "" {
			n.links.net.Add(a.To, a.Address)
		}
		n.links.net.Dial(a.To)
	case election.Hangup:
		n.links.net.Hangup(a.To)
	case election.Notify:
		n.notify(a, now)
	case election.Rejoin:
		n.joiner.joinAgain(a.To)
	case election.Halt:
		n.halt(a)
	case election.Append:
		n.saver.writeRecords(a)
	case election.Learn:
		n.learn(a.Member, a.Meta, now)
	case election.Warn:
		n.cfg.Logger.Warn(fmt.Sprint(a.Err))
	}
}

// notify publishes a member's state, and keeps the network's list of members.
func (n *Node) notify(a election.Action, now time.Time) {
	if a.Status == election.StateAdded {
		n.links.know(a.Member, a.Address)
	}
	if a.Status == election.StateAdded || a.Status == election.StateRemoved {
		n.oaths.reaches(n.id, n.machine.Members())
	}
	if a.Status != election.StateUp {
		n.links.rhythm.forgets(a.Member)
	}
	n.cfg.Logger.Info("member state changed", "member", a.Member, "state", string(a.Status))
	n.history.add(Event{Time: now, Kind: EventMember, View: n.view(),
		Member: a.Member, State: a.Status, Address: n.links.address(a.Member)})
	if a.Status == election.StateRemoved {
		delete(n.links.addrs, a.Member)
		delete(n.links.metas, a.Member)
		n.links.net.Remove(a.Member)
	}
}

// elect publishes a leadership that begins or ends, to work first.
func (n *Node) elect(a election.Action, now time.Time) {
	if a.Kind == election.NotifyLost {
		if n.closing && a.Token.Leader.ID == n.id {
			a.Cause = election.CauseStopped
		}
		n.loseTo(a.Token, a.Cause, now)
		return
	}
	if a.Kind == election.NotifyRenewed {
		v := n.view()
		n.duties.renew(v.Token, a.Token)
		v.Token = a.Token
		v.unready = v.unready && v.waits()
		n.history.add(Event{Time: now, Kind: EventRenewed, View: v})
		n.cfg.Logger.Info("leadership renewed", "leader", a.Token.Leader.ID, "epoch", a.Token.Epoch)
		if a.Token.Leader.ID == n.id && n.cfg.AwaitReady && v.Ready() {
			publishReady(n, a.Token)
		}
		return
	}
	n.prolong()
	n.began = a.Token
	if proof := n.oaths.begin(a.Token, n.id, n.machine.Members()); proof != nil {
		n.emit(election.Event{Kind: election.Sworn, Token: a.Token, Proof: proof})
	}
	v := View{Election: n.cfg.Election, Token: a.Token, Address: n.links.address(a.Token.Leader.ID), Meta: n.links.metas[a.Token.Leader.ID], Since: now}
	v.unready = v.waits()
	n.history.add(Event{Time: now, Kind: EventLeader, View: v})
	n.cfg.Logger.Info("a member leads", "leader", a.Token.Leader.ID, "epoch", a.Token.Epoch)
}

func (n *Node) loseTo(token Token, cause Cause, now time.Time) {
	n.duties.cancelWork(token, cause)
	n.oaths.end(token)
	n.lost[cause]++
	n.history.add(Event{Time: now, Kind: EventLost, View: View{
		Election: n.cfg.Election, Since: now, Lost: token, Cause: cause, LastSeen: now.Add(-n.silence(token, cause))}})
	n.cfg.Logger.Info("leadership ended", "leader", token.Leader.ID, "epoch", token.Epoch, "cause", string(cause))
}

// ID is this member's id.
func (n *Node) ID() ID { return n.id }

// Addr is the listen address as bound, HOST:PORT.
func (n *Node) Addr() string { return n.addr }

// Run takes part in the election until ctx ends, then hands over and returns. Like
// [Node.Shutdown] it waits for the functions that [Node.Lead] runs, without a limit of its own.
// It returns nil after an orderly end, by ctx or by a method, else the fault that [Node.Err] gives.
//
// A node runs once: a second Run returns an error, and Run after Close returns [ErrClosed].
func (n *Node) Run(ctx context.Context) error {
	if !n.begun.CompareAndSwap(false, true) {
		select {
		case <-n.done:
			return n.closed()
		default:
			return fmt.Errorf("member %s runs already: call Run once, and not after Start", n.id)
		}
	}
	defer context.AfterFunc(ctx, n.close)()
	close(n.running)
	n.loop()
	return n.err
}

// ErrInWork is what Shutdown returns to the work of a leadership, which it would wait for: return
// from the work first, or call it on a goroutine of its own.
var ErrInWork = errors.New("called from within the work of a leadership, which it would wait for: return from the work first")

// Shutdown hands over, if this member leads, and ends the node. It cancels the contexts of the
// functions that [Node.Lead] runs, and waits for the functions: the next member leads only after they
// have returned. It returns when every goroutine has ended and the port is free. A save, or the
// read of a file, that the disk does not answer within T is left behind, which the log reports.
//
// If ctx ends while functions run, Shutdown ends the node without them, as [Node.Close] does, and
// returns ctx's error joined with that of Close. Called with the context of a function of Lead it
// returns [ErrInWork] and does nothing. On a node that has ended it returns what Err does.
func (n *Node) Shutdown(ctx context.Context) error {
	if ctx.Value(workKey{&n.ground}) != nil {
		return ErrInWork
	}
	n.close()
	if n.begun.CompareAndSwap(false, true) { // it never ran
		n.closing = true
		n.end()
	}
	select {
	case <-n.done:
		return n.err
	case <-ctx.Done():
	}
	n.abort()
	<-n.done
	if errors.Is(n.err, ErrClosed) { // work was left behind
		return errors.Join(ctx.Err(), n.err)
	}
	return n.err
}

// Close is [Node.Shutdown] that waits T, 600 ms by default, for the functions that [Node.Lead]
// runs, and for a function that calls it too. If such a call runs longer, the node ends without handing
// over: for the other members this member has crashed. The error then wraps [ErrClosed], and the function
// may run while the next member leads. Closing again does nothing.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	n.Shutdown(ctx)
	return n.err
}

// Done is closed when the node has ended, by a call or by itself.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the node ended by itself, or that it ended before its work; nil while it runs and
// after an orderly end.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// connect opens the network: batuta's own, or that of the Wire.
func (n *Node) connect(listener net.Listener) {
	var proof transport.Security
	if n.links.security != nil {
		proof = n.links.security
	}
	if t, ok := n.cfg.Transport.(interface {
		Attach(network.Turn, <-chan struct{})
	}); ok { // of package batutatest: it freezes the node
		t.Attach(n.turn, n.ending.Done())
	}
	if n.cfg.Wire != nil {
		n.links.net = n.cfg.Wire.Open(listener, n.site())
	} else {
		n.links.transport = transport.Open(listener, n.cfg.Transport.Dial, proof, n.site(), len(n.cfg.Peers))
		n.links.net = n.links.transport
	}
	for _, m := range n.machine.Members() {
		if m.ID != n.id {
			n.links.know(m.ID, m.Address)
		}
	}
}

// site is this node as its network sees it.
func (n *Node) site() network.Site {
	return network.Site{
		Self: n.id, Cluster: n.cfg.Cluster, Election: n.cfg.Election, Algorithm: n.cfg.Algorithm, Observer: n.cfg.Observer && !n.cfg.Witness,
		Incarnation: n.incarnation, Advertise: n.cfg.Advertise, Join: n.cfg.Join, Timing: n.cfg.timing(),
		Log: n.cfg.Logger, Counters: &n.links.counters,
		Turn: n.turn, Settle: n.settleTurn,
		Emit: n.links.hear,
		Admit: func(peer Rank, incarnation uint64) error {
			return n.machine.Admit(n.now(), peer, incarnation)
		},
		AdmitAnswer: func(peer Rank, incarnation uint64) error {
			return n.machine.AdmitAnswer(n.now(), peer, incarnation)
		},
		AdmitJoin: func(e election.Member, incarnation uint64) error {
			return n.machine.AdmitJoin(n.now(), e, incarnation)
		},
		Attest: func(secret []byte) bool {
			c, ok := n.machine.(interface{ Opens(secret []byte) bool })
			if ok = ok && c.Opens(secret); ok { // it ends a leadership that this member follows
				n.emit(election.Event{Kind: election.Attested, Proof: secret})
			}
			return ok
		},
		Enter:  n.enter,
		SameID: n.joiner.sameID,
		Rank:   n.machine.Self, Entry: n.machine.Entry,
		Check: wire.CheckMessage,
		View:  n.machine.View, Held: n.machine.Held, Highest: n.machine.Highest,
	}
}

// enter puts a newcomer on the list and gives what it should know.
func (n *Node) enter(e election.Member, holds Token) (entry network.Entry) {
	n.step(election.Event{Kind: election.JoinRequested, Member: e, Token: holds})
	entry.Token, entry.Age = n.machine.Vouch()
	entry.List = n.machine.List()
	return entry
}

// learn stores the metadata of a member.
func (n *Node) learn(id ID, pairs map[string]string, now time.Time) {
	v := n.view()
	waited := v.unready
	if id == v.Token.Leader.ID {
		v.Meta = pairs
		v.unready = v.waits()
	}
	level := slog.LevelInfo
	if maps.Equal(meta.UsersOf(n.links.metas[id]), meta.UsersOf(pairs)) {
		level = slog.LevelDebug // such as the scheduled times of jobs
	}
	n.links.metas[id] = pairs
	n.candidacies.elections.learn(id, pairs)
	n.cfg.Logger.Log(context.Background(), level, "metadata changed", "member", id, "pairs", len(pairs))
	n.history.add(Event{Time: now, Kind: EventMeta, View: v, Member: id, Meta: pairs})
	if waited && v.Ready() {
		n.cfg.Logger.Info("ready", "leader", id, "epoch", v.Token.Epoch)
		n.history.add(Event{Time: now, Kind: EventReady, View: v})
	}
}

func publishReady(n *Node, t Token) {
	n.emit(election.Event{Kind: election.Tells, Meta: withReady(n.links.metas[n.id], strconv.FormatUint(t.Epoch, 10))})
}
