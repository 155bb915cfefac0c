package simulate

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// pipes is a listener of connections without a network, which a test can run in its own time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// A classroom with a slow network takes minutes to load the simulator: no time ends its answer.
func TestTheLabLoadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn), make(chan struct{})}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
		go func() { ended <- (&labCommand{Env: cli.Env{Stdout: io.Discard}}).serve(ctx, l, page) }()

		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l.conns <- there
			return here, nil
		}}}
		answer, err := client.Get("http://127.0.0.1:8080/lab.wasm.gz")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // on its way
		got, err := io.ReadAll(answer.Body)
		if err != nil || len(got) != 1<<20 {
			t.Errorf("after %d bytes: %v", len(got), err)
		}
		client.CloseIdleConnections()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
