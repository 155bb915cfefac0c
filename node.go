package batuta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/logqueue"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// Node is a running member of an election. Its methods may be called from any
// goroutine. [Start] and [New] make one; the zero Node is of no use.
type Node struct {
	id          ID
	cfg         Config // defaults filled in
	incarnation uint64
	addr        string
	timeout     time.Duration // T = 2·t_max + t_process

	born      time.Time
	clock     *clock.Clock // the time since born, for the Machine too
	lasting   atomic.Int64 // until when on it a leadership lasts if the loop does nothing more; see prolong
	history   *history
	trace     trace
	counters  network.Counters
	elections elections
	logs      *logqueue.Queue // nil: nothing is logged
	ownLogs   bool            // logs ends with the node
	commands  chan command
	begun     atomic.Bool        // Run was called, or what ends a node that never runs
	running   chan struct{}      // closed by Run
	ending    context.Context    // is over when the node is to hand over and end
	close     context.CancelFunc // ends it
	cut       context.Context    // is over when the node is to end although work runs
	abort     context.CancelFunc // ends it
	done      chan struct{}
	err       error  // valid once done is closed
	last      Status // valid once done is closed

	// The loop's alone.
	machine     machine.Core
	stepped     time.Duration // when it was stepped last, on clock
	steppedAgo  time.Duration // and how long the time before was ago then
	named       *named.Core   // goes around machine; nil: there is the cluster's own election alone
	candidates  map[string]*candidate
	asked       map[uint64]chan named.Reply // requests to the coordinator of the named elections
	atWork      int                         // functions that run for named elections
	began       Token                       // that with which the present leadership began
	fresh       []string                    // names whose work has begun in this step
	transport   *transport.Transport        // nil with Config.Wire
	net         network.Network             // transport, or the Wire's
	addrs       map[ID]string               // where members listen
	metas       map[ID]map[string]string    // what members publish of themselves
	sent        map[string]uint64           // messages, by kind
	met         bool                        // a link has stood
	ctx         context.Context             // of what runs beside the loop
	cancel      context.CancelFunc
	beside      sync.WaitGroup
	security    *security.Security // nil: none
	store       Store              // nil: none
	records     records            // nil: the algorithm keeps none
	saved       chan error
	saving      sync.WaitGroup
	disk        diskHealth
	rhythm      rhythm
	standing    Standing
	stood       time.Time        // since when
	pausing     bool             // the cluster was paused when that was last looked at
	healthError string           // the error of the last check that failed
	todo        []election.Event // to step the Machine with
	turn        network.Turn
	timer       *time.Timer
	armed       time.Time // what timer is set to
	working     map[*work]struct{}
	lost        map[Cause]uint64
	closing     bool
	leads       int              // calls of Lead that have not returned
	retired     bool             // they have all returned, and this member stands no more
	departing   atomic.Bool      // it leaves the cluster for good
	newcomer    machine.Newcomer // what its asking to be let in has brought
	insecure    string           // how the security of an address to join through differs from this member's; "": of none
	rejoin      chan struct{}    // all addresses through which it joins are to be asked again
	returning   bool             // a member is being asked to admit this member again
	duplicate   duplicateID
	oaths       oaths
}

// command is something to do on the loop; done is closed when all that it led
// to at once has been done too.
type command struct {
	do   func()
	done chan struct{}
}

// loop steps the Machine, does the actions in their order, and sleeps until the Machine's
// deadline otherwise. What arrives meanwhile does the same in a turn of its own, on the goroutine
// that has read it.
func (n *Node) loop() {
	if n.cfg.Health.Check != nil {
		n.emit(election.Event{Kind: election.Health}) // until it has been asked
		c := checkup{Health: n.cfg.Health.withDefaults(), log: n.cfg.Logger, report: n.SetHealth}
		n.background(c.run)
	}
	if n.awaited() != "" {
		n.background(n.sayAwaited)
	}
	if len(n.cfg.Join) > 0 && n.cfg.Wire == nil {
		n.background(n.join)
	} else {
		n.emit(election.Event{Kind: election.Started})
		if n.cfg.Advertise == "" {
			n.background(n.keepLocating)
		}
	}
	if n.security != nil {
		n.background(n.keepReloading)
	}
	n.drain()
	end := n.ending.Done()
	for (!n.closing || len(n.working)+n.atWork > 0) && n.cut.Err() == nil {
		n.arm()
		n.turn <- struct{}{}
		var c command
		select {
		case <-n.timer.C:
			c.do = func() {
				if late := n.now().Sub(n.armed); !n.armed.IsZero() && late > 0 {
					n.rhythm.stall.add(n.clock.Now(), late)
				}
				n.armed = time.Time{}
				n.emit(election.Event{Kind: election.Woke})
			}
		case err := <-n.saved:
			c.do = func() {
				n.wasSaved(err)
				n.emit(election.Event{Kind: election.Saved, Err: err})
			}
		case c = <-n.commands:
		case <-end:
			end = nil
			c.do = n.leave
		case <-n.cut.Done():
			c.do = n.leave
		}
		<-n.turn
		c.do()
		n.drain()
		if c.done != nil {
			close(c.done)
		}
	}
	n.leave()
	n.drain()
	n.end()
}

