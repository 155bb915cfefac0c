package batuta

import (
	"errors"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

func url(value string) map[string]string { return map[string]string{"url": value} }

// A process that publishes nothing takes back what the one before it published, and no other
// can have it publish anything.
func TestMetaDiesWithItsProcess(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll(func(cfg *Config) { cfg.Meta = url("http://" + string(cfg.ID)) })
		c.agree("3")
		of := func(id ID) map[string]string {
			for _, m := range statusOf(c.nodes["2"]).Members {
				if m.ID == id {
					return m.Meta
				}
			}
			return nil
		}
		within(t, "2 knows what 1 tells", func() bool { return of("1")["url"] == "http://1" })
		c.kill("1")
		c.rebind("1")
		c.start("1")
		within(t, "2 knows that 1 tells nothing any more", func() bool { return len(of("1")) == 0 })
		c.agree("3")
		var told []Event
		for ev, err := range c.nodes["2"].Events(t.Context()) {
			if err != nil || ev.Kind == EventLeader {
				if ev.View.Meta["url"] != "http://3" {
					t.Errorf("the first event is %+v", ev)
				}
				told = append(told, ev)
				break
			}
		}
		if len(told) != 1 {
			t.Error("no leader event")
		}
	})
}

func TestMetaIsBounded(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 1)
		cfg := c.config("1")
		cfg.Meta = url(strings.Repeat("x", election.MaxMetaBytes))
		if err := cfg.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "1027 bytes of keys and values: at most 1024") {
			t.Errorf("got %v", err)
		}
		n := c.start("1")
		if err := n.SetMeta(t.Context(), url("a\nb")); err == nil {
			t.Error("a value with a line break is taken")
		}
		given := url("a")
		if err := n.SetMeta(t.Context(), given); err != nil {
			t.Fatal(err)
		}
		if err := n.MergeMeta(t.Context(), map[string]string{"batuta.tick.a": "1", "batuta.tick.b": "2"}); err != nil {
			t.Fatal(err)
		}
		given["batuta.tick.a"] = ""
		if err := n.SetMeta(t.Context(), given); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(n).Members[0].Meta; len(got) != 2 || got["url"] != "a" || got["batuta.tick.b"] != "2" {
			t.Errorf("it tells %q: what another package published goes with SetMeta, or what was removed stays", got)
		}
		given["url"] = "b"
		if got := statusOf(n).Members[0].Meta["url"]; got != "a" {
			t.Errorf("it tells %q: what was given is not copied", got)
		}
	})
}
