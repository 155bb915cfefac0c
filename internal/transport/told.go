package transport

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// told remembers which hosts the log has said to be turned away, and why: one that keeps
// asking, once a second or a thousand times, is told of once a minute for each reason.
// Counters count all. The zero value is ready.
type told struct {
	mu   sync.Mutex
	last map[turned]time.Time
}

type turned struct{ host, why string }

const (
	toldFor = time.Minute
	maxTold = 256 // more than so many within a minute, and the rest of them are not told of
)

// level is how loud the log is about a host that is turned away now.
func (l *told) level(host, why string, now time.Time) slog.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := turned{host, why}
	if at, ok := l.last[of]; ok && now.Sub(at) < toldFor {
		return slog.LevelDebug
	}
	if len(l.last) >= maxTold {
		maps.DeleteFunc(l.last, func(_ turned, at time.Time) bool { return now.Sub(at) >= toldFor })
	}
	if len(l.last) >= maxTold {
		return slog.LevelDebug
	}
	if l.last == nil {
		l.last = map[turned]time.Time{}
	}
	l.last[of] = now
	return slog.LevelWarn
}
