package transport

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

func TestOneThatIsTurnedAwayIsToldOfOnceAMinute(t *testing.T) {
	var l told
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	warns := func(host string) bool { return l.level(host, "of another secret", now) == slog.LevelWarn }
	if !warns("10.0.0.1") || warns("10.0.0.1") || !warns("10.0.0.2") {
		t.Error("want the first of each host, and not the second")
	}
	if l.level("10.0.0.1", "without TLS", now) != slog.LevelWarn {
		t.Error("want another reason told of, too")
	}
	now = now.Add(toldFor)
	if !warns("10.0.0.1") || warns("10.0.0.1") {
		t.Error("want one more when the minute is over")
	}
	for i := range 2 * maxTold {
		l.level(fmt.Sprint("host ", i), "", now)
	}
	if len(l.last) > maxTold {
		t.Errorf("%d are kept, want %d at most", len(l.last), maxTold)
	}
	if now = now.Add(toldFor); !warns("10.0.0.3") {
		t.Error("want a new host told of when the others' minute is over")
	}
}
