package api_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
)

// benched starts a node with its API, and gives a client of it, until the benchmark ends.
func benched(b *testing.B, config batuta.Config) (node *batuta.Node, client *api.Client, addr string) {
	node, err := batuta.Start(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { node.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr = l.Addr().String()
	s := api.NewServer(node, addr, "v1", slog.New(slog.DiscardHandler))
	go s.Serve(l)
	b.Cleanup(func() { s.Close(context.Background()) })
	if client, err = api.NewClient(addr, api.Access{}); err != nil {
		b.Fatal(err)
	}
	return node, client, addr
}

// BenchmarkStatus asks a real node for its status, client and server in one
// process:
//
//	go test ./internal/api -run '^$' -bench Status -cpu 1
func BenchmarkStatus(b *testing.B) {
	_, _, addr := benched(b, batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	began := time.Now()
	for b.Loop() {
		resp, err := http.Get("http://" + addr + "/v1/status")
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

// BenchmarkRenew renews a candidacy that leads, over a connection that stays:
//
//	go test ./internal/api -run '^$' -bench Renew
func BenchmarkRenew(b *testing.B) {
	_, client, _ := benched(b, batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	ask := candidacy.Request{TTL: "1m"}
	stand := func() candidacy.Turn {
		t, err := client.Stand(b.Context(), "payroll", ask)
		if err != nil {
			b.Fatal(err)
		}
		ask.Candidacy = t.Candidacy
		return t
	}
	for stand().State != candidacy.Leading {
		time.Sleep(time.Millisecond)
	}
	for b.Loop() {
		stand()
	}
	if err := client.EndCandidacy(b.Context(), "payroll", ask.Candidacy); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkResign is how long after a node is asked to resign it has, asked by a call
// and over HTTP:
//
//	go test ./internal/api -run '^$' -bench Resign -benchtime 300x
func BenchmarkResign(b *testing.B) {
	node, client, _ := benched(b, batuta.Config{ID: "1", Listen: "127.0.0.1:0", DataDir: b.TempDir(), Algorithm: bully.New()})
	var answer any
	for _, way := range []struct {
		name   string
		resign func() error
	}{
		{"call", func() error { return node.Resign(b.Context()) }},
		{"http", func() error { return client.Call(b.Context(), "POST", "/v1/resign", nil, &answer) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				for v := range node.Watch(b.Context()) {
					if v.Defined() {
						break
					}
				}
				began := time.Now()
				b.StartTimer()
				if err := way.resign(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				took = append(took, node.Leader().Since.Sub(began))
				if err := node.Campaign(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
		})
	}
}
