package batuta

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// A Wire replaces batuta's own protocol; it is set as [Config].Wire, a
// value of its own for each Node. Package compat/boss has such a Wire. What Open takes and returns is
// internal: only packages of this module can implement it.
type Wire interface {
	// Defaults fills in what c leaves open as it should be on this wire.
	Defaults(c Config) Config
	// Check reports what of c does not go with this wire, and how to fix it.
	Check(c Config) error
	// Silence is what is borne of a member before it is suspected; 0: T.
	Silence() time.Duration
	// Peers are those that it finds at the addresses of [Config.Join] before the
	// node starts; it may take until ctx ends.
	Peers(ctx context.Context, join []string) []Peer
	// Open serves the connections that l accepts, until it is shut.
	Open(l net.Listener, s network.Site) network.Network
}

// links are the connections of a node, and what is known of the members at their ends.
type links struct {
	*ground
	net       network.Network      // transport, or the Wire's
	transport *transport.Transport // nil with Config.Wire
	security  *security.Security   // nil: none
	counters  network.Counters
	ctx       context.Context // of what runs outside the loop
	cancel    context.CancelFunc
	beside    sync.WaitGroup

	// Used in a turn of the node.
	addrs  map[ID]string            // where members listen
	metas  map[ID]map[string]string // what members publish of themselves
	sent   map[string]uint64        // messages, by kind
	met    bool                     // a link has stood
	rhythm rhythm
}

// lookupTime bounds the wait for a name server.
const lookupTime = 2 * time.Second

// find adds the members that the Wire finds by itself.
func (l *links) find(ctx context.Context) {
	if l.cfg.Wire == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	for _, p := range l.cfg.Wire.Peers(ctx, l.cfg.Join) {
		known := func(other Peer) bool { return other.ID == p.ID }
		if p.ID != l.id && !slices.ContainsFunc(l.cfg.Peers, known) {
			l.cfg.Peers = append(l.cfg.Peers, p)
		}
	}
}

// know keeps where a member listens.
func (l *links) know(id ID, addr string) {
	l.addrs[id] = addr
	l.net.Add(id, addr)
}

// address is where a member listens, as far as is known.
func (l *links) address(id ID) string {
	if id == l.id {
		return l.cfg.Advertise
	}
	return l.addrs[id]
}

// hear steps the Machine with the events of the network.
func (l *links) hear(ev election.Event) {
	switch ev.Kind {
	case election.Received:
		l.counters.Received(ev.Message.Kind)
	case election.LinkUp:
		l.met = true
	}
	l.emit(ev)
}

// wake has the Machine stepped if that is due, and notes how late it is.
func (l *links) wake() {
	if l.armed.IsZero() {
		return
	}
	if late := l.now().Sub(l.armed); late >= 0 {
		l.rhythm.stall.add(l.clock.Now(), late)
		l.armed = time.Time{}
		l.emit(election.Event{Kind: election.Woke})
	}
}

// background runs f outside the loop; ctx ends with the network.
func (l *links) background(f func(ctx context.Context)) {
	l.beside.Go(func() { f(l.ctx) })
}

// disconnect ends the network, and what runs outside the loop, for which it waits T at most: a file
// system that hangs may keep the reader of the files of its security.
func (l *links) disconnect() {
	l.net.Shut(l.cfg.TMax)
	l.cancel()
	if !endsWithin(l.timeout+checkGrace, over(&l.beside)) {
		l.cfg.Logger.Error("the node ends while it reads a file of its security: a goroutine is left until the file system answers")
	}
}

// over gives a channel that is closed when all goroutines of a group have ended.
func over(all *sync.WaitGroup) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	return ended
}

