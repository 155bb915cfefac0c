package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// crowd is how many strangers there are, and for how long. With BATUTA_TEST_CROWD they
// are as many as docs/security.md has figures of, which takes minutes.
func crowd() (each, wrong int, stay time.Duration) {
	if os.Getenv("BATUTA_TEST_CROWD") != "" {
		return 500, 100_000, time.Minute
	}
	return 500, 2_000, 5 * time.Second
}

// resident is the memory of a member's process, in MiB.
func heldBy(t *testing.T, m *member) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.process.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib float64
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fmt.Sscan(rest, &kib)
	return kib / 1024
}

// stays keeps a connection to addr, and makes it anew when it is ended; slow: it says a byte now and then.
func stays(addr string, slow bool, over <-chan struct{}) {
	hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
	for {
		c, err := net.Dial("tcp", addr)
		for i := 0; err == nil; i++ {
			if slow && i < len(hello) {
				c.Write(hello[i : i+1])
			}
			select {
			case <-over:
				c.Close()
				return
			default:
			}
			c.SetReadDeadline(time.Now().Add(time.Second))
			if _, err = c.Read(make([]byte, 1)); isTimeout(err) {
				err = nil
			}
		}
		if c != nil {
			c.Close()
		}
		select {
		case <-over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// unbelieved is a certificate for member 5 by an authority that nobody believes.
func unbelieved(t *testing.T) *tls.Certificate {
	t.Helper()
	a, err := security.NewAuthority("default", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	own, err := a.Issue(security.Request{ID: "5", From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// wrongly shakes hands with addr, n times in all, and shows that certificate.
func wrongly(addr string, own *tls.Certificate, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	var attackers sync.WaitGroup
	for range 4 {
		attackers.Go(func() {
			for left.Add(-1) >= 0 {
				raw, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				raw.SetDeadline(time.Now().Add(10 * time.Second))
				c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"batuta/1"}, Certificates: []tls.Certificate{*own}})
				if c.Handshake() == nil {
					c.Read(make([]byte, 1))
				}
				raw.Close()
			}
		})
	}
	attackers.Wait()
}

// A crowd of strangers at the next leader's port, silent ones, slow ones and then wrong
// handshakes, changes nobody's view, takes no memory for good, and holds up no failover.
func TestACrowdOfStrangers(t *testing.T) {
	if !fulltest.Enabled() {
		t.Skip("a crowd takes a while: BATUTA_TEST_FULL is not set")
	}
	each, wrong, stay := crowd()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(security.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	// A machine that the crowd keeps busy holds up members too: not what is looked for.
	c, now := startCluster(t, 5, "--secret-file", path, "--t-max", "2s", "--t-process", "6s")
	next := c.members[3]
	unmoved := func(what string) {
		t.Helper()
		if after := mustAgree(t, c, now.epoch, ""); after.leader != now.leader || after.epoch != now.epoch {
			t.Errorf("%s: %s of epoch %d leads, and %s of epoch %d did", what, after.leader.id, after.epoch, now.leader.id, now.epoch)
		}
		t.Logf("%s: member 4 has %.1f MiB", what, heldBy(t, next))
	}
	fails := func(what string) {
		t.Helper()
		var took []float64
		for range 9 {
			victim := now.leader
			at, err := c.crash(victim)
			if err != nil {
				t.Fatal(err)
			}
			after := mustAgree(t, c, now.epoch+1, "4")
			took = append(took, cli.Milliseconds(after.all.Sub(at)))
			mustStart(t, c, victim)
			now = mustAgree(t, c, after.epoch+1, "5")
		}
		slices.Sort(took)
		t.Logf("%s: all agree %.1f ms after the leader was killed, the median of %d (%.1f to %.1f)", what, took[len(took)/2], len(took), took[0], took[len(took)-1])
	}
	unmoved("before")
	fails("before")

	over := make(chan struct{})
	var strangers sync.WaitGroup
	for i := range 2 * each {
		strangers.Go(func() { stays(next.listen, i%2 == 0, over) })
	}
	if err := c.settle(t.Context(), stay); err != nil {
		t.Fatal(err)
	}
	unmoved("silent and slow strangers")
	fails("silent and slow strangers")
	close(over)
	strangers.Wait()

	own := unbelieved(t)
	wrongly(next.listen, own, wrong/5)
	unmoved("a fifth of the wrong handshakes")
	warm := heldBy(t, next)
	done := make(chan struct{})
	go func() {
		defer close(done)
		wrongly(next.listen, own, wrong-wrong/5)
	}()
	fails("amid wrong handshakes")
	<-done
	unmoved("all wrong handshakes")
	if end := heldBy(t, next); end > 1.25*warm+8 {
		t.Errorf("member 4 has grown from %.1f to %.1f MiB by %d wrong handshakes", warm, end, wrong-wrong/5)
	}
}
