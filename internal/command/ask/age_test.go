package ask

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// With --all a frozen member is waited for. That time is no silence of the others.
func TestAgesAreOfTheAnswer(t *testing.T) {
	const waits = time.Second
	mux := http.NewServeMux()
	reply := func(path string, after time.Duration, answer func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(after)
			if err := json.NewEncoder(w).Encode(answer()); err != nil {
				t.Error(err)
			}
		})
	}
	reply("/v1/status", 0, func() any {
		now := api.Stamp{Time: time.Now()}
		return api.Status{ID: "1", Standing: "resigned", StandingSince: now, Since: now, Members: []api.Member{{ID: "1", State: "up", LastSeen: now}}}
	})
	reply("/v1/views", waits, func() any { return []api.MemberView{} })
	reply("/v1/history", 0, func() any { return api.History{} })
	agent := httptest.NewServer(mux)
	defer agent.Close()

	var b strings.Builder
	cmd := newStatusCommand(cli.Env{Stdout: &b, Lookup: func(string) (string, bool) { return "", false }})
	began := time.Now()
	cmd.SetArgs([]string{"--all", "--agent", strings.TrimPrefix(agent.URL, "http://")})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	most := time.Since(began) - waits + time.Millisecond // ages are rounded to that
	ages := regexp.MustCompile(`\(([^ ]+) ago\)|for (\S+)\n|  (\S+) ago\n`).FindAllStringSubmatch(b.String(), -1)
	if len(ages) != 3 {
		t.Fatalf("%d ages, want 3:\n%s", len(ages), b.String())
	}
	for _, m := range ages {
		if d, err := time.ParseDuration(strings.Join(m[1:], "")); err != nil || d > most {
			t.Errorf("%s: %v, want at most %v\n%s", m[0], err, most, b.String())
		}
	}
}
