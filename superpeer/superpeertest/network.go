// Package superpeertest is a network in memory for overlays of many nodes in a process: it imposes round
// trips, can lose and delay packets, and can be partitioned. Its transports are memberlist's.
package superpeertest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Network connects hosts, numbered from 0, with imposed round trips.
type Network struct {
	rtt func(a, b int) time.Duration

	mu    sync.RWMutex
	hosts map[string]*Transport
	cut   func(a, b int) bool // nil: no partition
	fate  func(a, b int) (lost bool, late time.Duration)
}

// NewNetwork makes a network in which a packet from a to b takes half of rtt(a, b). rtt must be
// safe for concurrent use.
func NewNetwork(rtt func(a, b int) time.Duration) *Network {
	return &Network{rtt: rtt, hosts: map[string]*Transport{}}
}

// Cut separates hosts a and b if apart(a, b) is true, until the next call; nil ends all cuts. apart
// must be symmetric and safe for concurrent use.
func (n *Network) Cut(apart func(a, b int) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = apart
}

// Disturb makes fate decide for each packet from host a to host b whether it is lost, and by how
// much it is late. nil ends that. Streams are not disturbed: TCP resends lost data. fate must be
// safe for concurrent use.
func (n *Network) Disturb(fate func(a, b int) (lost bool, late time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fate = fate
}

// disturbed returns the decision of fate for a packet.
func (n *Network) disturbed(a, b int) (lost bool, late time.Duration) {
	n.mu.RLock()
	fate := n.fate
	n.mu.RUnlock()
	if fate == nil {
		return false, 0
	}
	return fate(a, b)
}

// port is the port of all hosts.
const port = 7600

func ip(host int) net.IP { return net.IPv4(10, byte(host>>16), byte(host>>8), byte(host)).To4() }

// Address returns the HOST:PORT of a host.
func Address(host int) string { return fmt.Sprintf("%v:%d", ip(host), port) }

// Bounds of a host's queues; packets beyond are lost, as in a router.
const (
	packetQueue = 4096
	streamQueue = 256
)

// header is what UDP and IP add to a packet.
const header = 28

// Transport connects a host. It replaces a host that is connected already.
func (n *Network) Transport(host int) *Transport {
	t := &Transport{
		network: n, host: host, addr: &net.UDPAddr{IP: ip(host), Port: port},
		packets: make(chan *memberlist.Packet, packetQueue), streams: make(chan net.Conn, streamQueue),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[Address(host)] = t
	return t
}

// reach returns the transport at addr for t: nil if there is none or the network is cut.
func (n *Network) reach(t *Transport, addr string) (to *Transport, cut bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	to = n.hosts[addr]
	if to == nil || to.down.Load() || t.down.Load() {
		return nil, false
	}
	if n.cut != nil && n.cut(t.host, to.host) {
		return nil, true
	}
	return to, false
}

// Transport is the connection of a host to a [Network], a [memberlist.NodeAwareTransport].
type Transport struct {
	network *Network
	host    int
	addr    *net.UDPAddr
	packets chan *memberlist.Packet
	streams chan net.Conn
	down    atomic.Bool
	sent    atomic.Uint64
}

// Sent returns the bytes that the host has sent, with the headers of UDP and IP.
func (t *Transport) Sent() uint64                                        { return t.sent.Load() }
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return t.addr.IP, port, nil }

func (t *Transport) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	t.sent.Add(uint64(len(b)) + header)
	if to, _ := t.network.reach(t, addr); to != nil {
		lost, late := t.network.disturbed(t.host, to.host)
		if lost {
			return now, nil
		}
		way := t.network.rtt(t.host, to.host)/2 + late
		p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: t.addr, Timestamp: now.Add(way)}
		time.AfterFunc(way, func() { to.take(p) })
	}
	return now, nil
}

func (t *Transport) take(p *memberlist.Packet) {
	if t.down.Load() {
		return
	}
	select {
	case t.packets <- p:
	default: // lost
	}
}

func (t *Transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *Transport) StreamCh() <-chan net.Conn           { return t.streams }

var (
	errRefused = errors.New("connection refused")
	errTimeout = errors.New("no answer: the network is cut")
)

func (t *Transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, cut := t.network.reach(t, addr)
	switch {
	case cut:
		time.Sleep(timeout)
		return nil, errTimeout
	case to == nil:
		return nil, errRefused
	}
	time.Sleep(t.network.rtt(t.host, to.host))
	here, there := net.Pipe()
	// The receiver may end meanwhile.
	if err := here.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	select {
	case to.streams <- &counted{Conn: there, sent: &to.sent}:
		return &counted{Conn: here, sent: &t.sent}, nil
	default:
		return nil, errRefused
	}
}

func (t *Transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

func (t *Transport) Shutdown() error {
	t.down.Store(true)
	for {
		select {
		case c := <-t.streams:
			c.Close()
		default:
			return nil
		}
	}
}

// counted counts the bytes of a stream.
type counted struct {
	net.Conn
	sent *atomic.Uint64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(uint64(n))
	return n, err
}
