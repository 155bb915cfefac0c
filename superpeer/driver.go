package superpeer

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Bounds of what a driver does at a time.
const (
	inboxSize  = 2048
	maxProbing = 64 // concurrent measurements of round trips; more wait
	maxStreams = 16 // messages sent as streams at a time; more are lost
	ticks      = 4  // of the driver in a round
	maxLocal   = 64 // messages to itself in a single step
)

// driver is the goroutine that owns the Node.
type driver struct {
	m     *Member
	group membership
	cfg   rules.Config
	self  uid
	peer  rules.Peer // our own handle
	node  rules.Node
	draw  rules.Draw // of the driver's own choices
	ring  *router
	out   rules.Actions
	local []rules.Message

	began   time.Time
	round   rules.Round // of the last Wake
	woke    time.Time   // when that was
	size    int
	changed uint64 // of peers, as last seen
	missed  bool   // a node that is not listed has sent
	charged map[int32]bool
	fence   fence
	claims  claims
	told    notice
	toldAt  rules.Round
	renewal renewal

	share, unserved trouble

	probing map[rules.Peer]bool
	waiting []rules.Peer // to be probed
	trips   trips
	streams chan struct{}
	inbox   chan []byte
	probed  chan probe
	calls   chan func()
	compare rules.Round
	rejoin  atomic.Bool // a lost node is being retried
	asked   map[*question]bool
}

type probe struct {
	peer rules.Peer
	rtt  float32
	ok   bool
}

// router is the ring of all nodes.
type router struct{ *rules.Ring }

func newDriver(m *Member, self uid, seed uint64) *driver {
	d := &driver{
		m: m, self: self, draw: rules.Draw(rules.Mix(seed + 77)), ring: &router{rules.NewRing(nil)},
		charged: map[int32]bool{}, fence: fence{}, claims: claims{}, probing: map[rules.Peer]bool{}, trips: trips{},
		streams: make(chan struct{}, maxStreams), inbox: make(chan []byte, inboxSize),
		probed: make(chan probe, maxProbing), calls: make(chan func()),
		asked: map[*question]bool{}, round: -1,
	}
	d.group = &full{d: d}
	return d
}

// start creates the Node once memberlist has listed us.
func (d *driver) start() {
	d.cfg = d.m.cfg.node(d.ring)
	if c := d.m.core; c != nil {
		d.cfg.Router = &picker{d.ring, c}
	}
	d.peer = d.m.peers.handle(d.self)
	d.node = rules.New(&d.cfg, d.peer, uint64(d.self), d.draw.Next())
	d.began = time.Now()
	d.publish()
}

// run steps the Node until ctx ends. Nodes that have started together do not act in step.
func (d *driver) run(ctx context.Context) {
	defer close(d.m.done)
	step := d.m.cfg.Round / ticks
	first := time.NewTimer(time.Duration(d.draw.Next() % uint64(step)))
	defer first.Stop()
	select {
	case <-first.C:
	case <-ctx.Done():
		return
	}
	d.began = time.Now()
	clock := time.NewTicker(step)
	defer clock.Stop()
	d.tick()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
			d.tick()
		case raw := <-d.inbox:
			d.receive(raw)
		case p := <-d.probed:
			d.measured(p)
		case f := <-d.calls:
			f()
		}
	}
}

// tick wakes the Node once a round.
func (d *driver) tick() {
	now := rules.Round(time.Since(d.began) / d.m.cfg.Round)
	if now <= d.round {
		if m := &d.renewal.message; d.renewal.due(d.m.cfg.Round / 2) {
			delete(d.trips, m.To) // it may be gone: the distance has to be measured again
			d.pass(m)
		}
		return
	}
	passed := now - d.round
	d.round, d.woke = now, time.Now()
	d.meet()
	tokens := d.cfg.Count(d.size)
	d.m.book.expire(now, int(passed), tokens)
	d.fence.expire(tokens)
	d.claims.expire(now)
	at := d.m.place.Coordinate()
	d.node.Locate(at.Position())
	d.node.Stalled(passed - 1)
	if d.node.Deadline() <= now {
		d.step(now, func() { d.node.Wake(now, d.size, &d.out) })
	}
	d.group.round(now)
	d.complain(passed)
	d.publish()
}

// now returns the round to which an event belongs. Late events of a round belong to the next: a
// deadline of a single round lasts two thirds of its time or more.
func (d *driver) now() rules.Round {
	if time.Since(d.woke) < d.m.cfg.Round/3 {
		return d.round
	}
	return d.round + 1
}

