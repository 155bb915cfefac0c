package superpeer

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
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

// BenchmarkARoundOfGossip is what a node does for gossip in a round that brings more news than
// may be passed on.
func BenchmarkARoundOfGossip(b *testing.B) {
	for _, tokens := range []int32{25, 100, 1000} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			k := newBook()
			for t := range tokens {
				k.learn(told(t, 1, uid(t)+2), 0)
			}
			round, seq := rules.Round(0), uint32(1)
			for b.Loop() {
				round++
				k.expire(round, 1, int(tokens))
				for range 12 { // more than may be passed on: it piles up
					seq++
					n := told(int32(seq)%tokens, 1, uid(int32(seq)%tokens)+2)
					n.seq = seq
					k.learn(n, round)
				}
				for i := range 17 { // two rounds of pings, and gossip's own
					k.broadcasts(3, 1350, i < 2)
				}
			}
		})
	}
}

func TestANameIsSixteenDigits(t *testing.T) {
	if u, ok := parseName(uid(0xabc).name()); !ok || u != 0xabc {
		t.Errorf("a node's own name is read as %x, %v", u, ok)
	}
	for _, name := range []string{"", "abc", "0000000000000000", "0000000000000ABC", "+000000000000abc", "000000000000_abc", "000000000000abcg"} {
		if u, ok := parseName(name); ok {
			t.Errorf("%q is read as %x", name, u)
		}
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
	for peer := range rules.Peer(3 * maxTrips) {
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

func TestWhoIsOutsideTheCoreKeepsNoNews(t *testing.T) {
	b := newBook()
	b.core = true
	b.bound(clientBook)
	b.learn(told(1, 1, 2), 1)
	if len(b.hot) != 0 || len(b.snapshot()) != 1 {
		t.Errorf("a client knows %d super peers, want one, and keeps %d to pass on, want none", len(b.snapshot()), len(b.hot))
	}
	b.bound(maxHeard)
	if b.learn(told(2, 1, 3), 1); len(b.hot) != 1 {
		t.Errorf("in the core it keeps %d to pass on, want one", len(b.hot))
	}
}

func TestTheNearestAreThoseOfAllSorted(t *testing.T) {
	metric := rules.Metric{Dims: 2}
	at := rules.Position{X: [rules.MaxDims]float32{3, 4}}
	for n := range 60 {
		list := make([]notice, n)
		all := make([]int, n)
		for i := range list {
			draw := rules.Mix(uint64(100*n + i))
			list[i].At.X[0], list[i].At.X[1], all[i] = float32(draw%997), float32(draw>>32%991), i
		}
		way := func(i int) float32 { return metric.Estimate(&at, &list[i].At) }
		slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(way(a), way(b)) })
		if got := nearOf(list, &at, &metric); !slices.Equal(got, all[:min(n, nearOnes)]) {
			t.Errorf("of %d the nearest are %v, want %v", n, got, all[:min(n, nearOnes)])
		}
	}
}
