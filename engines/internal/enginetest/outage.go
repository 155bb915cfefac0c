package enginetest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// outage is what the servers of the tests' own share: a lock, the announcement of changes, and a time without answers.
type outage struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	down    bool
	ended   chan struct{} // closed with the test
}

func newOutage() outage { return outage{changed: make(chan struct{}), ended: make(chan struct{})} }

// endWith has the requests that wait, and then the server, end with the test.
func (o *outage) endWith(t testing.TB, s *httptest.Server) {
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(func() { close(o.ended) })
}

// fail stops all answers, until mend is called.
func (o *outage) fail() (mend func()) {
	set := func(down bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.down = down
		o.wake()
	}
	set(true)
	return func() { set(false) }
}

// wake wakes all requests that wait for a change. The caller holds the lock.
func (o *outage) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// hang gives no answer, whatever comes of the connection. The caller does not hold the lock.
func (o *outage) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-o.ended:
	}
}