// meet handles nodes that came and went, and finds the tokens of which we are the registrar.
func (d *driver) meet() {
	for _, u := range d.m.peers.takeGone() {
		d.m.book.forget(u)
		d.m.place.Forget(u.name())
	}
	d.m.peers.numbers.forget(d.size, func(u uid) bool { _, ok := d.m.peers.of(u); return ok })
	places, changed := d.group.ring(d.changed)
	if places != nil {
		d.changed, d.ring.Ring = changed, rules.NewRing(places)
	}
	if size := d.group.nodes(); places != nil || size != d.size {
		d.size = size
		d.recharge()
	}
}

func (d *driver) recharge() {
	tokens := int32(d.cfg.Count(d.size))
	for t := range tokens {
		d.charge(t)
	}
	for t := range d.charged {
		if owner, ok := d.ring.Owner(d.cfg.TokenKey(t, d.size)); !ok || owner != d.peer {
			d.node.Relieved(t)
			delete(d.charged, t)
		}
	}
}

// charge makes the Node keep the record of token if that is its task.
func (d *driver) charge(token int32) {
	if d.charged[token] || int(token) >= d.limits().tokens {
		return
	}
	if owner, ok := d.ring.Owner(d.cfg.TokenKey(token, d.size)); ok && owner == d.peer {
		d.charged[token] = true
		d.node.Charged(d.now(), token)
	}
}

// step lets the Node act and carries out its actions.
func (d *driver) step(now rules.Round, act func()) {
	d.out.Reset()
	act()
	d.settle(now)
	for i := 0; len(d.local) > 0 && i < maxLocal; i++ {
		m := d.local[0]
		d.local = d.local[1:]
		if fenced(m.Kind) {
			d.allow(m.Token, m.Version) // its own messages are true: a false version may be too far off
		}
		d.out.Reset()
		d.give(now, &m)
		d.settle(now)
	}
	d.local = nil
	d.notice()
}

// settle answers the Node's look, starts its probes and sends its messages.
func (d *driver) settle(now rules.Round) {
	for k := 0; k < len(d.out.Probe) || d.out.Look.Near > 0; {
		if d.out.Look.Near > 0 {
			q := d.out.Look
			d.out.Look.Near = 0
			d.node.Heard(now, d.m.book.hear(&q, &d.cfg.Metric, d.m.peers.handle), &d.out)
			continue
		}
		p := d.out.Probe[k]
		if _, listed := d.m.peers.at(p); !listed || p == d.peer {
			d.node.Probed(now, p, 0, false, &d.out)
		} else if rtt, ok := d.trips.of(p, now); ok {
			d.node.Probed(now, p, rtt, true, &d.out)
		} else {
			d.probe(p)
		}
		k++
	}
	for i := range d.out.Send {
		d.send(&d.out.Send[i])
	}
	if d.out.Announce {
		d.announce(&d.out.Tell)
	}
}

// probe starts the measurement of a round trip.
func (d *driver) probe(peer rules.Peer) {
	switch {
	case d.probing[peer]: // the answer serves all requests
	case len(d.probing)-len(d.waiting) >= maxProbing:
		d.probing[peer] = true
		d.waiting = append(d.waiting, peer)
	default:
		d.probing[peer] = true
		d.launch(peer)
	}
}

// nearest is the shortest round trip, in milliseconds, that differs from 0: below it scheduling
// decides, and tokens would move forever within a single room.
const nearest = 1

func (d *driver) launch(peer rules.Peer) {
	k, ok := d.m.peers.at(peer)
	d.m.counts.probes.Add(1)
	go func() {
		result := probe{peer: peer}
		if ok {
			if rtt, err := d.m.measure(k); err == nil && rtt >= 0 && rtt <= maxRTT*time.Millisecond {
				result.rtt, result.ok = max(nearest, float32(rtt.Seconds()*1000)), true
			}
		}
		select {
		case d.probed <- result:
		case <-d.m.done:
		}
	}()
}

// measure returns the round trip to k, or the service's own distance.
func (m *Member) measure(k *known) (time.Duration, error) {
	if m.cfg.Measure == nil {
		return least(m.cfg.Round/sampleGap, func() (time.Duration, error) { return m.ping(k) })
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Round)
	defer cancel()
	return m.cfg.Measure(ctx, cmp.Or(k.Service, k.Address))
}