// emit has the Machine stepped with ev, after what is already waiting.
func (n *Node) emit(ev election.Event) { n.todo = append(n.todo, ev) }

// drain steps the Machine with everything that waits, and with what comes of it.
func (n *Node) drain() {
	for i := 0; i < len(n.todo); i++ {
		n.step(n.todo[i])
	}
	clear(n.todo)
	n.todo = n.todo[:0]
}

func (n *Node) step(ev election.Event) {
	passed := n.clock.Now()
	n.stepped, n.steppedAgo = passed, passed-n.stepped
	if ev.Kind == election.Received {
		n.rhythm.takesIn(passed, ev.Message)
	}
	now := time.Now() // for people: the Machine's time goes on if the wall clock is set back
	actions := n.stepCore(n.born.Add(passed), ev)
	rest := n.tellLost(now)
	for _, a := range actions {
		n.do(a, now)
	}
	n.tellElections(rest, now)
	n.prolong()
	n.noteStanding()
}

// prolong stores until when the leadership lasts. After a stall the loss is published
// before: IsLeader stays false until then. A new leadership is published behind it:
// IsLeader is true for whatever receives the event.
func (n *Node) prolong() { n.lasting.Store(int64(n.lasts())) }

// stepCore steps the Machine, and what goes around it.
func (n *Node) stepCore(at time.Time, ev election.Event) []election.Action {
	if n.named == nil {
		return n.machine.Step(at, ev)
	}
	return n.named.Step(at, ev)
}

// now is the Machine's time.
func (n *Node) now() time.Time { return n.born.Add(n.clock.Now()) }

func (n *Node) do(a election.Action, now time.Time) {
	switch a.Kind {
	case election.NotifyElected, election.NotifyLost, election.NotifyRenewed:
		n.elect(a, now)
		n.rhythm.forgets()
		n.net.Lead(n.machine.View())
	case election.Save:
		n.save(a.State)
	case election.Send:
		n.sent[string(a.Message.Kind)]++
		n.rhythm.sends(n.stepped, a.To, a.Message)
		n.net.Send(a.To, a.Message)
	case election.Dial:
		if a.Address != "" {
			n.net.Add(a.To, a.Address)
		}
		n.net.Dial(a.To)
	case election.Hangup:
		n.net.Hangup(a.To)
	case election.Notify:
		n.notify(a, now)
	case election.Rejoin:
		n.joinAgain(a.To)
	case election.Halt:
		n.halt(a)
	case election.Append:
		n.appendRecords(a)
	case election.Learn:
		n.learn(a.Member, a.Meta, now)
	case election.Warn:
		n.warn(a.Err)
	}
}

// notify publishes a member's state, and keeps the network's list of members.
func (n *Node) notify(a election.Action, now time.Time) {
	if a.Status == election.StateAdded {
		n.know(a.Member, a.Address)
	}
	if a.Status == election.StateAdded || a.Status == election.StateRemoved {
		n.oaths.reaches(n.id, n.machine.Members())
	}
	if a.Status != election.StateUp {
		n.rhythm.forgets(a.Member)
	}
	n.cfg.Logger.Info("member state changed", "member", a.Member, "state", string(a.Status))
	n.history.add(Event{Time: now, Kind: EventMember, View: n.view(),
		Member: a.Member, State: a.Status, Address: n.address(a.Member)})
	if a.Status == election.StateRemoved {
		delete(n.addrs, a.Member)
		delete(n.metas, a.Member)
		n.net.Remove(a.Member)
	}
}

// halt ends the node because the Machine can take no further part.
func (n *Node) halt(a election.Action) {
	if errors.Is(a.Err, election.ErrSameID) {
		n.fail(config("id %s is in use by the process at %s, where the member list has it: give each process its own id", n.id, election.Shown(a.Address)))
		return
	}
	n.fail(fmt.Errorf("member %s can take no further part: %w", n.id, a.Err))
}

// fail ends the node because of err.
func (n *Node) fail(err error) {
	if n.closing {
		return
	}
	n.err = err
	n.cfg.Logger.Error("giving up", "error", err)
	n.leave()
	n.close() // wakes the loop, if this is not its turn
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
		for w := range n.working {
			if w.token == v.Token {
				w.token = a.Token
			}
		}
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
	v := View{Election: n.cfg.Election, Token: a.Token, Address: n.address(a.Token.Leader.ID), Meta: n.metas[a.Token.Leader.ID], Since: now}
	v.unready = v.waits()
	n.history.add(Event{Time: now, Kind: EventLeader, View: v})
	n.cfg.Logger.Info("a member leads", "leader", a.Token.Leader.ID, "epoch", a.Token.Epoch)
}

