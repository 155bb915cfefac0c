package api_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// served is an API under a flood, and its log.
type served struct {
	addr string
	log  *safeBuffer
}

// ask sends a request, and bytes that are none.
func (s served) ask(t *testing.T, change func(*http.Request)) {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+s.addr+"/"+strings.Repeat("x", 8<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	change(req)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	if resp.Body.Close(); resp.StatusCode < 400 {
		t.Fatalf("%v gives %d", req.Header, resp.StatusCode)
	}
}

// flood sends n times what a client without a token can send.
func (s served) flood(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		s.ask(t, func(r *http.Request) { r.Header.Set("Authorization", fmt.Sprintf("Bearer %020d", i)) })
		s.ask(t, func(r *http.Request) { r.Host = fmt.Sprintf("host-%d.example", i) })
		s.ask(t, func(r *http.Request) { r.Header.Set("Origin", fmt.Sprintf("http://host-%d.example", i)) })
		s.ask(t, func(r *http.Request) { r.Method = fmt.Sprintf("M%d", i) })
	}
	for range n / 10 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("\x16\x03\x01 this is no request\r\n\r\n"))
		io.Copy(io.Discard, c)
		c.Close()
	}
}

// An unauthenticated client cannot fill the disk: the log has one line for each kind of
// refusal, however often it asks and however long what it asks for is. The health listener
// logs none, and an unknown path is none.
func TestAFloodOfRequestsIsAFewLinesOfTheLog(t *testing.T) {
	_, _, _, tokens, _ := guarded(t)
	node := func() *fakeNode { return &fakeNode{view: viewOf("3", 8), done: make(chan struct{})} }
	for _, test := range []struct {
		name  string
		lines int // host, origin, and token
		serve func(l net.Listener, log *slog.Logger)
	}{
		{"a member's API", 3, func(l net.Listener, log *slog.Logger) {
			s := api.NewServer(node(), "127.0.0.1:1", "v1", log)
			s.Authorize(tokens)
			s.Serve(l)
		}},
		{"a member's API without tokens", 2, func(l net.Listener, log *slog.Logger) {
			api.NewServer(node(), "127.0.0.1:1", "v1", log).Serve(l)
		}},
		{"a member's health listener", 0, func(l net.Listener, log *slog.Logger) {
			api.NewHealthServer(node(), "v1", log, nil, shown).Serve(l)
		}},
		{"a super peer's API", 3, func(l net.Listener, log *slog.Logger) {
			h, _ := api.Guarded(http.NotFoundHandler(), tokens, log)
			api.GuardedServer(h, log).Serve(l)
		}},
		{"a super peer's health listener", 0, func(l net.Listener, log *slog.Logger) {
			api.GuardedServer(http.NotFoundHandler(), log).Serve(l)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := served{l.Addr().String(), &safeBuffer{}}
			ended, began := make(chan struct{}), time.Now()
			go func() {
				defer close(ended)
				test.serve(l, slog.New(slog.NewTextHandler(s.log, nil)))
			}()
			s.flood(t, fulltest.Size(200, 5_000))
			text, minutes := s.log.String(), 1+int(time.Since(began)/time.Minute)
			lines := strings.Count(text, "\n")
			if lines < test.lines || lines > test.lines*minutes || len(text) > 1_000*lines {
				t.Errorf("%d lines of %d bytes, want %d lines a minute:\n%.4000s", lines, len(text), test.lines, text)
			}
			l.Close()
			<-ended
		})
	}
}
