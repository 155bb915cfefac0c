package batuta

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/wire"
)

// A Wire has a Node speak another protocol than batuta's own, such as package
// boss's. It is set as [Config.Wire], a value of its own for each Node.
type Wire interface {
	// Defaults fills in what c leaves open as it should be on this wire.
	Defaults(c Config) Config
	// Check reports what of c does not go with this wire, and how to mend it.
	Check(c Config) error
	// Peers are those that it finds at the addresses of [Config.Join] before the
	// node starts; it may take until ctx ends.
	Peers(ctx context.Context, join []string) []Peer
	// Open serves the connections that l accepts, until [Network.Shut].
	Open(l net.Listener, s Site) Network
}

// Network is an open [Wire]: it turns what the Machine wants into connections,
// and what happens to them into the Machine's events. All its methods are called
// on the node's loop, Shut after it.
type Network interface {
	// Send delivers m if it can. If no link stands it tells LinkUp or DialFailed.
	Send(to ID, m *election.Message)
	// Dial tells LinkUp or DialFailed within 2·t_max.
	Dial(to ID)
	// Hangup ends the link to a member and tells nothing of it.
	Hangup(to ID)
	// Add makes a member known, or gives it another address; Remove forgets it.
	Add(id ID, addr string)
	Remove(id ID)
	// Lead says that the view has changed: t leads; zero: nobody.
	Lead(t Token)
	// Links is how many links stand.
	Links() int
	// Shut ends everything. What is on its way has wait to be delivered.
	Shut(wait time.Duration)
}

// Site is the node that a [Wire] serves. Unless it says otherwise a field may be
// used on the loop alone: in the methods of [Network] and in what Post is given.
type Site struct {
	Self        ID
	Cluster     string
	Election    string
	Incarnation uint64
	Advertise   string   // HOST:PORT
	Join        []string // HOST:PORT of [Config.Join]
	Timing      election.Timing
	Log         *slog.Logger // anywhere

	Emit      func(election.Event)                              // has the Machine stepped, soon
	Admit     func(peer Rank, incarnation uint64) error         // see [election.Machine.Admit]
	AdmitJoin func(e election.Member, incarnation uint64) error // see [election.Machine.AdmitJoin]
	View      func() Token                                      // see [election.Machine.View]
	Held      func() Token                                      // see [election.Machine.Held]
	Highest   func() uint64                                     // see [election.Machine.Highest]
	Check     func(m *election.Message) error                   // anywhere: refuses what no honest member would send
	Bad       func(reason string)                               // anywhere: counts a frame dropped
	Post      func(f func()) (posted bool)                      // not on the loop: has f called on it; false once the node ends
}

// network is what a node asks of its connections. The loop hands back to take
// what comes of arrivals.
type network interface {
	serve()
	background(f func(ctx context.Context)) // runs f beside the loop; ctx ends with the network
	arrivals() <-chan incoming
	take(in incoming)
	send(to ID, m *election.Message)
	open(to ID)
	hangUp(to ID)
	add(id ID, addr string)
	remove(id ID)
	address(id ID) string
	refusal(id ID) string // why the last connection to a member was refused
	lead(t Token)         // the view has changed
	traffic() (sent map[string]uint64, links int)
	shut(wait time.Duration)
}

// checkWire asks the Wire what of c it cannot serve.
func (c Config) checkWire() []error {
	if err := c.Wire.Check(c); err != nil {
		return []error{config("%w", err)}
	}
	return nil
}

// find adds the members that the Wire finds by itself.
func (n *Node) find() {
	if n.cfg.Wire == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	for _, p := range n.cfg.Wire.Peers(ctx, n.cfg.Join) {
		known := func(other Peer) bool { return other.ID == p.ID }
		if p.ID != n.id && !slices.ContainsFunc(n.cfg.Peers, known) {
			n.cfg.Peers = append(n.cfg.Peers, p)
		}
	}
}

// foreign is the network of a node with a [Wire].
type foreign struct {
	Network
	ctx    context.Context
	cancel context.CancelFunc
	inbox  chan incoming
	live   sync.WaitGroup
	addrs  map[ID]string
	sent   map[string]uint64 // by kind
}

func (n *Node) newForeign(listener net.Listener) *foreign {
	f := &foreign{inbox: make(chan incoming, inboxSize), addrs: map[ID]string{}, sent: map[string]uint64{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.Network = n.cfg.Wire.Open(listener, Site{
		Self: n.id, Cluster: n.cfg.Cluster, Election: n.cfg.Election,
		Incarnation: n.incarnation, Advertise: n.cfg.Advertise, Join: n.cfg.Join, Timing: n.cfg.timing(), Log: n.cfg.Logger,
		Emit: func(ev election.Event) {
			if ev.Kind == election.Received {
				n.tally.received(ev.Message.Kind)
			}
			n.emit(ev)
		},
		Admit: func(peer Rank, incarnation uint64) error {
			return n.machine.Admit(n.now(), peer, incarnation)
		},
		AdmitJoin: func(e election.Member, incarnation uint64) error {
			return n.machine.AdmitJoin(n.now(), e, incarnation)
		},
		View: n.machine.View, Held: n.machine.Held, Highest: n.machine.Highest,
		Check: wire.CheckMessage,
		Bad:   func(why string) { n.tally.bad(wire.Reason(why)) },
		Post:  f.post,
	})
	for _, m := range n.machine.Members() {
		if m.ID != n.id {
			f.add(m.ID, m.Address)
		}
	}
	return f
}

func (f *foreign) post(do func()) bool {
	select {
	case f.inbox <- incoming{do: do}:
		return true
	case <-f.ctx.Done():
		return false
	}
}

func (f *foreign) serve() {} // since it is open

func (f *foreign) background(do func(context.Context)) { f.live.Go(func() { do(f.ctx) }) }

func (f *foreign) lead(t Token) { f.Lead(t) }

func (f *foreign) arrivals() <-chan incoming { return f.inbox }
func (f *foreign) take(in incoming)          { in.do() }
func (f *foreign) open(to ID)                { f.Dial(to) }
func (f *foreign) hangUp(to ID)              { f.Hangup(to) }
func (f *foreign) address(id ID) string      { return f.addrs[id] }
func (f *foreign) refusal(ID) string         { return "" }

func (f *foreign) send(to ID, m *election.Message) {
	f.sent[string(m.Kind)]++
	f.Send(to, m)
}

func (f *foreign) add(id ID, addr string) {
	f.addrs[id] = addr
	f.Add(id, addr)
}

func (f *foreign) remove(id ID) {
	delete(f.addrs, id)
	f.Remove(id)
}

func (f *foreign) traffic() (sent map[string]uint64, links int) { return f.sent, f.Links() }

// shut lets the network end while nobody hears any more what it posts.
func (f *foreign) shut(wait time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Shut(wait)
		f.cancel()
		f.live.Wait()
	}()
	for {
		select {
		case <-f.inbox:
		case <-done:
			return
		}
	}
}
