package superpeer

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/eventlog"
	"github.com/batuta-dev/batuta/internal/net/security"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
	"github.com/hashicorp/memberlist"
)

// Member is this process as a node of an overlay. All methods may be called at any time from any
// goroutine.
type Member struct {
	cfg     Config
	log     *memberLog
	list    *memberlist.Memberlist
	node    memberlist.Node     // our own, which never changes: memberlist would return it only under its lock
	ring    *memberlist.Keyring // nil: no encryption
	peers   *peers
	book    *book
	room    int    // for news at most in a packet that is sent anyway
	core    *core  // nil: every node lists all
	fork    *prong // if there is a core
	pings   pings
	asked   atomic.Int64 // announcements sent to nodes that asked for our list
	place   *coordinate.Estimator
	driver  *driver
	view    atomic.Pointer[view]
	counts  counters
	done    chan struct{}
	cancel  context.CancelFunc
	closing sync.Once
	closed  error

	published sync.Mutex // held while view and events change together
	events    *eventlog.List[Event]
}

// view is the published state for readers.
type view struct {
	self    Peer
	super   bool
	token   int32
	version uint32
	home    *Peer
	rtt     float64 // milliseconds to home; negative: not measured
	clients []Client
	nodes   int
	core    bool // it is in the core
	live    int  // number of super peers, as far as it knows

	shareWrong, unserved time.Duration // for how long
}

// ErrClosed means that the member has left its overlay.
var ErrClosed = errors.New("this member has left its overlay")

// Join starts a node and joins the overlay through any of Config.Join, which it tries until the
// first answers or ctx ends. Without Config.Join it creates an overlay. Close ends the node.
func Join(ctx context.Context, c Config) (*Member, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	m := &Member{cfg: c, book: newBook(), done: make(chan struct{}), pings: pings{last: uint64(drawUID()), wait: map[uint64]chan<- pong{}}, events: eventlog.New(Event{}, maxBehind)}
	if err := m.open(); err != nil {
		return nil, err
	}
	if err := m.enter(ctx); err != nil {
		_ = m.list.Shutdown() // err is more precise
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.driver.start()
	go m.driver.run(running)
	return m, nil
}

// open starts memberlist.
func (m *Member) open() error {
	c := &m.cfg
	number, seed := drawUID(), cmp.Or(c.Seed, uint64(drawUID()))
	own := meta{c.Method, c.Fraction, uint32(c.Capacity), c.Round.Truncate(time.Millisecond), c.ID, c.Service, c.Membership == MembershipCore}
	m.peers = newPeers(own)
	m.peers.self = number
	m.place = coordinate.New(seed)
	m.driver = newDriver(m, number, seed)
	m.log = &memberLog{to: c.Logger}
	if c.Secret != "" {
		keys, err := security.GossipKeys(c.Secret, c.Overlay)
		if err != nil {
			return fmt.Errorf("%w: secret: %w", ErrConfig, err)
		}
		if m.ring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return fmt.Errorf("%w: secret: %w", ErrConfig, err)
		}
	}
	conf := m.memberlistConfig(number)
	// What memberlist takes of a packet: two bytes, the label and encryption; in a packet with a
	// ping or an answer more than leastPing.
	m.room = conf.UDPBufferSize - 2 - 2 - len(conf.Label) - leastPing
	if m.cfg.Secret != "" {
		m.room -= 29
	}
	if err := m.bind(conf); err != nil {
		return err
	}
	if c.Membership == MembershipCore {
		m.withCore(conf)
	}
	list, err := memberlist.Create(conf)
	if err != nil {
		_ = conf.Transport.Shutdown() // err is more precise
		return fmt.Errorf("membership: %w", err)
	}
	m.list, m.node = list, *list.LocalNode()
	m.node.Addr = append(net.IP(nil), m.node.Addr...)
	return nil
}

func drawUID() uid {
	var b [8]byte
	crand.Read(b[:]) // never fails
	return uid(binary.BigEndian.Uint64(b[:])) | 1
}

// bind sets up conf's transport and advertised address.
func (m *Member) bind(conf *memberlist.Config) (err error) {
	conf.BindPort, conf.AdvertisePort = 0, 0 // the port of the transport
	if m.cfg.Advertise != "" {
		told, port, err := splitAddress(m.cfg.Advertise)
		if err != nil {
			return fmt.Errorf("%w: advertise %q: %w", ErrConfig, m.cfg.Advertise, err)
		}
		conf.AdvertiseAddr, conf.AdvertisePort = told.String(), port
	}
	if conf.Transport = m.cfg.Transport; conf.Transport != nil {
		return nil
	}
	host, port, err := splitAddress(m.cfg.Listen)
	if err != nil {
		return fmt.Errorf("%w: listen %q: %w", ErrConfig, m.cfg.Listen, err)
	}
	if conf.Transport, err = listen(host, port); err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return fmt.Errorf("listen: %w; give an address of this machine, or wait until its network is configured", err)
		}
		return fmt.Errorf("%w: listen: %w; give another address of this machine, or stop the process that uses this one", ErrConfig, err)
	}
	conf.BindPort = port
	return nil
}

