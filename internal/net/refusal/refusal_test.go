package refusal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// written is a log whose lines a test counts.
type written struct {
	Log
	out bytes.Buffer
}

func (w *written) refuse(host, reason string, args ...any) {
	w.Warn(slog.New(slog.NewTextHandler(&w.out, nil)), host, reason, "refused", append(args, "from", host)...)
}

func (w *written) lines() int { return strings.Count(w.out.String(), "\n") }

func TestAHostHasOneLineAMinuteForEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w written
		for range 1000 {
			w.refuse("10.0.0.1", "another secret")
		}
		w.refuse("10.0.0.2", "another secret")
		w.refuse("10.0.0.1", "without TLS")
		if n := w.lines(); n != 3 {
			t.Errorf("%d lines, want 3:\n%s", n, w.out.String())
		}
		if !strings.Contains(w.out.String(), "from=10.0.0.2 omitted=999") {
			t.Errorf("no line has the number of those that were omitted:\n%s", w.out.String())
		}
		time.Sleep(Window)
		w.refuse("10.0.0.1", "another secret")
		if n := w.lines(); n != 4 {
			t.Errorf("%d lines a minute later, want one more", n)
		}
	})
}

func TestManyHostsAndReasonsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w written
		for i := range 4 * MaxPerHost {
			w.refuse("10.0.0.1", fmt.Sprint("reason ", i))
		}
		if n := w.lines(); n != MaxPerHost {
			t.Errorf("%d lines of one host, want %d", n, MaxPerHost)
		}
		w.refuse("10.0.0.2", "another secret")
		if n := w.lines(); n != MaxPerHost+1 {
			t.Error("a host hides another by giving many reasons")
		}
		for i := range 4 * MaxLines {
			w.refuse(fmt.Sprint("host ", i), "another secret")
		}
		if n := w.lines(); n != MaxLines || len(w.last) > MaxLines {
			t.Errorf("%d lines of many hosts, %d kept, want %d", n, len(w.last), MaxLines)
		}
		time.Sleep(Window)
		w.refuse("10.0.0.3", "another secret")
		if n := w.lines(); n != MaxLines+1 {
			t.Errorf("%d lines a minute later, want one more", n)
		}
	})
}

func TestALongValueIsCut(t *testing.T) {
	var w written
	long := strings.Repeat("é", 8<<10)
	w.refuse("10.0.0.1", "path", "path", long, "error", errors.New(long), "count", 7)
	text := w.out.String()
	if len(text) > 3*MaxText || !strings.Contains(text, "…") || !strings.Contains(text, "count=7") || strings.Contains(text, `\x`) {
		t.Errorf("a line of %d bytes: %.200s", len(text), text)
	}
}
