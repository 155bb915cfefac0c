package superpeer

import (
	"reflect"
	"sync"
	"testing"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// TestNothingThatIsAskedWaitsForMemberlist holds memberlist's lock, as memberlist does for long on a crowded machine. Readers
// get their answers meanwhile, and the goroutine that owns the Node goes on.
func TestNothingThatIsAskedWaitsForMemberlist(t *testing.T) {
	const patience = 30 * time.Second
	net := superpeertest.NewNetwork(func(int, int) time.Duration { return time.Millisecond })
	m, err := Join(t.Context(), Config{Transport: net.Transport(0), Seed: 1, Round: minRound})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	address := m.Address()
	lock := (*sync.RWMutex)(reflect.ValueOf(m.list).Elem().FieldByName("nodeLock").Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()
	answered := make(chan Status, 1)
	go func() {
		m.SuperPeers()
		m.Clients()
		m.Home()
		m.ID()
		s := m.Status()
		_ = m.call(t.Context(), func(*driver) {})
		answered <- s
	}()
	select {
	case s := <-answered:
		if s.Address != address || address == "" {
			t.Errorf("the address is %q, want %q", s.Address, address)
		}
	case <-time.After(patience):
		t.Fatalf("no answer within %v", patience)
	}
	first := round(t, m)
	for until := time.Now().Add(patience); round(t, m) < first+2*rejoinEvery; time.Sleep(minRound) {
		if time.Now().After(until) {
			t.Fatalf("the node has not gone on for %v", patience)
		}
	}
}

func round(t *testing.T, m *Member) (r rules.Round) {
	t.Helper()
	if err := m.call(t.Context(), func(d *driver) { r = d.round }); err != nil {
		t.Fatal(err)
	}
	return r
}
