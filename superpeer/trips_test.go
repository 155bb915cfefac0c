package superpeer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// TestALatePacketDoesNotDecide measures one round trip again and again while one packet of ten is late. One
// sample would be wrong in 19 of 100 cases.
func TestALatePacketDoesNotDecide(t *testing.T) {
	const rtt, measured, wrong = 20 * time.Millisecond, 100, 5
	synctest.Test(t, func(t *testing.T) {
		net := superpeertest.NewNetwork(func(int, int) time.Duration { return rtt })
		members := two(t, net)
		var packets atomic.Uint64
		net.Disturb(func(int, int) (bool, time.Duration) {
			if rules.Mix(packets.Add(1))%10 == 0 {
				return false, 300 * time.Millisecond
			}
			return false, 0
		})
		k, ok := members[0].peers.of(members[1].peers.self)
		if !ok {
			t.Fatal("the two do not know each other")
		}
		late := 0
		for range measured {
			way, err := members[0].measure(k)
			if err != nil {
				t.Fatal(err)
			}
			if way > rtt+time.Millisecond {
				late++
			}
		}
		if late > wrong {
			t.Errorf("%d of %d round trips are longer than %v, want at most %d", late, measured, rtt, wrong)
		}
		t.Logf("%d of %d round trips are too long", late, measured)
	})
}

// TestAMeasuredRoundTripSpreadsNoNews: the few copies of an announcement are for different nodes, and all samples of
// a round trip go to one. A node cut off from the one that it measured would be heard by nobody.
func TestAMeasuredRoundTripSpreadsNoNews(t *testing.T) {
	const measured = 20
	synctest.Test(t, func(t *testing.T) {
		net := superpeertest.NewNetwork(func(int, int) time.Duration { return 5 * time.Millisecond })
		members := two(t, net)
		m := members[0]
		k, ok := m.peers.of(members[1].peers.self)
		if !ok {
			t.Fatal("the two do not know each other")
		}
		sent := 0
		for range measured {
			m.book.mu.Lock()
			e := &entry{heard: m.book.round} // for packets that are sent anyhow
			m.book.hot = []*entry{e}
			m.book.mu.Unlock()
			if _, err := m.measure(k); err != nil {
				t.Fatal(err)
			}
			m.book.mu.Lock()
			sent += e.sent
			m.book.mu.Unlock()
		}
		if sent > measured/2 { // memberlist's own probes carry some
			t.Errorf("%d announcements left with %d measured round trips", sent, measured)
		}
	})
}

// two are members of an overlay that has settled.
func two(t *testing.T, net *superpeertest.Network) (members []*Member) {
	t.Cleanup(func() { time.Sleep(time.Minute) }) // for memberlist to notice: after Kill, which is called before
	for i := range 2 {
		c := Config{Transport: net.Transport(i), Seed: uint64(i) + 1, Fraction: 0.5}
		if i > 0 {
			c.Join = []string{superpeertest.Address(0)}
		}
		m, err := Join(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
		t.Cleanup(m.Kill)
	}
	time.Sleep(5 * time.Second)
	return members
}