// leastPing is less than the size of any of memberlist's own messages, in bytes.
const leastPing = 30

// memberlistConfig returns a configuration in which all of memberlist's times depend on the round.
func (m *Member) memberlistConfig(number uid) *memberlist.Config {
	round := m.cfg.Round
	conf := memberlist.DefaultLANConfig()
	conf.Name = number.name()
	conf.Logger = log.New(m.log, "", 0)
	if conf.Label = "batuta/" + m.cfg.Overlay; m.ring != nil {
		conf.Keyring = m.ring
	}
	conf.ProbeInterval = 2 * round                           // half of it, after ProbeTimeout, is for indirect probes if a packet was lost
	conf.ProbeTimeout = max(round*9/10, 50*time.Millisecond) // long: it also measures our coordinate
	conf.SuspicionMult = 3
	conf.SuspicionMaxTimeoutMult = 2
	conf.GossipInterval = round / 5
	conf.GossipNodes = 3
	conf.GossipToTheDeadTime = 60 * round
	conf.PushPullInterval = 0 // the driver does that: see minCompare
	conf.TCPTimeout = max(5*round, 2*time.Second)
	conf.RetransmitMult = 4
	conf.QueueCheckInterval = 30 * round
	conf.DisableTcpPings = false
	conf.EnableCompression = false // costs more than it saves
	conf.HandoffQueueDepth = 4096
	d := &delegate{m}
	conf.Delegate, conf.Ping = d, d
	conf.Events, conf.Alive, conf.Merge = m.peers, m.peers, m.peers
	conf.DelegateProtocolMin, conf.DelegateProtocolMax, conf.DelegateProtocolVersion = 1, 1, 1
	return conf
}

// others returns the addresses to join through except our own.
func (m *Member) others() []string {
	return slices.DeleteFunc(slices.Clone(m.cfg.Join), func(addr string) bool { return addr == m.Address() || addr == m.cfg.Advertise })
}

// entrance returns one of these by luck; empty: there is none.
func (m *Member) entrance(luck uint64) string {
	join := m.others()
	if len(join) == 0 {
		return ""
	}
	return join[luck%uint64(len(join))]
}

// enter joins through any of the configured addresses.
func (m *Member) enter(ctx context.Context) error {
	others := m.others()
	if len(others) == 0 {
		return nil
	}
	var logged string
	joined := make(chan error, 1)
	for {
		go func() { // a dial does not end with ctx
			n, err := m.list.Join(others)
			if n > 0 {
				err = nil
			}
			joined <- err
		}()
		var err error
		select {
		case err = <-joined:
		case <-ctx.Done():
			return fmt.Errorf("join: %w", context.Cause(ctx))
		}
		if err == nil {
			return nil
		}
		err = explain(err)
		if errors.Is(err, ErrRefused) {
			return fmt.Errorf("join: %w", err)
		}
		if text := err.Error(); text != logged && ctx.Err() == nil {
			logged = text
			m.cfg.Logger.Warn("no node to join through answers: this node tries again each round", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("join: %w: %w", err, context.Cause(ctx))
		case <-time.After(m.cfg.Round):
		}
	}
}

// ErrRefused means that this node and the overlay's nodes do not accept each other: a secret, the
// overlay or a setting differs. Retries will not help.
var ErrRefused = errors.New("refused")

// explain shortens a memberlist error to a single line, and adds what to do if that is known.
func explain(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if _, list, ok := strings.Cut(text, " occurred: * "); ok {
		text = strings.ReplaceAll(list, " * ", "; ")
	}
	for _, mark := range []string{"is not encrypted", "is encrypted", "No installed keys could decrypt", "decrypt"} {
		if strings.Contains(text, mark) {
			return fmt.Errorf("%w: %s: give all nodes of an overlay the same secret file and name", ErrRefused, text)
		}
	}
	if strings.Contains(text, "here it is") {
		return fmt.Errorf("%w: %s: give all nodes of an overlay the same method, fraction, capacity, round and membership", ErrRefused, text)
	}
	if strings.HasSuffix(text, "EOF") {
		return fmt.Errorf("%s: it hung up: it may be of another overlay or have another secret", text)
	}
	return errors.New(text)
}

// Reload reads the secret file again, and uses and accepts its secrets from here on.
func (m *Member) Reload() error {
	if m.ring == nil {
		return nil
	}
	keys, err := security.GossipKeys(m.cfg.Secret, m.cfg.Overlay)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	old := m.ring.GetKeys()
	for _, k := range keys {
		if err := m.ring.AddKey(k); err != nil {
			return err
		}
	}
	if err := m.ring.UseKey(keys[0]); err != nil {
		return err
	}
	for _, k := range old {
		if !slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, k) }) {
			err = errors.Join(err, m.ring.RemoveKey(k))
		}
	}
	return err
}

