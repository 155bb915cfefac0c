package batuta

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// A member that reaches no other leads nothing, and logs every ten seconds what it waits for.
func TestANewcomerThatReachesNobodyFoundsNothing(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		n := c.start("2", joins(c, "1"), func(cfg *Config) {
			cfg.Bootstrap, cfg.Logger = false, slog.New(slog.NewTextHandler(&out, nil))
		})
		time.Sleep(time.Minute) // virtual
		s := statusOf(n)
		if s.Role != RoleUndefined || s.Standing != StandingJoining || !strings.Contains(s.StandingWhy, "no member answers at "+c.members[0].Addr) {
			t.Errorf("role %s, standing %s: %q", s.Role, s.Standing, s.StandingWhy)
		}
		hasNotClaimed(t, n)
		c.start("1", func(cfg *Config) { cfg.Peers = nil })
		c.agree("2")
		time.Sleep(time.Minute)
		n.Close()
		if said := strings.Count(out.String(), "Config.Bootstrap, once"); said != 7 { // in the log of a standing, after 2 s and every 10 s
			t.Errorf("it says %d times what it waits for:\n%s", said, out.String())
		}
	})
}

// Two that reach each other found nothing either, until one is told to; and that one,
// once it has been a member, needs telling no more.
func TestOneIsToldToFoundTheCluster(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		plain := func(cfg *Config) { cfg.Bootstrap = false }
		dir := stalltest.Dir(t)
		keeps := func(cfg *Config) { cfg.DataDir = dir }
		c.start("1", joins(c, "1", "2", "3"), plain)
		two := c.start("2", joins(c, "1", "2", "3"), plain)
		c.lists("1", "2")
		time.Sleep(time.Minute)
		if s := statusOf(two); s.Token.Defined() || !strings.Contains(s.StandingWhy, "2 members know each other, none") {
			t.Errorf("it has %v, and says %q", s.Token, s.StandingWhy)
		}
		c.start("3", joins(c, "1", "2", "3"), keeps)
		c.agree("3")
		for id, n := range c.nodes {
			n.Close()
			delete(c.nodes, id)
		}
		c.rebind("3")
		c.start("3", joins(c, "1", "2"), plain, keeps)
		c.agree("3")
	})
}

func TestNobodyLeadsBeforeEnoughKnowEachOther(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		expects := func(cfg *Config) { cfg.Bootstrap, cfg.Expect = false, 3 }
		one := c.start("1", joins(c, "1", "2", "3"), expects)
		c.start("2", joins(c, "1", "2", "3"), expects)
		c.lists("1", "2")
		time.Sleep(time.Minute)
		if s := statusOf(one); s.Token.Defined() || !strings.Contains(s.StandingWhy, "until 3 members know each other (Config.Expect): by now it knows 2") {
			t.Errorf("it has %v, and says %q", s.Token, s.StandingWhy)
		}
		c.start("3", joins(c, "1", "2", "3"), expects)
		c.agree("3")
		c.kill("3")
		c.kill("2")
		c.agree("1") // it has been founded: the rule is for the first of all elections
	})
}

// A fixed list needs neither: one of three that is alone leads.
func TestAFixedListLeadsAlone(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.start("1", func(cfg *Config) { cfg.Join = []string{c.members[1].Addr} })
		c.agree("1")
	})
}

func TestFoundingThatCannotBe(t *testing.T) {
	for want, c := range map[string]Config{
		"Config.Expect -1: give 1 to": {Expect: -1},
		"give 1 to 4096":              {Expect: 5000},
		"leave one of them out":       {Expect: 2, Bootstrap: true},
		"founds nothing":              {Observer: true, Bootstrap: true},
		"the list has 2":              {ID: "1", Expect: 3, Peers: []Peer{{ID: "1", Addr: "127.0.0.1:7400"}, {ID: "2", Addr: "127.0.0.1:7402"}}},
	} {
		c.Algorithm = bully.New()
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
