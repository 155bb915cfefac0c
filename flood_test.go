package batuta

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// A client that reaches a member's port cannot fill the disk by what is refused: each is
// counted, and the log has one line for each reason.
func TestAFloodOfHandshakesAndFramesIsAFewLinesOfTheLog(t *testing.T) {
	virtually(t, func(t *testing.T) {
		const each = 500
		c := newVirtualCluster(t, 2)
		var out bytes.Buffer
		n := c.start("2", func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		before := statusOf(n)
		for i := range each {
			say(t, stranger(t, n), helloFrom("1", "2", func(h *wire.Handshake) { h.Cluster = fmt.Sprintf("guess-%d", i) }))
			say(t, stranger(t, n), helloFrom(ID(fmt.Sprintf("stranger-%d", i)), "2", nil))
			say(t, stranger(t, n), helloFrom(ID(fmt.Sprintf("stranger-%d", i)), "2", func(h *wire.Handshake) { h.Kind = wire.KindJoin }))

			bad := stranger(t, n)
			bad.Write([]byte("\x00\x00\x00\x09no frame!"))
			closed(t, bad)

			other := stranger(t, n) // a member without security, that sends in another's name
			if answer := say(t, other, helloFrom("1", "2", func(h *wire.Handshake) { h.Incarnation = uint64(i) + 1 })); answer.Kind != wire.KindWelcome {
				t.Fatalf("it is answered %+v", answer)
			}
			sendTo(t, other, &election.Message{Kind: election.Ping, Election: DefaultElection, From: "2"})
			closed(t, other)
		}
		after := statusOf(n)
		n.Close()
		for what, counted := range map[string]uint64{
			"cluster":    after.Refused["cluster"] - before.Refused["cluster"],
			"not-member": after.Refused["not-member"] - before.Refused["not-member"],
			"malformed":  after.Bad["malformed"] - before.Bad["malformed"],
			"id":         after.Bad["id"] - before.Bad["id"],
		} {
			if counted < each {
				t.Errorf("%d are counted as %s, want %d or more: refused %v, bad %v", counted, what, each, after.Refused, after.Bad)
			}
		}
		for _, line := range []string{"connection refused", "bad frame", "message in another's name"} {
			if lines := strings.Count(out.String(), line); lines < 1 || lines > 8 {
				t.Errorf("%d lines of %q, want one a minute for each reason", lines, line)
			}
		}
		if out.Len() > 32<<10 {
			t.Errorf("%d bytes of log:\n%.8000s", out.Len(), out.String())
		}
	})
}

// listeners give a listener that a test breaks.
type listeners struct {
	Transport
	made *listener
}

type listener struct {
	net.Listener
	fails chan error // what Accept returns; closed: it works
}

func (l *listeners) Listen(addr string) (net.Listener, error) {
	made, err := l.Transport.Listen(addr)
	l.made.Listener = made
	return l.made, err
}

func (l *listener) Accept() (net.Conn, error) {
	if err, fails := <-l.fails; fails {
		return nil, err
	}
	return l.Listener.Accept()
}

// A member that accepts no connections logs why: once a minute while it tries again, and once if its listener was closed
// under it. Its own end is no such fault.
func TestAListenerThatFailsIsLogged(t *testing.T) {
	virtually(t, func(t *testing.T) {
		for _, closes := range []bool{false, true} {
			c := newVirtualCluster(t, 2)
			c.start("1")
			var out lines
			made := &listener{fails: make(chan error, 1000)}
			for range cap(made.fails) {
				made.fails <- syscall.EMFILE
			}
			close(made.fails)
			n := c.start("2", func(cfg *Config) {
				cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
				cfg.Transport = &listeners{cfg.Transport, made}
			})
			time.Sleep(30 * time.Second)
			if lines := strings.Count(out.String(), "cannot accept connections"); lines != 1 || !strings.Contains(out.String(), syscall.EMFILE.Error()) {
				t.Errorf("%d lines: %s", lines, out.String())
			}
			if closes {
				made.Close()
				time.Sleep(time.Second)
			} else {
				c.transports[1].Kill()
			}
			n.Close()
			if closed := strings.Contains(out.String(), "its listener was closed"); closed != closes {
				t.Errorf("closed %v: %s", closes, out.String())
			}
		}
	})
}