// endsWithin waits for ended, but not longer than limit.
func endsWithin(limit time.Duration, ended <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// Transport makes the connections that members speak over: ordered, reliable
// byte streams. Handshake, frames and deadlines are the Node's; a Transport is
// the place to wrap connections, or to replace the network in tests.
type Transport interface {
	// Listen begins to accept connections at addr, HOST:PORT. The Node closes what it returns, so no two Nodes can have a
	// single listener. After an error of Accept that wraps [net.ErrClosed] the Node accepts no more, and logs that; after any other
	// error it tries again.
	Listen(addr string) (net.Listener, error)
	// Dial connects to addr, HOST:PORT, before ctx ends. Its error wraps
	// [ErrRefused] when the host answers that nothing listens there; the process
	// then counts as gone.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// ErrRefused is what the error of a [Transport]'s Dial wraps where a host is there, but no
// process listens at the address.
var ErrRefused = transport.ErrRefused

// TCP is the [Transport] of a Node that names none.
type TCP struct{}

// Listen implements [Transport].
func (TCP) Listen(addr string) (net.Listener, error) { return transport.Listen(addr) }

// Dial implements [Transport].
func (TCP) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return transport.Dial(ctx, addr)
}

// secure readies what proves this member.
func (l *links) secure(ctx context.Context) error {
	s, err := security.New(ctx, l.cfg.Cluster, string(l.id), l.cfg.Security.options())
	if err != nil {
		return config("security: %w", err)
	}
	l.security = s
	return nil
}

// reloadEvery is how often the files of Security are looked at, and Secrets is called.
const reloadEvery = 5 * time.Second

// secretsTimeout is how long a call of Security.Secrets may take.
const secretsTimeout = 5 * time.Second

// keepReloading reads the files and the secrets of Security again when they change.
func (l *links) keepReloading(ctx context.Context) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := l.reload(ctx, false); err != nil && ctx.Err() == nil {
				l.cfg.Logger.Error("the secret or the certificates cannot be read again: those read before stay in use; fix the cause, and they are read again within 5 s", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Reload reads the files of [Config.Security] again, and calls Secrets, as the node does by itself
// within 5 s of a change, and ends the connections to members that are not believed any more.
// With an error the secret or the certificates read before stay in use.
func (n *Node) Reload(ctx context.Context) error { return n.links.reload(ctx, true) }

// reload is [Node.Reload], only after a change unless always is set.
func (l *links) reload(ctx context.Context, always bool) error {
	if l.security == nil {
		return nil
	}
	if changed, err := l.security.Reload(ctx, always); err != nil {
		return config("security: %w", err)
	} else if !changed && !always {
		return nil
	}
	l.cfg.Logger.Info("security: read again")
	return l.call(ctx, l.transport.Reassess)
}

// Rhythm is the longest that a member has seen of late: in the last 10 minutes, or
// since it started.
type Rhythm struct {
	Silence   time.Duration // of the leader it follows, or of a follower of its own, while it did not count as down; 0: it has received from none twice
	Stall     time.Duration // by which it ran late
	RoundTrip time.Duration // from a heartbeat of its own to the acknowledgement; 0: it has led no member

	// The same of the last two seconds: a client that asks every second misses nothing.
	RecentSilence, RecentStall, RecentRoundTrip time.Duration
}

// Headroom is the part of T that the longest silence and stall have left, from 1 down;
// below 0 they would have made a suspect.
func (r Rhythm) Headroom(t time.Duration) float64 {
	return 1 - float64(max(r.Silence, r.Stall))/float64(t)
}

// rhythm is used in a turn of the node.
type rhythm struct {
	heard                     map[ID]time.Duration // when the leader, or a follower, last sent in this leadership
	beats                     map[ID]beat          // to each follower, the last
	silence, stall, roundTrip peaks
}

// beat is a heartbeat that was sent, and is to be acknowledged.
type beat struct {
	stamp int64
	at    time.Duration
}

// How long figures are kept.
const (
	rhythmKept   = 10 * time.Minute
	rhythmRecent = 2 * time.Second
)

// peaks keeps the greatest of some durations for a while: short and long.
type peaks struct{ recent, kept peak }

func (p *peaks) add(now, d time.Duration) {
	p.recent.add(now, d, rhythmRecent)
	p.kept.add(now, d, rhythmKept)
}

// peak keeps the greatest duration of the last span at least, and of twice that at
// most.
type peak struct {
	turn        int64
	now, before time.Duration
}

func (p *peak) add(now, d, span time.Duration) {
	p.roll(now, span)
	p.now = max(p.now, d)
}

func (p *peak) of(now, span time.Duration) time.Duration {
	p.roll(now, span)
	return max(p.now, p.before)
}

func (p *peak) roll(now, span time.Duration) {
	switch turn := int64(now / span); {
	case turn == p.turn:
	case turn == p.turn+1:
		p.turn, p.before, p.now = turn, p.now, 0
	default:
		p.turn, p.before, p.now = turn, 0, 0
	}
}

// takesIn notes what a message shows of the rhythm.
func (r *rhythm) takesIn(now time.Duration, m *election.Message) {
	if m.Kind != election.Beat && m.Kind != election.Ack {
		return // the rest go now and then
	}
	if last, ok := r.heard[m.From]; ok {
		r.silence.add(now, now-last)
	}
	if r.heard == nil {
		r.heard = map[ID]time.Duration{}
	}
	r.heard[m.From] = now
	if b, ok := r.beats[m.From]; ok && m.Kind == election.Ack && m.Stamp == b.stamp {
		r.roundTrip.add(now, now-b.at)
	}
}

// sends notes a beat that leaves.
func (r *rhythm) sends(now time.Duration, to ID, m *election.Message) {
	if m.Kind == election.Beat {
		if r.beats == nil {
			r.beats = map[ID]beat{}
		}
		r.beats[to] = beat{m.Stamp, now}
	}
}

// forgets has nothing count any more that lasts from before: a different member leads, or a
// member is gone.
func (r *rhythm) forgets(ids ...ID) {
	for _, id := range ids {
		delete(r.heard, id)
		delete(r.beats, id)
	}
	if len(ids) == 0 {
		clear(r.heard)
		clear(r.beats)
	}
}

// figures are what the rhythm comes to.
func (r *rhythm) figures(now time.Duration) Rhythm {
	return Rhythm{
		Silence: r.silence.kept.of(now, rhythmKept), Stall: r.stall.kept.of(now, rhythmKept), RoundTrip: r.roundTrip.kept.of(now, rhythmKept),
		RecentSilence: r.silence.recent.of(now, rhythmRecent), RecentStall: r.stall.recent.of(now, rhythmRecent), RecentRoundTrip: r.roundTrip.recent.of(now, rhythmRecent),
	}
}
