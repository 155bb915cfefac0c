package transport

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// acceptor accepts connections. It holds those with an unfinished handshake, and evicts the oldest
// when there are too many. An honest hello arrives together with its connection, so a connection
// that has waited for long is not a member's.
type acceptor struct {
	listener net.Listener
	total    int // unfinished handshakes at a time
	perHost  int // the same, from a single host
	crowded  func()

	mu      sync.Mutex
	waiting []*conn // oldest first
}

// open accepts connections and passes them to accept until the acceptor is shut.
func (a *acceptor) open(ctx context.Context, accept func(net.Conn)) {
	for {
		nc, err := a.listener.Accept()
		if err == nil {
			accept(nc)
			continue
		}
		if isClosed(err) {
			return
		}
		select {
		case <-time.After(acceptPause): // out of file descriptors, most likely
		case <-ctx.Done():
			return
		}
	}
}

// acceptPause is how long to wait when the system cannot accept a connection.
const acceptPause = 20 * time.Millisecond

// enter registers a connection.
func (a *acceptor) enter(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, c)
	same := 0
	oldest := -1
	for i, w := range a.waiting {
		if w.host == c.host {
			if same++; oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case same > a.perHost:
	case len(a.waiting) > a.total:
		oldest = 0
	default:
		return
	}
	a.waiting[oldest].close()
	a.waiting = slices.Delete(a.waiting, oldest, oldest+1)
	a.crowded()
}

// leave removes a connection; it may be called again.
func (a *acceptor) leave(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, c); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
}

// shut closes the port and every connection with an unfinished handshake.
func (a *acceptor) shut() {
	a.listener.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.waiting {
		c.close()
	}
	a.waiting = nil
}

// hostOf returns the peer's host.
func hostOf(c net.Conn) string { return hostIn(c.RemoteAddr().String()) }

// hostIn returns the host of an address, or the whole address if it has no port.
func hostIn(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
