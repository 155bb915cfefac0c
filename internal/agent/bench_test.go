package agent_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/agent"
)

// BenchmarkStatus asks a real node for its status, client and server in one
// process:
//
//	go test ./internal/agent -run '^$' -bench Status -cpu 1
func BenchmarkStatus(b *testing.B) {
	node, err := batuta.Start(b.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := agent.NewServer(node, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
	go s.Serve(l)
	defer s.Close(b.Context())
	began := time.Now()
	for b.Loop() {
		resp, err := http.Get("http://" + l.Addr().String() + "/v1/status")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		resp.Body.Close()
	}
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "requests/s")
}
