package api_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
)

// The health server has the metrics, without a token: those of the API, or its own where there is none.
func TestHealthServerHasMetrics(t *testing.T) {
	for name, withAPI := range map[string]bool{"with an API": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			n := &fakeNode{view: viewOf("5", 8), done: make(chan struct{}), events: []batuta.Event{
				{Kind: batuta.EventLeader, Time: began, View: viewOf("4", 7)},
				{Kind: batuta.EventLost, Time: began, View: batuta.View{Lost: viewOf("4", 7).Token}},
				{Kind: batuta.EventLeader, Time: began.Add(time.Second), View: viewOf("5", 8)},
			}}
			log := slog.New(slog.DiscardHandler)
			var server *api.Server
			listen := func() net.Listener {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			if withAPI {
				server = api.NewServer(n, "", "v1", log)
				server.Expose(shown)
				server.HealthElsewhere()
				go server.Serve(listen())
				defer server.Close(t.Context())
			}
			s, l := api.NewHealthServer(n, "v1", log, server, shown), listen()
			go s.Serve(l)
			defer s.Close(t.Context())
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				code, body, _ := with(t, l.Addr().String(), "GET", "/metrics", "")
				if code != 200 || !strings.Contains(body, `version="v1"`) {
					t.Fatalf("%d %s", code, body)
				}
				if strings.Contains(body, "batuta_failover_seconds_count 1\n") {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the failover is not counted: %s", body)
				}
			}
			if code, _, _ := with(t, l.Addr().String(), "POST", "/metrics", ""); code != 405 {
				t.Errorf("POST gives %d", code)
			}
		})
	}
}