// Close leaves the overlay, announces that, and ends the member. Clients turn to their deputies.
func (m *Member) Close() error {
	m.end(func() {
		if m.core != nil {
			m.core.part()
		}
		if err := m.list.Leave(min(2*m.cfg.Round, time.Second)); err != nil {
			m.cfg.Logger.Debug("leave", "error", err)
		}
	})
	return m.closed
}

// Kill ends the member without an announcement, as a crash does. It is for tests.
func (m *Member) Kill() { m.end(func() {}) }

// end ends the member, once; part comes before its lists end.
func (m *Member) end(part func()) {
	m.closing.Do(func() {
		m.cancel()
		<-m.done
		part()
		if m.core != nil && m.core.list != nil {
			_ = m.core.list.Shutdown() // the fork owns the transport
		}
		m.closed = m.list.Shutdown()
		m.events.End()
	})
}

// Done is closed when the member has ended.
func (m *Member) Done() <-chan struct{} { return m.done }

// Address returns the address at which nodes reach the member.
func (m *Member) Address() string {
	return net.JoinHostPort(m.node.Addr.String(), fmt.Sprint(m.node.Port))
}

// delegate is a [memberlist.Delegate] and [memberlist.PingDelegate].
type delegate struct{ m *Member }

func (d *delegate) NodeMeta(limit int) []byte { return d.m.peers.own.encode() }

// NotifyMsg implements [memberlist.Delegate]. The bytes are memberlist's.
func (d *delegate) NotifyMsg(raw []byte) {
	d.m.counts.received.Add(1)
	d.m.counts.bytesIn.Add(uint64(len(raw)))
	if len(raw) < 2 || len(raw) > maxMessage {
		d.m.counts.refused.Add(1)
		return
	}
	switch {
	case raw[0] == tagPing:
		d.m.pinged(raw)
		return
	case raw[0] == tagPong:
		d.m.ponged(raw)
		return
	}
	select {
	case d.m.driver.inbox <- append([]byte(nil), raw...):
	default:
		d.m.counts.dropped.Add(1) // best effort
	}
}

func (d *delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.m.book.broadcasts(overhead, limit, limit <= d.m.room)
}

// LocalState implements [memberlist.Delegate]: a joining node receives the super peers at once.
func (d *delegate) LocalState(bool) []byte {
	var b []byte
	for _, n := range d.m.book.snapshot() {
		raw := n.encode()
		b = append(append(b, byte(len(raw))), raw...)
	}
	return b
}

func (d *delegate) MergeRemoteState(b []byte, _ bool) {
	for len(b) > 1 && 1+int(b[0]) <= len(b) {
		d.NotifyMsg(b[1 : 1+int(b[0])])
		b = b[1+int(b[0]):]
	}
}

// AckPayload implements [memberlist.PingDelegate]: our coordinate.
func (d *delegate) AckPayload() []byte { return encodeCoordinate(d.m.place.Coordinate()) }

// NotifyPingComplete implements [memberlist.PingDelegate]: a measured round trip moves our
// coordinate.
func (d *delegate) NotifyPingComplete(other *memberlist.Node, rtt time.Duration, payload []byte) {
	at, ok := decodeCoordinate(payload)
	if !ok || d.m.place.Update(other.Name, at, rtt) != nil {
		d.m.counts.refused.Add(1)
	}
}

// memberLog forwards memberlist's log.
type memberLog struct{ to slogger }

// withCore makes conf's memberlist join no node: it carries messages, and answers nodes that ask
// for our list. The fork has room for the core's memberlist.
func (m *Member) withCore(conf *memberlist.Config) {
	under, ok := conf.Transport.(memberlist.NodeAwareTransport)
	if !ok {
		under = unnamed{conf.Transport}
	}
	m.fork = newFork(under, conf.Label)
	conf.Transport, conf.SkipInboundLabelCheck = m.fork, true
	conf.ProbeInterval, conf.GossipInterval = 0, 0 // there is no node to probe, and nothing to gossip
	m.room -= len(coreSuffix)
	m.book.core = true
	m.book.bound(clientBook)
	m.core = newCore(m.driver)
	m.driver.group = m.core
	m.peers.most = maxMet(m.cfg.Fraction, m.cfg.Capacity)
	m.peers.adorn, m.peers.read = m.core.adorn, m.core.read
	d := &door{delegate{m}}
	conf.Delegate, conf.Ping, conf.Events, conf.Alive, conf.Merge = d, nil, m.peers, d, m.peers
}

