package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A frozen agent has to be looked at, and not started.
func TestAFrozenAgentIsNotToBeStarted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts connections, as the kernel does for a process that is stopped
	c, err := NewClient(l.Addr().String(), Access{})
	if err != nil {
		t.Fatal(err)
	}
	c.http.Transport.(*http.Transport).ResponseHeaderTimeout = 10 * time.Millisecond
	if err := c.Get(t.Context(), "/v1/status", nil); err == nil || !strings.Contains(err.Error(), "headers; its process is frozen or overloaded") {
		t.Error(err)
	}
}

// stuck is the client of an agent that stops in the middle of each answer, after begin.
func stuck(t *testing.T, begin func(http.ResponseWriter)) *Client {
	t.Helper()
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		<-hold
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hold) })
	c, err := NewClient(server.Listener.Addr().String(), Access{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A user that ends a command during a call reads that, and not which context ended.
func TestAnInterruptedCallIsReportedAsSuch(t *testing.T) {
	for _, begins := range []bool{false, true} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		c := stuck(t, func(w http.ResponseWriter) {
			if begins {
				w.Write([]byte("{"))
				w.(http.Flusher).Flush()
			}
			interrupt(errors.New("terminated signal received"))
		})
		want := "interrupted before agent " + c.addr + " answered: terminated signal received"
		if err := c.Get(ctx, "/v1/leader", nil); err == nil || err.Error() != want {
			t.Errorf("the answer begins: %v: %v; want %s", begins, err, want)
		}
	}
}

// An agent that was not connected to in the time of a call may be off, or behind a firewall: it is not
// reported as frozen.
func TestAnAgentThatIsNotReachedInTimeIsNotFrozen(t *testing.T) {
	c, err := NewClient("127.0.0.1:1", Access{})
	if err != nil {
		t.Fatal(err)
	}
	c.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Get(ctx, "/v1/status", nil); err == nil || strings.Contains(err.Error(), "frozen") {
		t.Error(err)
	}
}

// An agent that is stopped in the middle of its answer does not block a command forever.
func TestAHalfAnswerIsNotAwaitedForEver(t *testing.T) {
	c := stuck(t, func(w http.ResponseWriter) {
		w.Write([]byte(`{"id":`))
		w.(http.Flusher).Flush()
	})
	for c.whole = 50 * time.Millisecond; ; c.whole *= 4 { // a stall of this machine may be longer
		err := c.Get(t.Context(), "/v1/status", nil)
		if err != nil && strings.Contains(err.Error(), "has answered in part") {
			return
		}
		if err == nil || c.whole > 10*time.Second {
			t.Fatal(err)
		}
	}
}
