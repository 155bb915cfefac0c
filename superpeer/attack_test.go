package superpeer_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// secretFile writes secrets as a file holds them, the one in use first.
func secretFile(t *testing.T, path string, secrets ...string) {
	t.Helper()
	text := ""
	for _, s := range secrets {
		text += s + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tap is a transport on whose wire somebody listens.
type tap struct {
	*superpeertest.Transport
	mu    sync.Mutex
	heard []packet
}

type packet struct {
	raw []byte
	to  string
}

func (t *tap) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	t.mu.Lock()
	t.heard = append(t.heard, packet{append([]byte(nil), b...), a.Addr})
	t.mu.Unlock()
	return t.Transport.WriteToAddress(b, a)
}

// TestWhatIsRecordedDoesNothingWhenItIsSentAgain: somebody without the secret records all that a
// super peer and a client send, and sends it again and again, to those for whom it was and to others.
func TestWhatIsRecordedDoesNothingWhenItIsSentAgain(t *testing.T) {
	base := superpeer.Config{Fraction: 0.25, Capacity: 10, Secret: filepath.Join(t.TempDir(), "secret")}
	secretFile(t, base.Secret, security.NewSecret())
	inVirtualTime(t, 0, base, func(c *crowd) {
		var taps []*tap
		for i := range 8 {
			wire := &tap{Transport: c.net.Transport(i)}
			taps = append(taps, wire)
			b := base
			b.Transport = wire
			c.join(i, b)
		}
		c.calm()
		before := c.members[0].Status().Traffic
		stranger := c.net.Transport(99)
		for range 10 {
			for _, wire := range taps {
				wire.mu.Lock()
				recorded := wire.heard
				wire.mu.Unlock()
				for k, p := range recorded {
					stranger.WriteTo(p.raw, p.to)
					stranger.WriteTo(p.raw, superpeertest.Address(k%8))
				}
			}
			time.Sleep(time.Second)
			if err := c.settled(nil); err != nil {
				c.Errorf("amid what was sent again: %v", err)
			}
		}
		if after := c.members[0].Status().Traffic; after.Refused == before.Refused {
			c.Error("nothing was refused: nothing has come a second time, and this test shows nothing")
		}
	})
}

// lineCount counts the lines of a log.
type lineCount struct{ atomic.Int64 }

func (l *lineCount) Write(b []byte) (int, error) {
	l.Add(int64(bytes.Count(b, []byte("\n"))))
	return len(b), nil
}

// TestWhoHasNoKeyIsNotHeard sends what a node without a secret, or with another, sends to its
// own. None of it is a line of the log.
func TestWhoHasNoKeyIsNotHeard(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	secretFile(t, ours, security.NewSecret())
	secretFile(t, theirs, security.NewSecret())
	var lines lineCount
	base := superpeer.Config{Fraction: 0.25, Capacity: 10, Secret: ours, Logger: slog.New(slog.NewTextHandler(&lines, nil))}
	inVirtualTime(t, 4, base, func(c *crowd) {
		c.within(120, "settle", func() error { return c.settled(nil) })
		lines.Store(0)
		for name, secret := range map[string]string{"no key": "", "another key": theirs} {
			foreign := superpeer.Config{Fraction: 0.25, Capacity: 10, Secret: secret, Insecure: secret == ""}
			var wires []*tap
			for i := range 4 {
				wire := &tap{Transport: c.net.Transport(50 + i)}
				wires = append(wires, wire)
				f := foreign
				f.Transport, f.Join = wire, []string{superpeertest.Address(50)}
				m, err := c.try(50+i, f)
				if err != nil {
					c.Fatalf("%s: %v", name, err)
				}
				defer m.Kill()
			}
			time.Sleep(20 * time.Second)
			before := c.members[0].Status().Traffic.Received
			quiet := func() uint64 { time.Sleep(10 * time.Second); return c.members[0].Status().Traffic.Received - before }()
			before = c.members[0].Status().Traffic.Received
			sent := 0
			for _, wire := range wires {
				wire.mu.Lock()
				for _, p := range wire.heard {
					wire.Transport.WriteTo(p.raw, superpeertest.Address(0))
					sent++
				}
				wire.mu.Unlock()
			}
			time.Sleep(10 * time.Second)
			if got := c.members[0].Status().Traffic.Received - before; got > 2*quiet+20 {
				c.Errorf("%s: %d messages were taken in while %d packets came, %d in a quiet time as long", name, got, sent, quiet)
			}
			if sent < 100 {
				c.Errorf("%s: only %d packets were tried", name, sent)
			}
			if n := lines.Load(); n > 8 { // the node that had no super peer yet has one now
				c.Errorf("%s: %d packets are %d lines of the log", name, sent, n)
			}
			if n := c.members[0].Status().Nodes; n != 4 {
				c.Errorf("%s: %d nodes are listed, want 4", name, n)
			}
		}
	})
}

// TestSecretsAreRotatedWhileNodesRun goes from one secret to another in the three steps of
// docs/superpeers-operation.md; nobody is lost on the way.
func TestSecretsAreRotatedWhileNodesRun(t *testing.T) {
	dir := t.TempDir()
	file, kept := filepath.Join(dir, "secret"), filepath.Join(dir, "kept")
	old, fresh := security.NewSecret(), security.NewSecret()
	secretFile(t, file, old)
	secretFile(t, kept, old)
	base := superpeer.Config{Fraction: 0.25, Capacity: 10, Secret: file}
	inVirtualTime(t, 6, base, func(c *crowd) {
		c.calm()
		for step, secrets := range [][]string{{old, fresh}, {fresh, old}, {fresh}} {
			secretFile(c.T, file, secrets...)
			for i := range 6 {
				if err := c.members[i].Reload(); err != nil {
					c.Fatalf("step %d: %v", step+1, err)
				}
				time.Sleep(5 * time.Second) // one after the other: some have the next step's file, some not
				if err := c.settled(nil); err != nil {
					c.Errorf("step %d, when %d have reloaded: %v", step+1, i+1, err)
				}
			}
		}
		late := base
		late.Secret = kept
		if m, err := c.try(20, late); err == nil {
			m.Kill()
			c.Error("who has the old secret alone was let in")
		}
		c.join(21, base)
		c.calm() // with who has the new one
		if err := os.WriteFile(file, []byte("no secret\n"), 0o600); err != nil {
			c.Fatal(err)
		}
		if c.members[0].Reload() == nil {
			c.Error("a file without a secret was taken")
		}
		time.Sleep(20 * time.Second)
		if err := c.settled(nil); err != nil {
			c.Errorf("a file that cannot be read must change nothing: %v", err)
		}
	})
}
