package batuta

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
			if s := n.Status(); out.Len() > 0 || len(s.Refused) > 0 {
				t.Errorf("member %s: refused %v\n%s", id, s.Refused, out.String())
			}
		}
	})
}

// Every line says whose it is: a process may hold several members, and one log many.
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