func (d *driver) measured(p probe) {
	delete(d.probing, p.peer)
	if len(d.waiting) > 0 {
		d.launch(d.waiting[0])
		d.waiting = d.waiting[1:]
	}
	now := d.now()
	if p.ok {
		d.trips.keep(p.peer, p.rtt, now)
	} else if k, ok := d.m.peers.at(p.peer); ok {
		d.group.failed(k)
	}
	d.step(now, func() { d.node.Probed(now, p.peer, p.rtt, p.ok, &d.out) })
}

func (d *driver) send(m *rules.Message) {
	if c := d.m.core; c != nil && (m.Kind == rules.Accept || m.Kind == rules.Gone) {
		delete(c.unserved, m.To)
	}
	if m.To == d.peer {
		d.local = append(d.local, *m)
		return
	}
	if d.pass(m) && m.Kind == rules.Renew {
		d.renewal = renewal{message: *m, waits: true, at: time.Now()}
	}
}

// pass sends m to a different node, and reports whether there is that.
func (d *driver) pass(m *rules.Message) bool {
	k, ok := d.m.peers.at(m.To)
	if !ok {
		return false // gone
	}
	raw, err := d.m.peers.encode(m, d.round)
	if err != nil || len(raw) > maxMessage {
		d.m.counts.dropped.Add(1)
		return false
	}
	d.transmit(k, raw, m.Kind == rules.Transfer)
	return true
}

// transmit sends a single packet if raw fits and may be lost, else a stream.
func (d *driver) transmit(k *known, raw []byte, reliable bool) {
	d.m.counts.sent.Add(1)
	d.m.counts.bytesOut.Add(uint64(len(raw)))
	if !reliable && len(raw) <= maxPacket {
		_ = d.m.list.SendBestEffort(&k.node, raw) // best effort
		return
	}
	select {
	case d.streams <- struct{}{}:
	default:
		d.m.counts.dropped.Add(1)
		return
	}
	go func() {
		defer func() { <-d.streams }()
		if err := d.m.list.SendReliable(&k.node, raw); err != nil {
			d.m.counts.dropped.Add(1)
		}
	}()
}

// receive checks a message and passes it to the Node.
func (d *driver) receive(raw []byte) {
	l := d.limits()
	switch raw[0] {
	case tagAnnounce:
		d.announced(raw)
	case tagMessage:
		m, err := d.m.peers.decode(raw[1:], l)
		if err != nil {
			d.missed = d.missed || err == errStranger
			d.refuse(err)
		} else if !d.group.hold(&m) {
			d.consider(&m)
		}
	default:
		d.m.counts.refused.Add(1)
	}
}

// announced handles an announcement from gossip.
func (d *driver) announced(raw []byte) {
	wanted := d.cfg.Count(d.size)
	n, ok := decodeNotice(raw[1:], surplus(wanted), d.cfg.Capacity)
	k, listed := d.m.peers.of(n.holder)
	listed = listed && (k.listed || d.m.core.outsider())
	d.missed = d.missed || ok && !listed
	if n.holder == d.self {
		return // our own announcement has come back
	}
	if !ok || !listed || !d.allow(n.Token, n.Version) {
		d.m.counts.refused.Add(1)
		return
	}
	if int(n.Token) >= wanted && d.m.core == nil {
		d.m.book.surplus(&n, d.round)
		return
	}
	d.m.book.learn(&n, d.round)
}

// consider passes m to the Node if it may be true.
func (d *driver) consider(m *rules.Message) {
	if err := d.credible(m); err != nil {
		d.refuse(err)
	} else if fenced(m.Kind) && !d.allow(m.Token, m.Version) {
		d.refuse(errBad{"a version that no node can have reached"})
	} else {
		d.handle(m)
	}
}

// A malicious node could otherwise depose all holders, or make all nodes super peers. So a message
// that only a token's registrar sends is refused from any further node, by this node's list; and no
// node may act as the holder of two tokens.
func (d *driver) credible(m *rules.Message) error {
	switch m.Kind {
	case rules.Grant, rules.Drop, rules.Kept, rules.Confirm, rules.Summon, rules.Here:
		if owner, ok := d.ring.Owner(d.cfg.TokenKey(m.Token, d.size)); !ok || owner != m.From {
			return errBad{"its sender is not the token's registrar"}
		}
	case rules.Keep, rules.Move, rules.Moved:
		if !d.claims.allow(uid(m.Key), m.Token, d.round) {
			return errBad{"its sender holds another token"}
		}
	}
	return nil
}

