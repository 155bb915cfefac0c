package batuta

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/internal/net/security"
)

// A cluster changes over from nothing to a secret, and from that to certificates, member
// by member. The lead changes by hand-overs alone: when the leader itself starts again,
// and when it comes back.
func TestARunningClusterChangesItsSecurity(t *testing.T) {
	dir, ca := t.TempDir(), authority(t)
	write(t, dir, "ca", ca.Pair())
	c := newCluster(t, 3)
	for _, m := range c.members {
		write(t, dir, string(m.ID), issue(t, ca, member(string(m.ID))))
	}
	secret := secretFile(t, security.NewSecret())
	both := func(c *Config) { withCertificates(dir)(c); c.Security.SecretFile = secret }
	c.startAll(unhurried)
	c.agree("3")
	for _, step := range []struct {
		what     string
		security func(*Config)
		mode     string
	}{
		{"a secret beside nothing", func(c *Config) { c.Security = Security{SecretFile: secret, Plain: true} }, "insecure"},
		{"a secret", withSecret(secret), "secret"},
		{"certificates beside the secret", both, "secret"},
		{"certificates", withCertificates(dir), "tls"},
	} {
		for _, m := range c.members {
			if err := c.nodes[m.ID].Close(); err != nil {
				t.Fatal(err)
			}
			delete(c.nodes, m.ID)
			others := "3"
			if m.ID == "3" {
				others = "2"
			}
			c.agree(ID(others))
			c.rebind(m.ID)
			n := c.start(m.ID, step.security, unhurried)
			c.agree("3")
			if got := statusOf(n).Security; got != step.mode {
				t.Errorf("%s: member %s has %q", step.what, m.ID, got)
			}
			within(t, step.what+": each reaches all", c.whole)
		}
		for id, n := range c.nodes {
			if s := statusOf(n); s.Lost[CauseSilent]+s.Lost[CauseCrashed]+s.Lost[CauseStalled] > 0 {
				t.Errorf("%s: member %s lost leaders by %v", step.what, id, s.Lost)
			}
		}
	}
	// In the end nobody without a certificate gets in.
	c.nodes["1"].Close()
	c.rebind("1")
	stray := c.start("1", withSecret(secret))
	waitRefused(t, stray, "security")
}

// whole reports whether the leader and each other member have a connection to each other. A
// leader that stops before can tell its going to those alone that it reaches; the others
// find out by themselves, and rightly call it a crash. Two followers need none: theirs are
// temporary.
func (c *cluster) whole() bool {
	for id, n := range c.nodes {
		leader := n.Leader().Token.Leader.ID
		apart := func(m MemberStatus) bool {
			return !m.Linked && m.ID != id && (id == leader || m.ID == leader)
		}
		if slices.ContainsFunc(statusOf(n).Members, apart) {
			return false
		}
	}
	return true
}

// A service brings its own certificates, whose names are as its issuer has them.
func TestAServiceBringsItsOwnCertificates(t *testing.T) {
	ca := authority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	c := newCluster(t, 2)
	for _, m := range c.members {
		r := member(string(m.ID))
		own := issue(t, ca, r)
		c.start(m.ID, func(c *Config) {
			c.Security = Security{TLS: &tls.Config{RootCAs: pool,
				GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own, nil },
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil },
			}, IDTemplate: "batuta://{cluster}/{id}"}
		})
	}
	c.agree("2")
	if s := statusOf(c.nodes["2"]); s.Security != "tls" {
		t.Errorf("security %q", s.Security)
	}
	err := Config{Algorithm: c.config("1").Algorithm, Security: Security{TLS: &tls.Config{}}}.Validate()
	if err == nil {
		t.Error("a configuration that believes anybody is good")
	}
}
