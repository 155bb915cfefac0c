package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// Bounds of a connection, in bytes.
const (
	readBuffer = 4 << 10
	maxQueue   = 2 * wire.MaxFrame // bytes waiting for a slow reader; more closes the connection
)

var errOverflow = errors.New("the other end does not read")

// conn is a connection: a reader goroutine that takes frames off it, and writes that are sent at
// once, or by a goroutine that lives only while the kernel has no room.
type conn struct {
	dialed bool        // by this side
	to     election.ID // dialed: the intended member
	host   string
	bounds bounds
	live   *sync.WaitGroup // goroutines of the node's connections

	counters *network.Counters

	// Only in a turn of the node.
	peer            *peer // once the handshake is over; nil again when it is dropped
	rank            election.Rank
	incarnation     uint64
	address         string // where the peer listens, by its handshake
	order           uint64 // grows with each established connection
	hasQueuedFrames bool   // a dial with frames to send after the hello

	mu        sync.Mutex
	net       net.Conn // nil until the dial has succeeded
	now       *nowWriter
	tls       *tls.Conn // over net, after its handshake; nil: plain
	ready     bool      // frames can be written; until then they are appended to early
	early     []byte
	queue     []byte
	flushing  bool // a goroutine empties the queue
	broken    bool // no more is written; what has arrived is still read
	finishing bool // close the writing half once the queue is empty
	closed    bool
	retired   bool      // a different connection is in use; end when idle
	until     time.Time // the handshake's deadline; zero once it is over
	deadline  bool      // a read deadline is set

	// Only for the reader.
	in   io.Reader // net, or tls over it
	buf  []byte
	r, w int
}

// bounds are the deadlines of a connection.
type bounds struct {
	frame time.Duration // for a frame that has begun to arrive
	write time.Duration // for the peer to receive
	idle  time.Duration // for a retired connection
}

// connect sets the stream of the connection. Until the handshake is over no read waits beyond
// until.
func (c *conn) connect(nc net.Conn, until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		nc.Close()
		return net.ErrClosed
	}
	c.net, c.now, c.tls, c.in, c.until = nc, newNowWriter(nc), nil, newNowReader(nc), until
	c.buf, c.r, c.w = make([]byte, readBuffer), 0, 0
	return c.armLocked(false)
}

// await sets the deadline for what arrives next; zero: the handshake is over.
func (c *conn) await(until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
	return c.armLocked(false)
}

// release writes the frames that were queued before the handshake, and enables direct writes. The
// reader detects errors.
func (c *conn) release() {
	for {
		c.mu.Lock()
		early, t, nc := c.early, c.tls, c.net
		if c.early = nil; len(early) == 0 {
			c.ready = true
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.write(t, nc, early)
	}
}

// disconnect drops a stream that ended before the handshake did, to dial again. Frames that were
// written to it are lost, except the hello.
func (c *conn) disconnect(hello []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net != nil {
		c.net.Close()
	}
	if c.ready || len(c.early) == 0 {
		c.early = hello
	}
	c.net, c.now, c.tls, c.ready, c.queue, c.flushing, c.broken, c.deadline = nil, nil, nil, false, nil, false, false, false
}

// retire makes the connection end once it is idle, or cancels that.
func (c *conn) retire(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired != on && !c.closed {
		c.retired = on
		c.armLocked(false)
	}
}

// armLocked sets the read deadline that now applies; partial: a frame has begun to arrive.
func (c *conn) armLocked(partial bool) error {
	var at time.Time
	switch {
	case !c.until.IsZero():
		at = c.until
	case partial:
		at = time.Now().Add(c.bounds.frame)
	case c.retired:
		at = time.Now().Add(c.bounds.idle)
	case !c.deadline:
		return nil
	}
	c.deadline = !at.IsZero()
	return c.net.SetReadDeadline(at)
}

func (c *conn) arm(partial bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armLocked(partial)
}

// lastLook is how long a retired connection is read after its deadline.
const lastLook = 10 * time.Millisecond

// looksAgain makes an idle retired connection be read once more: a process that was stopped finds
// its deadline passed, and frames that have arrived meanwhile.
func (c *conn) looksAgain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.retired || !c.until.IsZero() || c.closed {
		return false
	}
	return c.net.SetReadDeadline(time.Now().Add(lastLook)) == nil
}

// read returns the body of the next frame; it is valid until the next read.
func (c *conn) read(limit int) ([]byte, error) {
	partial, last := false, false
	for {
		need := wire.LengthSize
		if c.w-c.r >= wire.LengthSize {
			size, err := wire.FrameSize(c.buf[c.r:c.w], limit)
			if err != nil {
				return nil, err
			}
			need += size
			if c.w-c.r >= need {
				body := c.buf[c.r+wire.LengthSize : c.r+need]
				c.r += need
				return body, nil
			}
		}
		c.makeRoom(need)
		if begun := c.w > c.r; begun && !partial || !begun && !last {
			if err := c.arm(begun); err != nil {
				return nil, err
			}
			partial = begun
		}
		n, err := c.in.Read(c.buf[c.w:])
		c.w += n
		if err != nil && n == 0 {
			if !last && isTimeout(err) && c.w == c.r && c.looksAgain() {
				last = true
				continue
			}
			return nil, c.readError(err)
		}
	}
}

