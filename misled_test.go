package batuta

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batuta-dev/batuta/internal/net/security"
)

// ofMember is what n reports of member id.
func ofMember(n *Node, id ID) MemberStatus {
	for _, m := range statusOf(n).Members {
		if m.ID == id {
			return m
		}
	}
	return MemberStatus{}
}

// Under a secret a wrong address in the list is reported as that, and no hash of an id is shown.
func TestAWrongAddressUnderASecret(t *testing.T) {
	for name, tt := range map[string]struct{ found, want, remedy string }{
		"another member's":   {"3", "another member with the same secret, not member 2", "correct the address that it advertises"},
		"of another cluster": {"4", "is of another cluster", "correct its address"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 4)
			secret := withSecret(secretFile(t, security.NewSecret()))
			alone := func(cfg *Config) { secret(cfg); cfg.Peers = nil }
			c.start("3", alone)
			c.start("4", alone, func(cfg *Config) { cfg.Cluster = "another" })
			addr := map[string]string{"3": c.members[2].Addr, "4": c.members[3].Addr}[tt.found]
			one := c.start("1", secret, func(cfg *Config) { cfg.Peers = []Peer{{ID: "2", Addr: addr}} })
			within(t, "the status reports: "+tt.want, func() bool { return strings.Contains(ofMember(one, "2").Refusal, tt.want) })
			got := ofMember(one, "2").Refusal
			if strings.Contains(got, ".batuta") || !strings.Contains(got, tt.remedy) {
				t.Errorf("the status reports %q", got)
			}
		})
	}
}

// A name that does not resolve is logged once and is in the status, until it resolves.
func TestANameThatDoesNotResolveIsReported(t *testing.T) {
	c := newCluster(t, 2)
	_, port, _ := net.SplitHostPort(c.members[1].Addr)
	var known atomic.Bool
	s := newNameServer(t, func(int) []net.IP {
		if known.Load() {
			return []net.IP{net.IPv4(127, 0, 0, 1)}
		}
		return nil
	})
	var out bytes.Buffer
	one := c.start("1", func(cfg *Config) {
		cfg.Peers = []Peer{{ID: "2", Addr: "two.test:" + port}}
		cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
	})
	within(t, "the status names what does not resolve", func() bool {
		got := ofMember(one, "2").Unresolved
		return strings.Contains(got, "lookup two.test") && strings.Contains(got, "correct the address two.test:"+port)
	})
	asked := s.asked.Load()
	within(t, "it is looked up again", func() bool { return s.asked.Load() >= asked+4 })
	known.Store(true)
	c.start("2", func(cfg *Config) { cfg.Peers = []Peer{{ID: "1", Addr: c.members[0].Addr}} })
	c.agree("2")
	if got := ofMember(one, "2").Unresolved; got != "" {
		t.Errorf("the name resolves, and the status reports %q", got)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "does not resolve"); n != 1 || !strings.Contains(out.String(), "name=two.test") {
		t.Errorf("the log has it %d times:\n%s", n, out.String())
	}
}
