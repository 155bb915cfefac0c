package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// Who has watched for long and has seen enough, or whose agent ends, is told what was seen.
func TestTuneTellsWhatItHasSeen(t *testing.T) {
	t.Parallel()
	const seen = "others silent for 120.0 ms at most, itself late by 3.0 ms"
	for _, tt := range []struct {
		name  string
		third func(w http.ResponseWriter, interrupt func()) // what happens at the third answer
		code  int
		says  string
	}{
		{"interrupted", func(_ http.ResponseWriter, interrupt func()) { interrupt() }, 0, seen},
		{"what answers is no agent", func(w http.ResponseWriter, _ func()) { http.Error(w, "no", http.StatusInternalServerError) }, 4, seen},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var answers atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if answers.Add(1) == 3 {
				tt.third(w, cancel)
				return
			}
			json.NewEncoder(w).Encode(api.Status{ID: "2", Role: "leader",
				Timing: api.Timing{Heartbeat: "100ms", TMax: "150ms", TProcess: "200ms", T: "500ms"},
				Rhythm: api.Rhythm{RecentSilence: 0.12, RecentStall: 0.003}})
		}))
		defer server.Close()
		var out bytes.Buffer
		code := run(ctx, []string{"tune", "--for", "1h", "--http", strings.TrimPrefix(server.URL, "http://")},
			cli.Env{Stdout: &out, Stderr: &out, Lookup: func(string) (string, bool) { return "", false }})
		if code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", tt.name, code, tt.code, tt.says, out.String())
		}
	}
}