// readError distinguishes an incomplete frame from a connection that is idle.
func (c *conn) readError(err error) error {
	begun := c.w > c.r
	switch {
	case isTimeout(err) && begun:
		return wire.Bad(wire.ReasonSlow, "a frame has begun and does not end within %v", c.bounds.frame)
	case err == io.EOF && begun:
		return io.ErrUnexpectedEOF
	}
	return err
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// makeRoom grows the buffer towards need bytes only as they arrive, so that a length without data
// allocates nothing.
func (c *conn) makeRoom(need int) {
	if c.r == c.w {
		c.r, c.w = 0, 0
		if len(c.buf) > readBuffer {
			c.buf = make([]byte, readBuffer)
		}
	}
	if c.r > 0 && c.w == len(c.buf) {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.buf) {
		c.buf = append(c.buf, make([]byte, min(len(c.buf), need))...)
	}
}

// send writes a frame, now or as soon as there is room. It never waits and does not keep frame. A
// connection with more than maxQueue bytes waiting is closed.
func (c *conn) send(frame []byte) error {
	c.mu.Lock()
	if c.closed || c.broken || c.finishing {
		c.mu.Unlock()
		return net.ErrClosed
	}
	if !c.ready {
		defer c.mu.Unlock()
		if len(c.early)+len(frame) > maxQueue {
			c.closeLocked()
			return errOverflow
		}
		c.early = append(c.early, frame...)
		return nil
	}
	t, nc := c.tls, c.net
	c.mu.Unlock()
	return c.write(t, nc, frame)
}

// write writes b: by TLS if that is in use.
func (c *conn) write(t *tls.Conn, nc net.Conn, b []byte) error {
	if t == nil {
		return c.put(nc, b)
	}
	_, err := t.Write(b)
	return err
}

// put writes to the network: now, or as soon as there is room.
func (c *conn) put(nc net.Conn, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.broken || c.net != nc {
		return net.ErrClosed
	}
	c.counters.Sent(len(b))
	if !c.flushing && c.now != nil {
		n, err := c.now.write(b)
		if err != nil {
			c.broken = true // the reader detects the end after the data that has arrived
			return err
		}
		if n == len(b) {
			return nil
		}
		b = b[n:]
	}
	if len(c.queue)+len(b) > maxQueue {
		c.closeLocked()
		return errOverflow
	}
	c.queue = append(c.queue, b...)
	if !c.flushing {
		c.flushing = true
		c.live.Go(func() { c.flush(nc) })
	}
	return nil
}

// flush empties the queue. It ends with the connection at the latest.
func (c *conn) flush(nc net.Conn) {
	for {
		c.mu.Lock()
		if c.net != nc { // it is being dialed again
			c.mu.Unlock()
			return
		}
		if len(c.queue) == 0 || c.closed || c.broken {
			c.queue, c.flushing = nil, false
			if c.finishing && !c.closed {
				c.closeWriteLocked()
			}
			c.mu.Unlock()
			return
		}
		out := c.queue
		c.queue = nil
		c.mu.Unlock()
		nc.SetWriteDeadline(time.Now().Add(c.bounds.write))
		_, err := nc.Write(out)
		nc.SetWriteDeadline(time.Time{})
		if err != nil {
			c.mu.Lock()
			if c.net == nc {
				c.broken = true
				if isTimeout(err) {
					c.closeLocked()
				}
			}
			c.mu.Unlock()
		}
	}
}

// finish closes the writing half once everything is written, and then gives the peer wait to close
// its half.
func (c *conn) finish(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.finishing {
		return
	}
	if c.net == nil {
		c.closeLocked()
		return
	}
	c.finishing = true
	c.until = time.Now().Add(wait)
	c.armLocked(false)
	if !c.flushing {
		c.closeWriteLocked()
	}
}

func (c *conn) closeWriteLocked() {
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		c.closeLocked()
	}
}

// remote returns the peer's address, for logs.
func (c *conn) remote() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net == nil {
		return ""
	}
	return c.net.RemoteAddr().String()
}

// close ends the connection at once; its reader and writer return.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
}

func (c *conn) closeLocked() {
	if c.closed {
		return
	}
	c.closed = true
	if c.net != nil {
		c.net.Close()
	}
}

// incoming is what a connection goroutine brings into a turn.
type incoming struct {
	conn      *conn
	handshake *wire.Handshake   // a hello, or the answer to ours
	message   *election.Message // of an established connection
	err       error             // the connection has ended, or could not be made
}
