package batuta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta/internal/net/wire"
)

// A list of addresses to join may stand at every member alike, its own among them: that
// is no refusal to warn of.
func TestAMemberThatJoinsItselfIsNoWarning(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		loud := func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}
		c.startAll(joins(c, "1", "2"), loud)
		c.lists("1", "2")
		c.agree("2")
		for id, n := range c.nodes {
			if s := statusOf(n); out.Len() > 0 || len(s.Refused) > 0 {
				t.Errorf("member %s: refused %v\n%s", id, s.Refused, out.String())
			}
		}
	})
}

// An unauthenticated client that guesses a cluster's name does not learn the right one. The
// log of the member that refuses it has both.
func TestARefusalDoesNotNameTheCluster(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		n := c.start("2", func(cfg *Config) {
			cfg.Cluster, cfg.Logger = "payments", slog.New(slog.NewTextHandler(&out, nil))
		})
		answer := say(t, stranger(t, n), helloFrom("1", "2", func(h *wire.Handshake) { h.Cluster = "guess" }))
		n.Close()
		if answer.Reason != wire.ReasonCluster || !strings.Contains(answer.Detail, "guess") || strings.Contains(fmt.Sprintf("%+v", answer), "payments") {
			t.Errorf("it is answered %+v", answer)
		}
		if !strings.Contains(out.String(), `of cluster \"payments\", member 1 of \"guess\"`) {
			t.Errorf("the log does not name both:\n%s", out.String())
		}
	})
}

// Every line has the id of its member: a process may hold several members, and one log many.
func TestLogLinesSayWhose(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		n := c.start("2", func(cfg *Config) {
			cfg.Cluster, cfg.Logger = "payments", slog.New(slog.NewTextHandler(&out, nil))
		})
		say(t, stranger(t, n), helloFrom("1", "2", nil)) // of another cluster: that is told
		c.agree("2")
		n.Close()
		if strings.Count(out.String(), "\n") < 3 {
			t.Errorf("the log says little:\n%s", out.String())
		}
		for line := range strings.Lines(out.String()) {
			if strings.Count(line, " id=2 cluster=payments") != 1 || strings.Count(line, " id=") != 1 {
				t.Errorf("whose is it? %s", line)
			}
		}
	})
}

// A step in the log has the keys and values of /v1/trace, and no key without a value: a store of logs in
// JSON refuses a token that is a text in one line and an object in the next.
func TestTheLogHasStepsAsTheTraceHas(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		n := c.start("2", func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		c.start("1")
		c.agree("2")
		n.Close()
		for line := range strings.Lines(out.String()) {
			var r map[string]any
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"election", "message", "peer", "token", "why"} {
				if value, given := r[key]; given && (value == "" || value != fmt.Sprint(value)) {
					t.Errorf("%s is %v:\n%s", key, value, line)
				}
			}
			if r["level"] == "DEBUG" && r["msg"] != "metadata changed" && r["election"] == nil {
				t.Errorf("of which election? %s", line)
			}
		}
		for _, want := range []string{`"msg":"sends"`, `"message":"coordinator"`, `"token":"1:2"`, `"why":"it won the election"`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
	})
}

// The metadata of batuta's packages, such as the times of jobs, changes often and is of no use in a log.
func TestOnlyMetadataOfUsersIsLogged(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		n := c.start("2", func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
		for i, pairs := range []map[string]string{{"batuta.ticks": "x"}, {"url": "a"}, {"batuta.ticks": "y"}} {
			if err := n.MergeMeta(t.Context(), pairs); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if lines := strings.Count(out.String(), "metadata changed"); lines != min(i, 1) {
				t.Errorf("after %v the log has %d lines:\n%s", pairs, lines, out.String())
			}
		}
	})
}
