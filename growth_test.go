package batuta

import (
	"net"
	"runtime"
	"testing"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// What a member holds levels off however often others come and go: a connection
// or a goroutine kept from each would be more than is allowed here.
func TestAMemberDoesNotGrowWhileOthersComeAndGo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer := Config{ID: "2", Listen: l.Addr().String()}
	l.Close()
	quick(&peer)
	n := startAlone(t, func(c *Config) {
		quick(c)
		c.ID, c.Peers, c.DataDir = "1", []Peer{{ID: "2", Addr: peer.Listen}}, stalltest.Dir(t)
	})
	peer.Peers = []Peer{{ID: "1", Addr: n.Addr()}}
	comeAndGo := func(times int) {
		for range times {
			peer.Algorithm = bully.New()
			other, err := Start(t.Context(), peer)
			if err != nil {
				t.Fatal(err)
			}
			waitView(t, n, "it follows 2", func(v View) bool { return v.Token.Leader.ID == "2" })
			other.Close()
			waitView(t, n, "it leads", func(v View) bool { return v.Token.Leader.ID == "1" })
		}
	}
	for len(n.Trace()) < traceSize {
		comeAndGo(20)
	}
	heap, goroutines := held()
	const times, connection = 60, 4 << 10 // bytes, at the least, that a connection holds
	comeAndGo(times)
	later, then := held()
	t.Logf("heap %d then %d, goroutines %d then %d", heap, later, goroutines, then)
	if grown := int(later) - int(heap); grown > times*connection/2 || then > goroutines+times/4 {
		t.Errorf("after %d more comings and goings it holds %d bytes more, and %d goroutines instead of %d", times, grown, then, goroutines)
	}
}

// held is what lives, once what is on its way out is gone.
func held() (heap uint64, goroutines int) {
	heap = 1 << 62
	for range 5 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = min(heap, m.HeapAlloc)
	}
	return heap, runtime.NumGoroutine()
}

func startAlone(t *testing.T, change func(*Config)) *Node {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Algorithm: bully.New()}
	change(&cfg)
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}
