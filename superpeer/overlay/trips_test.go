package overlay

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/superpeer"
	"github.com/batuta-dev/batuta/superpeer/overlay/fabric"
)

// TestALatePacketDoesNotDecide measures one round trip again and again while one packet of ten is late. One
// sample would be wrong in 19 of 100 cases.
func TestALatePacketDoesNotDecide(t *testing.T) {
	const rtt, measured, wrong = 20 * time.Millisecond, 100, 5
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for memberlist to notice
		net := fabric.New(func(int, int) time.Duration { return rtt })
		members := make([]*Member, 2)
		for i := range members {
			c := Config{Transport: net.Transport(i), Seed: uint64(i) + 1, Fraction: 0.5}
			if i > 0 {
				c.Join = []string{fabric.Address(0)}
			}
			m, err := Join(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			members[i] = m
			defer m.Kill()
		}
		time.Sleep(5 * time.Second)
		var packets atomic.Uint64
		net.Disturb(func(int, int) (bool, time.Duration) {
			if superpeer.Mix(packets.Add(1))%10 == 0 {
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
