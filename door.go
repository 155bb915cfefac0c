package batuta

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// door is where connections come in. It holds those whose handshake is not over
// yet, and shows the oldest of them out when they grow too many: an honest hello
// arrives together with its connection, so that who has waited long is a stranger.
type door struct {
	listener net.Listener
	total    int // strangers at a time
	perHost  int // of them, from one host
	crowded  func()

	mu      sync.Mutex
	waiting []*conn // oldest first
}

// open accepts connections and hands them on until the door is shut.
func (d *door) open(ctx context.Context, accept func(net.Conn)) {
	for {
		nc, err := d.listener.Accept()
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

// enter counts a connection in.
func (d *door) enter(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, c)
	same := 0
	oldest := -1
	for i, w := range d.waiting {
		if w.host == c.host {
			if same++; oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case same > d.perHost:
	case len(d.waiting) > d.total:
		oldest = 0
	default:
		return
	}
	d.waiting[oldest].close()
	d.waiting = slices.Delete(d.waiting, oldest, oldest+1)
	d.crowded()
}

// leave counts a connection out; again is no harm.
func (d *door) leave(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, c); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
}

// shut closes the port and shows all strangers out.
func (d *door) shut() {
	d.listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.waiting {
		c.close()
	}
	d.waiting = nil
}

// hostOf is the host at the other end of a connection.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
