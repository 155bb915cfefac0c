package overlay

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/batuta-dev/batuta/superpeer"
)

func TestNewsWaitsForAPacketThatIsSentAnyhow(t *testing.T) {
	b := newBook()
	b.expire(1, 1, 8)
	b.learn(told(1, 1, 2), 1)
	if b.broadcasts(3, 1400, false) != nil {
		t.Error("fresh news took a packet of its own")
	}
	if len(b.broadcasts(3, 1400, true)) != 1 {
		t.Error("it did not ride on a packet that was sent anyhow")
	}
	b.expire(2+tellWait, 1+tellWait, 8)
	for i := 1; i < tellTimes; i++ {
		if len(b.broadcasts(3, 1400, false)) != 1 {
			t.Errorf("it waited longer than %d rounds, was told %d times, and took no packet", tellWait, i)
		}
	}
	if b.broadcasts(3, 1400, true) != nil {
		t.Errorf("it was told more than %d times", tellTimes)
	}
}

func TestARoundTripIsAskedForOnceInAWhile(t *testing.T) {
	r := trips{}
	r.keep(7, 12, 100)
	if rtt, ok := r.of(7, 100+keepTrip-1); !ok || rtt != 12 {
		t.Errorf("after %d rounds it is %v, %v; want 12", keepTrip-1, rtt, ok)
	}
	if _, ok := r.of(7, 100+keepTrip); ok {
		t.Errorf("it was still believed after %d rounds", keepTrip)
	}
	for peer := range superpeer.Peer(3 * maxTrips) {
		r.keep(peer, 1, 100)
	}
	if len(r) > maxTrips {
		t.Errorf("%d are kept, want at most %d", len(r), maxTrips)
	}
}

// TestSocketsCarryPacketsAndStreams is over real sockets, on one address and on all.
func TestSocketsCarryPacketsAndStreams(t *testing.T) {
	const patience = time.Minute
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "::"} {
		a, err := listen(netip.MustParseAddr(host), 0)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		defer a.Shutdown()
		b, err := listen(netip.MustParseAddr("127.0.0.1"), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Shutdown()
		_, port, err := a.FinalAdvertiseAddr("127.0.0.1", 0)
		if err != nil {
			t.Fatal(err)
		}
		to := memberlist.Address{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
		for range 2 { // what one packet held must not be overwritten by the next
			if _, err := b.WriteToAddress([]byte("news"), to); err != nil {
				t.Fatalf("%s: %v", host, err)
			}
		}
		for range 2 {
			select {
			case p := <-a.PacketCh():
				if string(p.Buf) != "news" || p.From == nil || p.Timestamp.IsZero() {
					t.Errorf("%s: received %q from %v", host, p.Buf, p.From)
				}
				if _, err := a.WriteTo([]byte("answer"), p.From.String()); err != nil {
					t.Errorf("%s: answer: %v", host, err)
				}
			case <-time.After(patience):
				t.Fatalf("%s: no packet came", host)
			}
		}
		select {
		case p := <-b.PacketCh():
			if string(p.Buf) != "answer" {
				t.Errorf("%s: received %q", host, p.Buf)
			}
		case <-time.After(patience):
			t.Fatalf("%s: no answer came", host)
		}
		out, err := b.DialAddressTimeout(to, patience)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		defer out.Close()
		select {
		case in := <-a.StreamCh():
			in.Close()
		case <-time.After(patience):
			t.Fatalf("%s: no stream came", host)
		}
		if _, err := listen(netip.MustParseAddr("127.0.0.1"), port); err == nil {
			t.Errorf("%s: its port was taken a second time", host)
		}
	}
}
