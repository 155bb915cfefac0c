package superpeer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/superpeer"
)

// mesh is a program's own UDP socket: the first byte separates the program's packets from the overlay's.
type mesh struct {
	net.PacketConn
	own     chan string
	overlay atomic.Int64 // packets of the overlay
	streams atomic.Int64 // that this node has opened
}

const ofOverlay, ofProgram = 'o', 'p'

func (m *mesh) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := m.PacketConn.ReadFrom(b)
		switch {
		case err != nil:
			return 0, nil, err
		case n > 0 && b[0] == ofProgram:
			m.own <- string(b[1:n])
		case n > 0 && b[0] == ofOverlay:
			m.overlay.Add(1)
			return copy(b, b[1:n]), from, nil
		}
	}
}

func (m *mesh) WriteTo(b []byte, to net.Addr) (int, error) {
	_, err := m.PacketConn.WriteTo(append([]byte{ofOverlay}, b...), to)
	return len(b), err
}

func (m *mesh) dial(ctx context.Context, addr string) (net.Conn, error) {
	m.streams.Add(1)
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// own opens UDP and TCP at one port of loopback.
func own(t *testing.T) (*mesh, net.Listener) {
	t.Helper()
	for {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if udp, err := net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return &mesh{PacketConn: udp, own: make(chan string, 16)}, tcp
		}
		tcp.Close()
	}
}

// TestAnOverlayOverTheProgramsOwnConnections has real sockets that carry the program's packets too.
// A node reaches its super peer by the same socket.
func TestAnOverlayOverTheProgramsOwnConnections(t *testing.T) {
	const nodes, patience = 4, 3 * time.Minute
	for _, membership := range []superpeer.Membership{superpeer.MembershipFull, superpeer.MembershipCore} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		meshes, members := map[string]*mesh{}, []*superpeer.Member(nil)
		for i := range nodes {
			m, tcp := own(t)
			c := superpeer.Config{
				ID: fmt.Sprint(i), Membership: membership, Fraction: 0.25, Round: 200 * time.Millisecond,
				Transport: superpeer.NewTransport(m, tcp, m.dial), Service: tcp.Addr().String(),
			}
			if i > 0 {
				c.Join = []string{members[0].Address()}
			}
			node, err := superpeer.Join(ctx, c)
			if err != nil {
				t.Fatalf("%s: %v", membership, err)
			}
			defer node.Close()
			if node.Address() != tcp.Addr().String() {
				t.Errorf("%s: node %d is reached at %s, want the listener's %v", membership, i, node.Address(), tcp.Addr())
			}
			meshes[node.Address()], members = m, append(members, node)
		}
		var client *superpeer.Member
		var home superpeer.Peer
		for settled := false; !settled; time.Sleep(10 * time.Millisecond) {
			supers, served := 0, 0
			for _, m := range members {
				if m.IsSuperPeer() {
					supers++
				} else if h, ok := m.Home(); ok {
					served++
					client, home = m, h
				}
			}
			settled = supers == 1 && served == nodes-1
			if ctx.Err() != nil {
				t.Fatalf("%s: %d super peers, %d served", membership, supers, served)
			}
		}
		to, err := net.ResolveUDPAddr("udp", home.Service)
		if err != nil {
			t.Fatal(err)
		}
		from := meshes[client.Address()]
		if _, err := from.PacketConn.WriteTo([]byte{ofProgram, '!'}, to); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-meshes[home.Service].own:
			if got != "!" {
				t.Errorf("%s: the super peer got %q", membership, got)
			}
		case <-ctx.Done():
			t.Fatalf("%s: the super peer got no packet of the program", membership)
		}
		if from.overlay.Load() == 0 || from.streams.Load() == 0 {
			t.Errorf("%s: the overlay has received %d packets and opened %d streams by the program's connections", membership, from.overlay.Load(), from.streams.Load())
		}
		for _, m := range members {
			m.Close()
		}
		if _, err := from.PacketConn.WriteTo([]byte{ofProgram}, to); err == nil {
			t.Errorf("%s: a member that is closed leaves its socket open", membership)
		}
	}
}

// TestOwnConnectionsNeedAnAddress: a listener on all addresses names none.
func TestOwnConnectionsNeedAnAddress(t *testing.T) {
	for advertise, right := range map[string]bool{"": false, "0.0.0.0:7600": false, "host:7600": false, "127.0.0.1:0": true, "127.0.0.1:7600": true} {
		tcp, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		defer udp.Close()
		m, err := superpeer.Join(t.Context(), superpeer.Config{Transport: superpeer.NewTransport(udp, tcp, nil), Advertise: advertise, Insecure: true})
		if (err == nil) != right {
			t.Errorf("advertise %q: %v", advertise, err)
		}
		if err == nil {
			m.Close()
		}
	}
}

// Others reach a listener that is not on loopback: without a secret that is refused, unless it is meant.
func TestOwnConnectionsNeedASecret(t *testing.T) {
	tcp, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	_, err = superpeer.Join(t.Context(), superpeer.Config{Transport: superpeer.NewTransport(udp, tcp, nil), Advertise: "127.0.0.1:7600"})
	if !errors.Is(err, superpeer.ErrConfig) {
		t.Errorf("it joins without a secret: %v", err)
	}
}
