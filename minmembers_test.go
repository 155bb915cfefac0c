package batuta

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

func TestMinMembers(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		two := func(cfg *Config) { cfg.MinMembers = 2 }
		c.start("1", two)
		c.start("2", two)
		leader := c.start("3", two)
		c.agree("3")
		c.kill("1")
		time.Sleep(time.Minute) // virtual
		if s := statusOf(leader); s.Role != RoleLeader {
			t.Errorf("two of three are left, and the leader is %s: %s", s.Role, s.StandingWhy)
		}
		c.kill("2")
		time.Sleep(leader.cfg.timing().T() + 2*leader.cfg.Heartbeat)
		if s := statusOf(leader); s.Token.Defined() || s.Standing != StandingFew || !strings.Contains(s.StandingWhy, "fewer than 2 members") {
			t.Errorf("alone it has %v, standing %s: %q", s.Token, s.Standing, s.StandingWhy)
		}
		c.rebind("1")
		c.start("1", two)
		c.agree("3")
	})
}

func TestMinMembersThatMakeNoSense(t *testing.T) {
	valid := Config{ID: "1", Algorithm: bully.New(), MinMembers: 2, Peers: []Peer{{ID: "2", Addr: "127.0.0.1:7402"}}}
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"no member would ever lead":            func(c *Config) { c.MinMembers = 3 },
		"give 1 to 4096":                       func(c *Config) { c.MinMembers = -1 },
		"Config.MinMembers 5000: give 1 to 40": func(c *Config) { c.MinMembers = 5000 },
	} {
		c := valid
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrConfig) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
