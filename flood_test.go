package batuta

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

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