func (n *Node) loseTo(token Token, cause Cause, now time.Time) {
	n.cancelWork(token, cause)
	n.oaths.end(token)
	n.lost[cause]++
	n.history.add(Event{Time: now, Kind: EventLost, View: View{
		Election: n.cfg.Election, Since: now, Lost: token, Cause: cause, LastSeen: now.Add(-n.silence(token, cause))}})
	n.cfg.Logger.Info("leadership ended", "leader", token.Leader.ID, "epoch", token.Epoch, "cause", string(cause))
}

// save writes the state beside the loop: a disk may be slow.
func (n *Node) save(s election.State) {
	if n.store == nil {
		n.emit(election.Event{Kind: election.Saved})
		return
	}
	n.saveBegins()
	n.saving.Go(func() { n.saved <- n.store.Save(s) })
}

// arm sets the timer to the Machine's deadline.
func (n *Node) arm() {
	at, due := n.machine.Deadline()
	if n.named != nil {
		at, due = n.named.Deadline()
	}
	if !due {
		n.timer.Stop()
		n.armed = time.Time{}
		return
	}
	// The timer does not see the time that the clock leaps over: it may have still to
	// wait for what is due.
	if wait := at.Sub(n.now()); at != n.armed || wait <= 0 {
		n.timer.Reset(wait)
		n.armed = at
	}
}

// call does f on the loop, and waits until all that comes of it at once is done.
// It gives ctx's error if that comes first (f may be done all the same, later), or
// why the node has ended.
func (n *Node) call(ctx context.Context, f func()) error {
	c := command{f, make(chan struct{})}
	select {
	case n.commands <- c:
	case <-n.done:
		return n.closed()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err() // the loop has begun with it, and is stuck
	}
}

// ask gives what f returns on the loop, or the error of [Node.call]: then f may still run, and
// what it returns is dropped.
func ask[T any](ctx context.Context, n *Node, f func() T) (T, error) {
	answer := make(chan T, 1)
	if err := n.call(ctx, func() { answer <- f() }); err != nil {
		var none T
		return none, err
	}
	return <-answer, nil
}

// closed is what a node that has ended answers.
func (n *Node) closed() error {
	<-n.done
	if n.err != nil {
		return n.err
	}
	return ErrClosed
}

func (n *Node) view() View { return n.history.Last().Event.View }

// address is where a member listens, as far as is known.
func (n *Node) address(id ID) string {
	if id == n.id {
		return n.cfg.Advertise
	}
	return n.addrs[id]
}

// ID is this member's id.
func (n *Node) ID() ID { return n.id }

// Addr is the listen address as bound, HOST:PORT.
func (n *Node) Addr() string { return n.addr }

// Leader is this member's present view. It names this member itself only while
// IsLeader does: before the end of a stalled leadership is known it is undefined.
func (n *Node) Leader() View {
	v := n.view()
	if late := n.late(); v.Token.Leader.ID == n.id && late > 0 {
		return View{Election: v.Election, Since: time.Now().Add(-late), Lost: v.Token, Cause: election.CauseStalled}
	}
	return v
}

// IsLeader reports whether this member leads right now. It compares clocks: after
// the process, its machine or its node alone has been stopped for longer than T (on
// a different [Wire] for longer than its silence; with a quorum, for as long as its lease) it is false at once, in a paused virtual machine as soon as its wall clock is set right.
func (n *Node) IsLeader() bool {
	return n.view().Token.Leader.ID == n.id && n.late() <= 0
}

// late is how long ago the loop should have stepped the Machine, for its leadership
// to last; not positive while that is to come.
func (n *Node) late() time.Duration {
	return n.clock.Now() - time.Duration(n.lasting.Load())
}

// Resign steps down, and the other members elect; no effect when not leading. It
// returns when the leadership has ended here, with ctx's error, or with
// [ErrClosed]. This member is a candidate again when a later leadership of at least 2·T
// has ended (with a quorum, of any length), when no member leads for 2·T, when the
// leadership is handed over to it, or by [Node.Campaign].
func (n *Node) Resign(ctx context.Context) error {
	return n.call(ctx, func() { n.emit(election.Event{Kind: election.Resigned}) })
}

// Campaign starts an election, and makes a member stand again that has resigned.
// It returns when the contest has begun, with ctx's error, or with [ErrClosed].
func (n *Node) Campaign(ctx context.Context) error {
	return n.call(ctx, func() {
		n.retired = false
		n.emit(election.Event{Kind: election.Campaign})
	})
}

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
// have returned. It returns when every goroutine has ended and the port is free. A save that
// the disk does not answer within T is left behind, which the log reports.
//
// If ctx ends while functions run, Shutdown ends the node without them, as [Node.Close] does, and
// returns ctx's error joined with that of Close. Called with the context of a function of Lead it
// returns [ErrInWork] and does nothing. On a node that has ended it returns what Err does.
func (n *Node) Shutdown(ctx context.Context) error {
	if ctx.Value(workKey{n}) != nil {
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
