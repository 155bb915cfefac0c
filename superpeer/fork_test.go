package superpeer

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// TestAForkTellsItsTwoApart is over real sockets: packets and streams of either label, and of neither.
func TestAForkTellsItsTwoApart(t *testing.T) {
	const patience = time.Minute
	open := func() *sockets {
		s, err := listen(netip.MustParseAddr("127.0.0.1"), 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	under, other := open(), open()
	defer other.Shutdown()
	trunk := newFork(under, "a")
	branch := trunk.prong("a/core")
	to := under.listener.Addr().String()
	for _, label := range []string{"b", "a/core", "a"} { // the first is nobody's
		b, err := memberlist.AddLabelHeaderToPacket([]byte("for "+label), label)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.WriteTo(b, to); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := memberlist.AddLabelHeaderToStream(c, label); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("for " + label)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*prong{branch, trunk} { // in the order in which they were sent
		label, want := p.label, "for "+p.label
		select {
		case got := <-p.PacketCh():
			if string(got.Buf) != want {
				t.Errorf("packet %q came to %s", got.Buf, label)
			}
		case <-time.After(patience):
			t.Fatalf("no packet came to %s", label)
		}
	}
	for _, p := range []*prong{branch, trunk} {
		label, want := p.label, "for "+p.label
		select {
		case c := <-p.StreamCh():
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("stream %q came to %s: %v", got, label, err)
			}
			c.Close()
		case <-time.After(patience):
			t.Fatalf("no stream came to %s", label)
		}
	}
	if err := branch.Shutdown(); err != nil {
		t.Error(err)
	}
	if trunk.find("a/core") != nil || trunk.find("a") != trunk {
		t.Error("with the branch another has ended, or it has not")
	}
	if err := trunk.Shutdown(); err != nil {
		t.Error(err)
	}
	select {
	case <-under.closed:
	default:
		t.Error("the transport lives on without its trunk")
	}
}

// TestWhoComesBackToTheCoreIsListedByAll has a node come back through one that has not heard of it before.
func TestWhoComesBackToTheCoreIsListedByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := superpeertest.NewNetwork(func(a, b int) time.Duration { return 20 * time.Millisecond })
		all := together(t, net, 4, Config{Membership: MembershipCore, Fraction: 0.01})
		time.Sleep(10 * time.Second)
		founder, early, back, late := all[0], all[1], all[2], all[3]
		enter := func(m *Member, door *Member) *memberlist.Memberlist {
			list, err := m.openCore([]string{door.Address()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = list.Shutdown() })
			time.Sleep(5 * time.Second)
			return list
		}
		a := enter(early, founder)
		for range 3 {
			gone := enter(back, founder)
			if err := gone.Leave(time.Second); err != nil {
				t.Error(err)
			}
			_ = gone.Shutdown()
			time.Sleep(5 * time.Second)
		}
		b := enter(late, founder)
		enter(back, late)
		for name, list := range map[string]*memberlist.Memberlist{"who saw it go": a, "who did not": b} {
			if n := list.NumMembers(); n != 4 {
				t.Errorf("%s lists %d members, want 4", name, n)
			}
		}
		for _, m := range all {
			m.Kill()
		}
		time.Sleep(time.Minute)
	})
}
