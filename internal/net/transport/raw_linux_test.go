package transport

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// pair is a connection over TCP, both ends.
func pair(t *testing.T) (a, b net.Conn) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = Dial(t.Context(), l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// A nowReader reads as the connection itself does: data, a deadline, and each kind of end.
func TestANowReaderReadsAsTheConnectionDoes(t *testing.T) {
	buf := make([]byte, 8)
	a, b := pair(t)
	r := newNowReader(b)
	if _, ok := r.(*nowReader); !ok {
		t.Fatalf("a connection over TCP is read by a %T", r)
	}
	time.AfterFunc(10*time.Millisecond, func() { a.Write([]byte("123456789")) })
	if n, err := io.ReadFull(r, buf); n != 8 || err != nil || string(buf) != "12345678" {
		t.Errorf("reads %q, %d bytes, %v", buf, n, err)
	}
	if n, err := r.Read(buf); n != 1 || err != nil || buf[0] != '9' {
		t.Errorf("reads %q, %d bytes, %v", buf[:n], n, err)
	}
	b.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := r.Read(buf); n != 0 || !isTimeout(err) {
		t.Errorf("after the deadline it reads %d bytes, %v", n, err)
	}
	b.SetReadDeadline(time.Time{})
	a.Close()
	if n, err := r.Read(buf); n != 0 || err != io.EOF {
		t.Errorf("after the end it reads %d bytes, %v", n, err)
	}
	b.Close()
	if n, err := r.Read(buf); n != 0 || !isClosed(err) {
		t.Errorf("closed it reads %d bytes, %v", n, err)
	}
	a, b = pair(t)
	a.(*net.TCPConn).SetLinger(0)
	a.Close()
	if n, err := newNowReader(b).Read(buf); n != 0 || !errors.Is(err, syscall.ECONNRESET) || !wasTorn(err) {
		t.Errorf("after a reset it reads %d bytes, %v", n, err)
	}
}
