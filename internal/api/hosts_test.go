package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
)

// asking is one request as it goes over the wire, for a real server.
func asking(t *testing.T, addr, head string) (code int, body string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second)) // a stream that is let through does not end
	if _, err := fmt.Fprint(c, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var said struct{ Error string }
	if resp.StatusCode != http.StatusOK {
		json.NewDecoder(resp.Body).Decode(&said)
	}
	return resp.StatusCode, said.Error
}

// A page at evil.example may have its name resolve to 127.0.0.1: to a browser the
// API is then of the page's own origin.
func TestAPageThatRebindsItsNameIsRefused(t *testing.T) {
	n := &fakeNode{view: viewOf("3", 8), done: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(n, l.Addr().String(), "v1", slog.New(slog.DiscardHandler), "batuta-0.Batuta", "proxy.example.")
	s.Expose(shown)
	go s.Serve(l)
	t.Cleanup(func() { s.Close(t.Context()) })
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	for _, test := range []struct {
		head string
		want int
	}{
		{"GET /v1/status HTTP/1.1\nHost: evil.example", 421},
		{"GET /v1/status HTTP/1.1\nHost: evil.example:" + port, 421},
		{"GET /v1/events HTTP/1.1\nHost: evil.example:" + port, 421},
		{"GET /metrics HTTP/1.1\nHost: 127.0.0.1.evil.example", 421},
		{"GET /healthz HTTP/1.1\nHost: localhost.evil.example", 421},
		{"POST /v1/resign HTTP/1.1\nHost: evil.example\nOrigin: http://evil.example", 421},
		{"POST /v1/resign HTTP/1.1\nHost: evil.example:" + port + "\nOrigin: http://evil.example:" + port + "\nSec-Fetch-Site: same-origin", 421},
		{"DELETE /v1/members/5 HTTP/1.1\nHost: evil.example", 421},
		{"GET http://evil.example/v1/status HTTP/1.1\nHost: 127.0.0.1", 421}, // the request line counts
		{"GET /none HTTP/1.1\nHost: evil.example", 421},

		{"GET /v1/status HTTP/1.1\nHost: " + addr, 200},
		{"GET /v1/status HTTP/1.1\nHost: localhost:" + port, 200},
		{"GET /v1/status HTTP/1.1\nHost: LocalHost", 200},
		{"GET /v1/status HTTP/1.1\nHost: [::1]:" + port, 200},
		{"GET /v1/status HTTP/1.1\nHost: [::1]", 200},
		{"GET /v1/status HTTP/1.1\nHost: 10.0.0.7:7500", 200}, // a probe asks a pod by its address
		{"GET /v1/status HTTP/1.1\nHost: BATUTA-0.batuta:7500", 200},
		{"GET /v1/status HTTP/1.1\nHost: proxy.example", 200},
		{"GET /leader HTTP/1.0", 200}, // an old load balancer's check
		{"POST /v1/resign HTTP/1.1\nHost: " + addr + "\nContent-Length: 0", 200},
		{"POST /v1/resign HTTP/1.1\nHost: " + addr + "\nContent-Length: 0\nOrigin: http://" + addr, 200},
		{"POST /v1/resign HTTP/1.1\nHost: " + addr + "\nContent-Length: 0\nOrigin: http://evil.example", 403},
		{"POST /v1/resign HTTP/1.1\nHost: " + addr + "\nContent-Length: 0\nOrigin: null", 403},
		{"DELETE /v1/members/5 HTTP/1.1\nHost: " + addr + "\nSec-Fetch-Site: cross-site", 403},
	} {
		code, said := asking(t, addr, test.head)
		if code != test.want {
			t.Errorf("%q gives %d (%s), want %d", test.head, code, said, test.want)
		}
		if code == 421 && !strings.Contains(said, "--http-host") {
			t.Errorf("%q: the error %q does not say what to do", test.head, said)
		}
	}
}
