// Package refusal bounds what unauthenticated clients can write into the log of a process
// that refuses them.
package refusal

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds on the lines of a Log.
const (
	Window     = time.Minute // a host has a single line in it for each reason
	MaxLines   = 256         // in a window, of all hosts
	MaxPerHost = 16          // of them, of a single host: a certificate's text can make many reasons
	MaxText    = 512         // bytes of a value in a line
)

// Log logs refusals: in a minute once for each host and reason, and at most 16 lines for a host and
// 256 for all hosts. The rest is logged at level debug, and the next line has their number as
// "omitted". Metrics count all. The zero value is ready; several goroutines may use it.
type Log struct {
	mu      sync.Mutex
	last    map[cause]time.Time
	omitted uint64
}

type cause struct{ host, reason string }

// Warn logs a refusal of what came from host. msg and reason name the cause together; args are as
// those of [slog.Logger.Warn]. Values that are longer than [MaxText] are cut.
func (l *Log) Warn(to *slog.Logger, host, reason, msg string, args ...any) {
	for i, a := range args {
		args[i] = short(a)
	}
	level := slog.LevelDebug
	if omitted, ok := l.admit(cause{host, msg + ": " + reason}, time.Now()); ok {
		level = slog.LevelWarn
		if omitted > 0 {
			args = append(args, "omitted", omitted)
		}
	}
	to.Log(context.Background(), level, msg, args...)
}

// admit reports whether a line may be written now, and how many were omitted since the last line.
func (l *Log) admit(of cause, now time.Time) (omitted uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.last, func(_ cause, at time.Time) bool { return now.Sub(at) >= Window })
	_, again := l.last[of]
	same := 0
	for c := range l.last {
		if c.host == of.host {
			same++
		}
	}
	if again || same >= MaxPerHost || len(l.last) >= MaxLines {
		l.omitted++
		return 0, false
	}
	if l.last == nil {
		l.last = map[cause]time.Time{}
	}
	l.last[of] = now
	omitted, l.omitted = l.omitted, 0
	return omitted, true
}

// short cuts a text that a client may have made long.
func short(value any) any {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	default:
		return value
	}
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
