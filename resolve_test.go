package batuta

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

// nameServer is a DNS server on loopback that knows one name, and the process's
// resolver asks it alone.
type nameServer struct {
	t        *testing.T
	conn     net.PacketConn
	answers  func(asked int) []net.IP // of the asked-th question for addresses of version 4
	asked    atomic.Int64
	services atomic.Pointer[[][]byte] // of every question for SRV records
}

func newNameServer(t *testing.T, answers func(asked int) []net.IP) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{t: t, conn: conn, answers: answers}
	done := make(chan struct{})
	go func() { defer close(done); s.serve() }()
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		// A lookup may outlive its caller: a Dialer would read DefaultResolver, which the cleanup sets.
		return net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
	}}
	t.Cleanup(func() {
		net.DefaultResolver = usual
		conn.Close()
		<-done
	})
	return s
}

func (s *nameServer) serve() {
	const header, typeA, typeSRV = 12, 1, 33 // RFC 1035, RFC 2782
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		name := bytes.IndexByte(buffer[min(header, n):n], 0) // its length
		end := header + name + 5
		if name < 0 || end > n {
			s.t.Errorf("the resolver asks what cannot be read: %x", buffer[:n])
			return
		}
		asked := buffer[end-4 : end] // type and class
		var records [][]byte
		switch binary.BigEndian.Uint16(asked) {
		case typeA:
			for _, ip := range s.answers(int(s.asked.Add(1))) {
				records = append(records, ip.To4())
			}
		case typeSRV:
			if of := s.services.Load(); of != nil {
				records = *of
			}
		}
		m := append(bytes.Clone(buffer[:2]), buffer[2]|0x80, 0, 0, 1, 0, byte(len(records)), 0, 0, 0, 0) // a response with one question
		m = append(m, buffer[header:end]...)
		for _, data := range records {
			m = append(append(m, 0xc0, header), asked...) // the name of the question
			m = append(m, 0, 0, 0, 0)                     // it is not kept
			m = append(binary.BigEndian.AppendUint16(m, uint16(len(data))), data...)
		}
		s.conn.WriteTo(m, from)
	}
}

// A name that stands for fewer addresses than before may stand for more again.
func TestANameThatShrinksIsLookedUpAgain(t *testing.T) {
	c := newCluster(t, 0)
	ips := []net.IP{net.IPv4(127, 0, 0, 21), net.IPv4(127, 0, 0, 22)}
	_, port, _ := net.SplitHostPort(c.seat(ips[0].String() + ":0"))
	c.seat(net.JoinHostPort(ips[1].String(), port))
	c.kill("2")
	newNameServer(t, func(asked int) []net.IP {
		if asked > 1 && asked < 4 {
			return ips[:1]
		}
		return ips
	})
	c.start("1", func(cfg *Config) { cfg.Peers, cfg.Join, cfg.Bootstrap = nil, []string{"members.test:" + port}, true })
	c.agree("1")
	c.rebind("2")
	c.start("2", joins(c)) // it asks nobody: 1 must find it
	c.lists("1", "2")
	c.agree("2")
}

// As "Scrapper" has it: all know one name, and nothing else. It stands for nobody
// that lives at first, then for all of them.
func TestOneNameForAllMembers(t *testing.T) {
	c := newCluster(t, 0)
	all := []net.IP{net.IPv4(127, 0, 0, 11), net.IPv4(127, 0, 0, 12), net.IPv4(127, 0, 0, 13)}
	_, port, _ := net.SplitHostPort(c.seat(all[0].String() + ":0"))
	for _, ip := range all[1:] {
		c.seat(net.JoinHostPort(ip.String(), port))
	}
	s := newNameServer(t, func(asked int) []net.IP {
		if asked <= 6 {
			return []net.IP{net.IPv4(127, 0, 0, 99)}
		}
		return all
	})
	for i := range 3 {
		c.start(ID(strconv.Itoa(i+1)), func(cfg *Config) {
			cfg.Peers, cfg.Join, cfg.Expect = nil, []string{"members.test:" + port}, 3
		})
	}
	c.lists("1", "2", "3")
	c.agree("3")
	if s.asked.Load() <= 6 {
		t.Errorf("the name was looked up %d times: nobody has asked again", s.asked.Load())
	}
}