// allow applies the fence. A record that rests on a false version is started again: its holder will
// announce itself.
func (d *driver) allow(token int32, version uint32) bool {
	possible, fooled := d.fence.allow(token, version, d.round, d.cfg.Count(d.size))
	if fooled {
		d.m.book.doubt(token)
	}
	if fooled && d.charged[token] {
		d.node.Relieved(token)
		delete(d.charged, token)
		d.charge(token)
	}
	return possible
}

func (d *driver) refuse(err error) {
	d.m.counts.refused.Add(1)
	d.m.cfg.Logger.Debug("message refused", "error", err)
}

func (d *driver) limits() limits {
	nodes := max(d.size, 2)
	if d.m.core != nil {
		nodes = max(2*nodes, baseMet) // its number is less exact
	}
	return limits{now: d.now(), lease: d.cfg.Lease, capacity: d.cfg.Capacity, nodes: nodes, tokens: surplus(d.cfg.Count(max(d.size, 1)))}
}

func (d *driver) handle(m *rules.Message) {
	m.To = d.peer
	switch m.Kind {
	case kindWhom:
		d.answerWhom(m)
		return
	case kindServe:
		d.served(m)
		return
	case kindKnow:
		return // the core has read it
	case rules.Accept, rules.Gone:
		d.renewal.answered(m.From)
	}
	now := d.now()
	d.step(now, func() { d.give(now, m) })
}

// give makes the Node handle m. A registrar that receives a request, from itself too, keeps a
// record of the token even if that is not needed any more: only that informs the holder.
func (d *driver) give(now rules.Round, m *rules.Message) {
	switch m.Kind {
	case rules.Keep, rules.Where, rules.Move:
		d.charge(m.Token)
	}
	d.node.Receive(now, m, &d.out)
}

// question is what a [Member.Map] has asked: where to send each super peer's answer.
type question map[uid]chan<- []Client

// askWhom asks a super peer for its clients.
func (d *driver) askWhom(k *known, q *question, answer chan<- []Client) {
	raw, err := d.m.peers.encode(&rules.Message{Kind: kindWhom, To: k.peer, Peer: rules.None}, d.round)
	if err != nil {
		return
	}
	(*q)[uid(k.Key)], d.asked[q] = answer, true
	d.transmit(k, raw, false)
}

// answerWhom answers with this node's clients.
func (d *driver) answerWhom(m *rules.Message) {
	k, ok := d.m.peers.at(m.From)
	if !ok {
		return
	}
	raw, err := d.m.peers.encode(&rules.Message{Kind: kindServe, To: m.From, Peer: rules.None, Leases: d.node.Serving()}, d.round)
	if err == nil && len(raw) <= maxMessage {
		d.transmit(k, raw, false)
	}
}

func (d *driver) served(m *rules.Message) {
	from := d.m.peers.uidOf(m.From)
	for q := range d.asked {
		select {
		case (*q)[from] <- d.m.clients(m.Leases):
		default: // it has an answer, or has not asked that node
		}
	}
}

// gauge is the estimated number of nodes, on a member of the core. The sum of the super peers'
// loads fluctuates while clients move, and counts some twice while a super peer is dying. So the
// number stays until three quarters of the recent sums lie on the same side of it.
type gauge struct {
	n    int
	sums []int // recent sums, the oldest first
}

// A rise by a quarter is accepted after haste rounds: a growing overlay cannot wait.
const (
	haste     = 4
	hasteRise = 4 // denominator of the fraction
)

// take returns the number after a further sum, with a window of that many rounds.
func (g *gauge) take(sum, window int) int {
	g.sums = append(g.sums, sum)
	if surplus := len(g.sums) - window; surplus > 0 {
		g.sums = slices.Delete(g.sums, 0, surplus)
	}
	if k := len(g.sums); k >= window/2 { // tokens move: few nodes stay in the core for long
		sorted := slices.Sorted(slices.Values(g.sums))
		g.n = min(max(g.n, sorted[k/4]), sorted[k-1-k/4])
	}
	if k := len(g.sums) - haste; k >= 0 {
		if low := slices.Min(g.sums[k:]); low > g.n && (low-g.n)*hasteRise >= g.n {
			g.n = low
		}
	}
	return g.n
}

// renewal is an unanswered renewal of a lease. It is sent a second time in the same round: a packet
// may be lost, and a client must not leave its super peer because of that.
type renewal struct {
	message rules.Message
	waits   bool
	at      time.Time
}