// coreSuffix turns a label into the core's label.
const coreSuffix = "/core"

// coreRetransmit times log₁₀ of the members, each rounded up, is how often a node passes on a join
// or leave. With more than 100 members that is nine times, which misses one in e⁹ until lists are
// compared. In the core nodes come and go with the tokens; the list of all nodes changes less.
const coreRetransmit = 3

// comeback is added to memberlist's incarnation of a node that reenters the core, so that it
// exceeds the incarnation with which the node last denied its death. With a lower one it would be
// listed only by nodes that have not received its departure. The rest, among them holders of tokens
// of which it is the registrar, would not send to it.
const comeback = 8

// openCore joins the core through any of doors; without doors it creates a core.
func (m *Member) openCore(doors []string) (*memberlist.Memberlist, error) {
	conf := m.memberlistConfig(m.peers.self)
	conf.Label += coreSuffix
	conf.Transport, conf.SkipInboundLabelCheck = m.fork.prong(conf.Label), true
	conf.AdvertiseAddr, conf.AdvertisePort = m.node.Addr.String(), int(m.node.Port)
	conf.BindPort = int(m.node.Port)
	conf.RetransmitMult = coreRetransmit
	f := &feed{m.peers}
	conf.Events = f
	m.peers.mu.Lock()
	m.peers.feed = f
	m.peers.mu.Unlock()
	list, err := memberlist.Create(conf)
	if err != nil {
		return nil, errors.Join(err, conf.Transport.Shutdown())
	}
	for range m.core.entries * comeback {
		_ = list.UpdateNode(time.Millisecond) // no node receives it yet
	}
	m.core.entries++
	if len(doors) == 0 {
		return list, nil
	}
	var errs []error
	for _, addr := range doors {
		n, err := list.Join([]string{addr})
		if n > 0 && err == nil {
			return list, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
	}
	return nil, errors.Join(append(errs, list.Shutdown())...)
}

// feed receives the events of a single memberlist of the core; a later memberlist replaces it. It
// is a [memberlist.EventDelegate].
type feed struct{ p *peers }

func (f *feed) NotifyJoin(n *memberlist.Node)   { f.p.joined(n, f) }
func (f *feed) NotifyUpdate(n *memberlist.Node) { f.p.joined(n, f) }
func (f *feed) NotifyLeave(n *memberlist.Node)  { f.p.left(n, f) }

// door is the [memberlist.Delegate] and [memberlist.AliveDelegate] of the memberlist without peers.
type door struct{ delegate }

// errElsewhere keeps memberlist from listing nodes outside the core.
var errElsewhere = errors.New("it is in no list of this node's")

func (d *door) NotifyAlive(n *memberlist.Node) error {
	if n.Name != d.m.peers.self.name() {
		return errElsewhere
	}
	return nil
}

// GetBroadcasts implements [memberlist.Delegate]: gossip is the core's.
func (d *door) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements [memberlist.Delegate]: the nodes that we know.
func (d *door) LocalState(bool) []byte            { return d.m.know() }
func (d *door) MergeRemoteState(b []byte, _ bool) { d.NotifyMsg(b) }

// unnamed is a [memberlist.NodeAwareTransport] that only uses addresses.
type unnamed struct{ memberlist.Transport }

func (t unnamed) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

func (t unnamed) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// membership is how a driver learns of nodes. Only the driver's goroutine calls it.
type membership interface {
	// ring returns the nodes that keep tokens' records, if that has changed since; else nil.
	ring(since uint64) ([]rules.Place, uint64)
	// nodes returns the present number of nodes, this node included, as far as is known.
	nodes() int
	// supers returns the number of super peers that this node knows of; self: it is one.
	supers(self bool) int
	// round maintains the list, once a round.
	round(now rules.Round)
	// hold receives a message before the Node does, and reports whether it has to wait.
	hold(m *rules.Message) bool
	// failed handles that k did not answer.
	failed(k *known)
}

// full is the membership in which memberlist lists all nodes on every node.
type full struct {
	d    *driver
	size int
}

func (f *full) ring(since uint64) ([]rules.Place, uint64) {
	places, changed := f.d.m.peers.places(since)
	if places != nil {
		f.size = len(places)
	}
	return places, changed
}

func (f *full) nodes() int               { return f.size }
func (f *full) supers(self bool) int     { return f.d.m.book.supers(f.d.self, self) }
func (f *full) round(now rules.Round)    { f.d.reunite(now) }
func (f *full) hold(*rules.Message) bool { return false }
func (f *full) failed(*known)            {}