// service is the data of an SRV record of a member at addr.
func service(t *testing.T, host, addr string) (data []byte) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	data = binary.BigEndian.AppendUint16(make([]byte, 4), uint16(n)) // after priority and weight
	for label := range strings.SplitSeq(host, ".") {
		data = append(append(data, byte(len(label))), label...)
	}
	return data
}

// The SRV records name no member at first, then the one that asks, then all.
func TestMembersFindEachOtherBySRV(t *testing.T) {
	c := newCluster(t, 3)
	s := newNameServer(t, func(int) []net.IP { return []net.IP{net.IPv4(127, 0, 0, 1)} })
	finds := func(cfg *Config) { cfg.Peers, cfg.Join, cfg.Expect = nil, []string{"srv:_batuta._tcp.example.test"}, 3 }
	one := c.start("1", finds)
	records := [][]byte{service(t, "one.test.", c.members[0].Addr)}
	s.services.Store(&records)
	asked := s.asked.Load()
	within(t, "member 1 finds its own address", func() bool { return s.asked.Load() > asked+2 })
	c.start("2", finds)
	c.start("3", finds)
	all := records
	for i, host := range []string{"two.test.", "3.test."} {
		all = append(all, service(t, host, c.members[i+1].Addr))
	}
	s.services.Store(&all)
	c.lists("1", "2", "3")
	c.agree("3")
	if why := one.Err(); why != nil {
		t.Error(why)
	}
}

// A file that grows, and names a member that has moved, is read again.
func TestMembersFindEachOtherByAFile(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c, path := newVirtualCluster(t, 4), filepath.Join(t.TempDir(), "members")
		write := func(lines ...string) {
			if err := os.WriteFile(path, []byte("# all\n"+strings.Join(lines, "\n")), 0o600); err != nil {
				t.Error(err)
			}
		}
		finds := func(cfg *Config) { cfg.Peers, cfg.Join, cfg.Expect = nil, []string{"file:" + path}, 3 }
		c.start("1", finds)
		c.start("2", finds)
		time.Sleep(time.Minute)
		write(c.members[0].Addr+" # the first", "", c.members[1].Addr, "no address")
		c.lists("1", "2")
		time.Sleep(time.Minute)
		c.start("3", func(cfg *Config) { cfg.Peers, cfg.Bootstrap = nil, true }) // it asks no member
		write(c.members[0].Addr, c.members[1].Addr, c.members[2].Addr)
		c.lists("1", "2", "3")
		c.agree("3")
	})
}

// A name server that does not answer delays neither the start nor the end of a member, however
// many names its list has.
func TestASilentNameServerDelaysAMemberBriefly(t *testing.T) {
	released := make(chan struct{})
	newNameServer(t, func(int) []net.IP { <-released; return nil })
	t.Cleanup(func() { close(released) })
	var peers []Peer
	for i := range 6 {
		peers = append(peers, Peer{ID: ID(strconv.Itoa(i + 2)), Addr: fmt.Sprintf("member-%d.test:7400", i+2)})
	}
	began := time.Now()
	n, err := Start(t.Context(), Config{ID: "1", Listen: "0.0.0.0:0", Peers: peers, Algorithm: bully.New(), Logger: testLog(t, "1")})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*lookupTime {
		t.Errorf("it has started after %v", took)
	}
	time.Sleep(100 * time.Millisecond) // by now it locates itself again
	began = time.Now()
	n.Close()
	if took := time.Since(began); took > lookupTime {
		t.Errorf("it has ended after %v", took)
	}
}
