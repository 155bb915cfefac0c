package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// ErrRefused means that the host exists, but no process listens at the address.
var ErrRefused = errors.New("connection refused")

// Listen begins to accept TCP connections at addr, HOST:PORT.
func Listen(addr string) (net.Listener, error) {
	var c net.ListenConfig
	c.KeepAlive = -1 // heartbeats detect more, and sooner
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", addr)
}

// Dial is a [Dialer] over TCP. It sends small frames at once: Go sets TCP_NODELAY.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("dial %s: %w", addr, ErrRefused)
	}
	return c, err
}

// nowWriter writes what the kernel accepts at once, without waiting for room. This way a frame
// needs neither a second goroutine nor a context switch.
type nowWriter struct {
	raw  syscall.RawConn
	fill func(fd uintptr) bool
	data []byte
	n    int
	err  error
}

// newNowWriter returns nil if c has no file descriptor of its own.
func newNowWriter(c net.Conn) *nowWriter {
	sc, ok := c.(syscall.Conn)
	if !ok || !canWriteNow {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &nowWriter{raw: raw}
	w.fill = w.try
	return w
}

// write returns the number of bytes accepted, which may be 0.
func (w *nowWriter) write(p []byte) (int, error) {
	w.data, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.fill)
	w.data = nil
	return w.n, errors.Join(err, w.err)
}

// nowReader reads by the calls that nowWriter writes by.
type nowReader struct {
	raw  syscall.RawConn
	fill func(fd uintptr) bool
	data []byte
	n    int
	err  error
}

// newNowReader gives c itself when it is not TCP's own connection.
func newNowReader(c net.Conn) io.Reader {
	tcp, ok := c.(*net.TCPConn)
	if !ok || !canWriteNow {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	r := &nowReader{raw: raw}
	r.fill = r.try
	return r
}

// Read implements [io.Reader].
func (r *nowReader) Read(p []byte) (int, error) {
	r.data, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.fill)
	err = cmp.Or(err, r.err)
	r.data = nil
	if err == nil && r.n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return r.n, err
}
