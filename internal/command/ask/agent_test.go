package ask

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// The documents of --output jsonl are one per line, also those of a list. With json a list is one document.
func TestJSONLinesOfAList(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, map[string]string{
			"/v1/members": `[{"id":"1","address":"a","ports":[1,2]},{"id":"2","address":"b"}]`,
			"/v1/jobs":    `[]`,
			"/v1/leader":  `{"leader":"2","epoch":1}`,
		}[r.URL.Path])
	}))
	defer agent.Close()
	for command, want := range map[string]string{
		"members -o jsonl": `{"id":"1","address":"a","ports":[1,2]}` + "\n" + `{"id":"2","address":"b"}` + "\n",
		"members -o json":  `[{"id":"1","address":"a","ports":[1,2]},{"id":"2","address":"b"}]` + "\n",
		"jobs -o jsonl":    "",
		"leader -o jsonl":  `{"leader":"2","epoch":1}` + "\n",
	} {
		var b strings.Builder
		env := cli.Env{Stdout: &b, Lookup: func(string) (string, bool) { return "", false }}
		name, args, _ := strings.Cut(command, " ")
		for _, cmd := range Commands(env) {
			if cmd.Name() != name {
				continue
			}
			cmd.SetArgs(append(strings.Fields(args), "--agent", strings.TrimPrefix(agent.URL, "http://")))
			if err := cmd.ExecuteContext(t.Context()); err != nil || b.String() != want {
				t.Errorf("%s: %v\n%s", command, err, b.String())
			}
		}
	}
}

// An agent with http off has no API. The error names that, not a flag that was not given.
func TestAnAgentWithoutAnAPI(t *testing.T) {
	cmd := newStatusCommand(cli.Env{Stdout: new(strings.Builder), Lookup: func(string) (string, bool) { return "", false }})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--agent", "off"}) // as a file with http: off sets it
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the setting http is off") || !strings.Contains(err.Error(), "--agent HOST:PORT") || cli.CodeOf(err) != cli.Usage {
		t.Errorf("%v", err)
	}
}
