package batuta

import (
	"bytes"
	"crypto/tls"
	"path/filepath"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// authorities has a directory's members believe these.
func authorities(t *testing.T, dir string, all ...*security.Authority) {
	t.Helper()
	var text bytes.Buffer
	for _, a := range all {
		cert, _, err := security.PEM(a.Pair())
		if err != nil {
			t.Fatal(err)
		}
		text.Write(cert)
	}
	writePrivate(t, filepath.Join(dir, "ca.pem"), text.String())
}

// An authority makes way for another while the cluster runs, in the steps that
// docs/security.md has: nobody's view changes, and what the old one has issued is worth
// nothing in the end.
func TestAnAuthorityIsReplacedWithoutAStop(t *testing.T) {
	virtually(t, func(t *testing.T) {
		dir, before, after := t.TempDir(), authority(t), authority(t)
		c := newVirtualCluster(t, 3)
		certify := func(by *security.Authority) {
			for _, m := range c.members {
				write(t, dir, string(m.ID), issue(t, by, member(string(m.ID))))
			}
		}
		authorities(t, dir, before)
		certify(before)
		c.startAll(withCertificates(dir))
		token := c.agree("3")
		reload := func(what string) {
			t.Helper()
			for _, m := range c.members {
				if err := c.nodes[m.ID].Reload(t.Context()); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				time.Sleep(10 * time.Second)
			}
			for id, n := range c.nodes {
				if s := statusOf(n); n.Leader().Token != token || len(s.Lost) > 0 {
					t.Errorf("%s: member %s holds %v, and held %v; it lost %v", what, id, n.Leader().Token, token, s.Lost)
				}
			}
			if !c.whole() {
				t.Errorf("%s: the leader does not reach all", what)
			}
		}
		authorities(t, dir, before, after)
		reload("both are believed")
		certify(after)
		reload("certificates of the next are shown")
		authorities(t, dir, after)
		reload("the next alone is believed")

		old := issue(t, before, member("2"))
		conn := tls.Client(stranger(t, c.nodes["3"]), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"batuta/1"}, Certificates: []tls.Certificate{*old}})
		(&besieged{cluster: c, t: t}).turnedAway(conn)
		waitRefused(t, c.nodes["3"], wire.ReasonSecurity)
	})
}

// A connection outlives the certificate that it began with, so that no cluster falls apart
// at an instant that somebody has forgotten. It ends when the other's files are read again,
// and is not made anew until there is a certificate that is good.
func TestACertificateThatExpiresMakesNoConnection(t *testing.T) {
	virtually(t, func(t *testing.T) {
		dir, ca := t.TempDir(), authority(t)
		write(t, dir, "ca", ca.Pair())
		c := newVirtualCluster(t, 3)
		put := func(id ID, life time.Duration) {
			r := member(string(id))
			r.To = time.Now().Add(life)
			write(t, dir, string(id), issue(t, ca, r))
		}
		for _, m := range c.members {
			put(m.ID, 50*time.Minute)
		}
		put("1", time.Minute)
		c.startAll(withCertificates(dir))
		token := c.agree("3")
		time.Sleep(2 * time.Minute)
		if got := c.agree("3"); got != token || c.nodes["1"].Leader().Token != token {
			t.Errorf("the lead went from %v to %v", token, got)
		}

		put("3", 45*time.Minute) // which its node finds by itself
		time.Sleep(reloadEvery + time.Second)
		waitRefused(t, c.nodes["3"], wire.ReasonSecurity)
		if got := c.nodes["2"].Leader().Token; got != token {
			t.Errorf("2 went from %v to %v", token, got)
		}

		put("1", 40*time.Minute)
		time.Sleep(reloadEvery + time.Second)
		c.agree("3")
	})
}
