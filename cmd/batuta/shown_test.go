package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// An agent may run on another machine, in an earlier version, or be none at all:
// what it says does not steer the terminal.
func TestWhatAnAgentSaysIsEscaped(t *testing.T) {
	const bad = `\u001b[31mred\u202e`
	answers := map[string]string{
		"/v1/status":  `{"id":"` + bad + `","cluster":"c","leader":"` + bad + `","token":"1:1","members":[{"id":"1","address":"` + bad + `:1","state":"` + bad + `","refusal":"` + bad + `"}],"guarantee":"` + bad + `"}`,
		"/v1/members": `[{"id":"1","address":"` + bad + `:80","state":"up"}]`,
		"/v1/trace":   `[{"what":"loses","peer":"` + bad + `","why":"` + bad + `"}]`,
		"/v1/history": `{"events":[{"event":"lost","leader":"` + bad + `","epoch":1,"cause":"` + bad + `","records":[{"what":"loses","peer":"` + bad + `","why":"` + bad + `"}]}]}`,
		"/v1/leader":  `{"leader":"` + bad + `"}`,
		"/v1/events":  "",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, ok := answers[r.URL.Path]; {
		case !ok:
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"error":"no `+bad+`"}`)
		case r.URL.Path == "/v1/events":
			io.WriteString(w, `data: {"event":"member","member":"`+bad+`","address":"`+bad+`","state":"`+bad+`"}`+"\n\n")
		default:
			io.WriteString(w, body)
		}
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	for _, command := range []string{"status", "members", "explain", "explain --trace", "leader", "watch", "resign"} {
		var out, errs bytes.Buffer
		run(t.Context(), append(strings.Fields(command), "--http", addr), cli.Env{Stdout: &out, Stderr: &errs, Lookup: func(string) (string, bool) { return "", false }})
		said := out.String() + errs.String()
		if !strings.Contains(said, `\x1b[31mred\u202e`) {
			t.Errorf("%s: the text is not there: %q", command, said)
		}
		for line := range strings.Lines(said) {
			if line = strings.TrimSuffix(line, "\n"); election.Shown(line) != line {
				t.Errorf("%s says %q", command, line)
			}
		}
	}
}
