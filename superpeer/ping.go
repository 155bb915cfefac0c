package superpeer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
	"github.com/hashicorp/memberlist"
)

// Nodes measure round trips by messages of their own, which also work for nodes on no memberlist. A
// ping of memberlist carries news, and all its few copies would go to the measured node. A ping is
// a nonce, the receiver's uid and the sender's address; the answer is the nonce and a coordinate.
const (
	pingHead = 1 + 8 + 8
	pongHead = 1 + 8
)

// pings are the pings that wait for an answer. Nonces begin at a random one: an answer that was
// recorded fits no ping of another process.
type pings struct {
	mu   sync.Mutex
	last uint64
	wait map[uint64]chan<- pong
}

type pong struct {
	at   time.Time
	from coordinate.Coordinate
}

var errSilent = errors.New("no answer to a ping")

// ping measures the round trip to k, and updates our coordinate.
func (m *Member) ping(k *known) (time.Duration, error) {
	answer := make(chan pong, 1)
	m.pings.mu.Lock()
	m.pings.last++
	nonce := m.pings.last
	m.pings.wait[nonce] = answer
	m.pings.mu.Unlock()
	defer func() {
		m.pings.mu.Lock()
		delete(m.pings.wait, nonce)
		m.pings.mu.Unlock()
	}()
	b := binary.BigEndian.AppendUint64([]byte{tagPing}, nonce)
	b = binary.BigEndian.AppendUint64(b, k.Key)
	b = append(b, introduce(m.peers.self, &known{node: m.node}).Addr...)
	sent := time.Now()
	if err := m.list.SendBestEffort(&k.node, b); err != nil {
		return 0, err
	}
	late := time.NewTimer(m.cfg.Round * 9 / 10)
	defer late.Stop()
	select {
	case p := <-answer:
		rtt := p.at.Sub(sent)
		if m.place.Update(k.node.Name, p.from, rtt) != nil {
			m.counts.refused.Add(1)
		}
		return rtt, nil
	case <-late.C:
		return 0, errSilent
	}
}

// pinged answers a ping for this node.
func (m *Member) pinged(raw []byte) {
	n := len(raw) - pingHead - 2
	if n != net.IPv4len && n != net.IPv6len || binary.BigEndian.Uint64(raw[9:]) != uint64(m.peers.self) {
		m.counts.refused.Add(1)
		return
	}
	addr := append(net.IP(nil), raw[pingHead:pingHead+n]...)
	b := append([]byte{tagPong}, raw[1:pongHead]...)
	b = append(b, encodeCoordinate(m.place.Coordinate())...)
	_ = m.list.SendBestEffort(&memberlist.Node{Addr: addr, Port: binary.BigEndian.Uint16(raw[pingHead+n:])}, b) // best effort
}

// ponged passes an answer to the waiting ping.
func (m *Member) ponged(raw []byte) {
	if len(raw) < pongHead {
		m.counts.refused.Add(1)
		return
	}
	at, ok := decodeCoordinate(raw[pongHead:])
	m.pings.mu.Lock()
	defer m.pings.mu.Unlock()
	answer := m.pings.wait[binary.BigEndian.Uint64(raw[1:])]
	if !ok || answer == nil {
		m.counts.refused.Add(1)
		return
	}
	delete(m.pings.wait, binary.BigEndian.Uint64(raw[1:]))
	answer <- pong{time.Now(), at}
}

// watch measures the distance to k to update our coordinate, and checks that k is alive.
func (d *driver) watch(k *known) {
	d.m.counts.probes.Add(1)
	go func() {
		if _, err := d.m.ping(k); err == nil {
			return
		}
		select {
		case d.calls <- func() { d.group.failed(k) }:
		case <-d.m.done:
		}
	}()
}

// trips are recently measured round trips. They change slowly and the Node asks for the same
// repeatedly: most of its requests need no packet.
type trips map[rules.Peer]way

type way struct {
	rtt float32 // milliseconds
	at  rules.Round
}

const (
	keepTrip  = 60  // rounds for which a round trip is valid
	maxTrips  = 512 // that are kept
	samples   = 3   // of which a round trip is the least
	sampleGap = 16  // between two samples: that part of a round
)

// least returns the shortest of samples that begin gap apart: a queue on the route makes a round
// trip longer and never shorter, and the value decides for keepTrip rounds. It fails if all samples
// fail.
func least(gap time.Duration, sample func() (time.Duration, error)) (best time.Duration, err error) {
	type result struct {
		rtt time.Duration
		err error
	}
	results := make(chan result, samples)
	for i := range samples {
		time.AfterFunc(time.Duration(i)*gap, func() {
			rtt, err := sample()
			results <- result{rtt, err}
		})
	}
	best = -1
	for range samples {
		switch r := <-results; {
		case r.err != nil:
			err = r.err
		case r.rtt >= 0 && (best < 0 || r.rtt < best):
			best = r.rtt
		}
	}
	if best >= 0 {
		return best, nil
	}
	return 0, cmp.Or(err, errSilent)
}

func (t trips) of(peer rules.Peer, now rules.Round) (rtt float32, ok bool) {
	m, ok := t[peer]
	return m.rtt, ok && now-m.at < keepTrip
}

// keep records a round trip; it replaces any if there is no room.
func (t trips) keep(peer rules.Peer, rtt float32, now rules.Round) {
	if _, ok := t[peer]; !ok && len(t) >= maxTrips {
		for other := range t {
			delete(t, other)
			break
		}
	}
	t[peer] = way{rtt, now}
}
