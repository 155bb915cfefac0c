package superpeer

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// sockets are UDP and TCP on the same port. memberlist's own allocate 64 KiB for each packet, of
// which nearly all use less than a hundredth: that was most of a process's heap.
type sockets struct {
	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
	close   sync.Once
	serving sync.WaitGroup
}

const (
	longestPacket = 1 << 16
	receiveBuffer = 2 << 20 // bytes of the kernel's buffer, if it allows that
	anyPortTries  = 16
)

// listen opens both; port 0 picks a port that is free for both.
func listen(host netip.Addr, port int) (s *sockets, err error) {
	s = &sockets{packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), closed: make(chan struct{})}
	for range anyPortTries {
		if s.tcp, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(host, uint16(port)))); err != nil {
			return nil, err
		}
		if s.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.tcp.Addr().(*net.TCPAddr).AddrPort())); err == nil {
			break
		}
		s.tcp.Close()
		if port != 0 {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	_ = s.udp.SetReadBuffer(receiveBuffer) // a smaller buffer works too
	s.serving.Go(s.receive)
	s.serving.Go(s.accept)
	return s, nil
}

func (s *sockets) receive() {
	buffer := make([]byte, longestPacket)
	for {
		n, from, err := s.udp.ReadFromUDP(buffer)
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
		c, err := s.tcp.AcceptTCP()
		if s.over(err) {
			return
		}
		if err != nil {
			continue
		}
		select {
		case s.streams <- c:
		case <-s.closed:
			c.Close()
			return
		}
	}
}

// over reports whether the sockets are closed; after a different error it waits a little.
func (s *sockets) over(err error) bool {
	if err == nil {
		return false
	}
	select {
	case <-s.closed:
		return true
	case <-time.After(10 * time.Millisecond):
		return false
	}
}

// FinalAdvertiseAddr implements [memberlist.Transport].
func (s *sockets) FinalAdvertiseAddr(host string, port int) (net.IP, int, error) {
	own := s.tcp.Addr().(*net.TCPAddr)
	ip := own.IP
	if host != "" {
		if ip = net.ParseIP(host); ip == nil {
			return nil, 0, fmt.Errorf("advertise %q: want an IP address", host)
		}
	}
	if port == 0 {
		port = own.Port
	}
	if short := ip.To4(); short != nil {
		ip = short
	}
	return ip, port, nil
}

// WriteTo implements [memberlist.Transport].
func (s *sockets) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = s.udp.WriteToUDPAddrPort(b, to)
	return time.Now(), err
}

// WriteToAddress implements [memberlist.NodeAwareTransport].
func (s *sockets) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return s.WriteTo(b, a.Addr)
}

// PacketCh implements [memberlist.Transport].
func (s *sockets) PacketCh() <-chan *memberlist.Packet { return s.packets }

// StreamCh implements [memberlist.Transport].
func (s *sockets) StreamCh() <-chan net.Conn { return s.streams }

// DialTimeout implements [memberlist.Transport].
func (s *sockets) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, timeout)
}

// DialAddressTimeout implements [memberlist.NodeAwareTransport].
func (s *sockets) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return s.DialTimeout(a.Addr, timeout)
}

// Shutdown implements [memberlist.Transport].
func (s *sockets) Shutdown() error {
	s.close.Do(func() {
		close(s.closed)
		s.tcp.Close()
		s.udp.Close()
	})
	s.serving.Wait()
	return nil
}
