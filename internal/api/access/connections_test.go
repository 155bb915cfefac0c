package access_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api/access"
)

// A client has a bound of its own, so that others find connections. One that has ended counts no more.
func TestEachClientHasItsConnections(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ConnState: access.EachClient(4), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go s.Serve(l)
	defer s.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	serves := func(c net.Conn) bool {
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return false
		}
		_, err := c.Read(make([]byte, 100))
		return err == nil
	}
	var greedy []net.Conn
	for i := range 20 {
		c := dial("127.0.0.1")
		if serves(c) != (i < 4) {
			t.Fatalf("connection %d of one address, of 4: served %v", i, i >= 4)
		}
		greedy = append(greedy, c)
	}
	for range 4 {
		if !serves(dial("127.0.0.2")) {
			t.Fatal("another address is not served")
		}
	}
	greedy[0].Close()
	for began := time.Now(); !serves(dial("127.0.0.1")); {
		if time.Since(began) > time.Minute {
			t.Fatal("the address has no connection more after one has ended")
		}
	}
}

// A Unix socket has the bound too, and its clients keep their user.
func TestASocketIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := access.Load(file(t, "user:0 operate\n"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan access.Role, 100)
	s := &http.Server{ConnContext: access.Connection, ConnState: access.EachClient(2), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g, _ := tokens.Of(r)
		done <- g.Role
	})}
	go s.Serve(l)
	defer s.Close()
	for i := range 6 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 100)); (err == nil) != (i < 2) {
			t.Fatalf("connection %d of one user, of 2: %v", i, err)
		}
	}
	if role := <-done; role != access.Operate && os.Getuid() == 0 {
		t.Errorf("the user of the socket has role %v", role)
	}
}