func (r *renewal) answered(by rules.Peer) {
	if r.message.To == by {
		r.waits = false
	}
}

// due reports, once, whether it has waited for that long.
func (r *renewal) due(after time.Duration) bool {
	late := r.waits && time.Since(r.at) >= after
	r.waits = r.waits && !late
	return late
}

// rejoinEvery is how often, in rounds, a lost node is retried. compareEvery is the shortest time
// between two comparisons of lists that an unlisted sender triggers, and how often an address to
// join by is tried.
const (
	rejoinEvery  = 3
	compareEvery = 5 * rejoinEvery
)

// minCompare is the shortest interval, in rounds, at which a node compares its list of all nodes
// with a peer's. It takes at least as many rounds as there are nodes, so that comparisons cost each
// node the same for any number of nodes, some 240 bytes a round.
const minCompare = 20

// gap returns the number of rounds until the next comparison of a list of that size, randomized so
// that nodes do not compare at the same time.
func (d *driver) gap(size int) rules.Round {
	n := uint64(max(minCompare, size))
	return rules.Round(n/2 + d.draw.Next()%n)
}

// reunite tries to reach a lost node, or an address to join by: a partition may have ended. The
// more nodes there are, the less often each tries.
func (d *driver) reunite(now rules.Round) {
	if now%rejoinEvery != 0 {
		return
	}
	addr, share := d.m.peers.retry(d.draw.Next())
	if d.size == 1 || now%compareEvery == 0 {
		addr = cmp.Or(d.m.entrance(d.draw.Next()), addr) // of a part that it has never met
	}
	if d.missed && now%compareEvery == 0 {
		d.missed = false
		addr, share = d.m.peers.member(d.draw.Next()), 1
	}
	if first := d.compare == 0; first || now >= d.compare {
		d.compare = now + d.gap(d.size)
		if !first {
			addr, share = d.m.peers.member(d.draw.Next()), 1
		}
	}
	if addr != "" && d.draw.Unit() <= max(share, 2/float64(d.size)) {
		d.m.compare(addr, d.m.list, &d.rejoin)
	}
}

// announce publishes our token by gossip: at once when holder, version or room has changed, early
// when the figures have, else periodically.
func (d *driver) announce(a *rules.Announcement) {
	n := notice{Announcement: *a, holder: d.self, seq: d.told.seq, load: int32(len(d.node.Serving())), mean: meanOf(d.node.Serving(), func(l *rules.Lease) float32 { return l.RTT })}
	age := d.round - d.toldAt
	old := &d.told
	fresh := old.holder == 0 || old.Token != n.Token || old.Version != n.Version || (old.Spare > 0) != (n.Spare > 0)
	changed := differ(old.Gain, n.Gain) || differ(old.Loss, n.Loss) || differ(old.Price, n.Price) || differ(old.mean, n.mean)
	gap := d.m.book.gap(d.cfg.Count(d.size))
	if c := d.m.core; c != nil {
		n.waits = int32(len(c.unserved))
		fresh = fresh || (old.load != n.load || old.waits != n.waits) && age >= gap/4
	}
	if !fresh && !(changed && age >= gap/2) && age < gap {
		return
	}
	n.seq = uint32(d.round) + 1
	if n.seq <= d.told.seq {
		n.seq = d.told.seq + 1
	}
	d.told, d.toldAt = n, d.round
	d.m.book.learn(&n, d.round)
}

// retire withdraws the announcement of our token. If super peers add up their loads the withdrawal
// is announced too: they would count our clients twice.
func (d *driver) retire() {
	last := d.told
	d.told = notice{seq: last.seq}
	if d.m.core == nil || last.holder == 0 {
		d.m.book.forget(d.self)
		return
	}
	d.told.seq++
	last.seq, last.load, last.waits = d.told.seq, 0, over
	d.m.book.learn(&last, d.round)
}

func differ(a, b float32) bool {
	gap, most := max(a, b)-min(a, b), max(a, b, -a, -b)
	return gap > changedTell*most && gap > 1
}

// meanOf returns the mean of the measured round trips of list; -1: none is measured.
func meanOf[T any](list []T, rtt func(*T) float32) float32 {
	sum, k := float32(0), 0
	for i := range list {
		if ms := rtt(&list[i]); ms >= 0 {
			sum += ms
			k++
		}
	}
	if k == 0 {
		return -1
	}
	return sum / float32(k)
}
