package superpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// sockets are packets and streams at the same address, a [memberlist.NodeAwareTransport].
// memberlist's own allocate 64 KiB for each packet, of which nearly all use less than a hundredth:
// that was most of a process's heap.
type sockets struct {
	conn     net.PacketConn
	listener net.Listener
	dial     func(ctx context.Context, addr string) (net.Conn, error)
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	closed   chan struct{}
	begin    sync.Once
	close    sync.Once
	serving  sync.WaitGroup
}

const (
	longestPacket = 1 << 16
	receiveBuffer = 2 << 20 // bytes of the kernel's buffer, if it allows that
	anyPortTries  = 16
)

// NewTransport returns a [Config.Transport] over connections that the program has opened, such as
// those of its own mesh. Messages of at most 1,400 bytes go through packets. The rest, and the
// lists that nodes compare, go through streams: dial opens one, and listener accepts it. Without
// dial, streams are TCP's.
//
// Nodes have an IP address and a port, the same for both: Config.Advertise, or else the listener's.
// Packets are written to a [net.UDPAddr] of it, and dial gets it as IP:PORT; a mesh with other names
// maps them. Nothing is read before [Join], and [Member.Close] closes both connections: to share
// one, give a wrapper that forwards only the overlay's packets, and ends ReadFrom at its Close.
func NewTransport(packets net.PacketConn, listener net.Listener, dial func(ctx context.Context, addr string) (net.Conn, error)) memberlist.NodeAwareTransport {
	return newSockets(packets, listener, dial)
}

func newSockets(packets net.PacketConn, listener net.Listener, dial func(ctx context.Context, addr string) (net.Conn, error)) *sockets {
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	return &sockets{
		conn: packets, listener: listener, dial: dial,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), closed: make(chan struct{}),
	}
}

// listen opens UDP and TCP; port 0 picks a port that is free for both.
func listen(host netip.Addr, port int) (*sockets, error) {
	for try := 1; ; try++ {
		tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(host, uint16(port))))
		if err != nil {
			return nil, err
		}
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(tcp.Addr().(*net.TCPAddr).AddrPort()))
		if err == nil {
			_ = udp.SetReadBuffer(receiveBuffer) // a smaller buffer works too
			return newSockets(udp, tcp, nil), nil
		}
		tcp.Close()
		if port != 0 || try == anyPortTries {
			return nil, err
		}
	}
}

func (s *sockets) receive() {
	buffer := make([]byte, longestPacket)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if s.over(err) {
			return
		}
		if err != nil || n == 0 {
			continue
		}
		select {
		case s.packets <- &memberlist.Packet{Buf: append([]byte(nil), buffer[:n]...), From: from, Timestamp: time.Now()}:
		case <-s.closed:
			return
		}
	}
}

func (s *sockets) accept() {
	for {
		c, err := s.listener.Accept()
		if s.over(err) {
			return
		}
		if err != nil {
			continue
		}
		select {
		case s.streams <- &sifted{Conn: c}:
		case <-s.closed:
			c.Close()
			return
		}
	}
}

// over reports whether the sockets are closed; after a different error it waits a little.
func (s *sockets) over(err error) bool {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return err != nil
	}
	select {
	case <-s.closed:
		return true
	case <-time.After(10 * time.Millisecond):
		return false
	}
}

func (s *sockets) FinalAdvertiseAddr(host string, port int) (net.IP, int, error) {
	own, err := netip.ParseAddrPort(s.listener.Addr().String())
	ip := own.Addr()
	if host != "" {
		ip, err = netip.ParseAddr(host)
	}
	if port == 0 {
		port = int(own.Port())
	}
	if err != nil || ip.IsUnspecified() || port == 0 {
		return nil, 0, fmt.Errorf("the listener at %s names no IP:PORT for the others; give advertise", s.listener.Addr())
	}
	return ip.Unmap().AsSlice(), port, nil
}

func (s *sockets) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = s.conn.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

func (s *sockets) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return s.WriteTo(b, a.Addr)
}

// PacketCh implements [memberlist.Transport]. Its first call begins to read.
func (s *sockets) PacketCh() <-chan *memberlist.Packet {
	s.begin.Do(func() {
		s.serving.Go(s.receive)
		s.serving.Go(s.accept)
	})
	return s.packets
}

func (s *sockets) StreamCh() <-chan net.Conn { return s.streams }

func (s *sockets) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := s.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &sifted{Conn: c}, nil
}

func (s *sockets) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return s.DialTimeout(a.Addr, timeout)
}

func (s *sockets) Shutdown() error {
	s.close.Do(func() {
		s.begin.Do(func() {})
		close(s.closed)
		s.listener.Close()
		s.conn.Close()
	})
	s.serving.Wait()
	return nil
}

// fork is a transport shared by two memberlists: its label decides which of them receives a packet
// or stream.
type fork struct {
	memberlist.NodeAwareTransport
	done chan struct{}

	mu     sync.Mutex
	prongs map[string]*prong // by label
}

// prong is the [memberlist.Transport] of a single memberlist. It removes labels.
type prong struct {
	*fork
	label   string
	trunk   bool // shutting it down ends the fork
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
	close   sync.Once
}

// labelWait is how long a stream may take to send its label.
const labelWait = 10 * time.Second

// newFork divides t. Shutting down the returned prong ends the fork.
func newFork(t memberlist.NodeAwareTransport, label string) *prong {
	f := &fork{NodeAwareTransport: t, done: make(chan struct{}), prongs: map[string]*prong{}}
	p := f.prong(label)
	p.trunk = true
	go f.run()
	return p
}

// prong opens a prong, and replaces any with the same label.
func (f *fork) prong(label string) *prong {
	p := &prong{fork: f, label: label, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prongs[label] = p
	return p
}

func (f *fork) find(label string) *prong {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prongs[label]
}

func (f *fork) run() {
	for {
		select {
		case p := <-f.NodeAwareTransport.PacketCh():
			f.packet(p)
		case c := <-f.NodeAwareTransport.StreamCh():
			go f.stream(c)
		case <-f.done:
			return
		}
	}
}

func (f *fork) packet(p *memberlist.Packet) {
	rest, label, err := memberlist.RemoveLabelHeaderFromPacket(p.Buf)
	to := f.find(label)
	if err != nil || to == nil {
		return // no receiver, as with any packet
	}
	p.Buf = rest
	select {
	case to.packets <- p:
	case <-to.closed:
	case <-f.done:
	}
}

func (f *fork) stream(c net.Conn) {
	if c.SetDeadline(time.Now().Add(labelWait)) != nil {
		c.Close()
		return
	}
	rest, label, err := memberlist.RemoveLabelHeaderFromStream(c)
	to := f.find(label)
	if err != nil || to == nil {
		c.Close()
		return
	}
	select {
	case to.streams <- rest:
	case <-to.closed:
		c.Close()
	case <-f.done:
		c.Close()
	}
}

func (p *prong) PacketCh() <-chan *memberlist.Packet { return p.packets }
func (p *prong) StreamCh() <-chan net.Conn           { return p.streams }

func (p *prong) Shutdown() (err error) {
	p.close.Do(func() {
		p.mu.Lock()
		if p.prongs[p.label] == p {
			delete(p.prongs, p.label)
		}
		p.mu.Unlock()
		close(p.closed)
		if p.trunk {
			close(p.done)
			err = p.NodeAwareTransport.Shutdown()
		}
	})
	return err
}
