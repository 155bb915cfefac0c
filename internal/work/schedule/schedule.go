// Package schedule determines when to run a scheduled command on a single member of a cluster at a
// time: once for each tick of a cron schedule, including a tick that was missed while no member
// led.
package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/batuta-dev/batuta"
)

// Schedule finds ticks: points in time.
type Schedule struct{ Ticks }

// Ticks lists ticks in their order.
type Ticks interface {
	Next(after time.Time) time.Time // zero: none within five years
}

// Latest returns the last tick after since that is not after now; zero: there is none.
func (s Schedule) Latest(since, now time.Time) (tick time.Time) {
	// A schedule by the minute has half a million ticks a year: check the latest first.
	for _, back := range [...]time.Duration{time.Minute, time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 367 * 24 * time.Hour, 9 * 366 * 24 * time.Hour} {
		from := now.Add(-back)
		if whole := !from.After(since); whole {
			from = since
		}
		for next := s.Next(from); !next.IsZero() && !next.After(now); next = s.Next(next) {
			tick = next
		}
		if !tick.IsZero() || from.Equal(since) {
			return tick
		}
	}
	return tick
}

// Count returns how many ticks there are after since and before until, at most [MaxCount].
func (s Schedule) Count(since, until time.Time) (n int) {
	for next := s.Next(since); n < MaxCount && !next.IsZero() && next.Before(until); next = s.Next(next) {
		n++
	}
	return n
}

// MaxCount is the highest result of Count.
const MaxCount = 1000

// Watcher supplies requests and pauses to a Ticker, and receives its reports.
type Watcher interface {
	// Missed counts ticks for which there is no run.
	Missed(n int)
	// Paused reports whether ticks that fall due are skipped; they do not count as missed.
	Paused() bool
	// Asked reports whether a run is requested, and takes the request.
	Asked(ctx context.Context) bool
	// Changed has a value when either may have changed.
	Changed() <-chan struct{}
}

// free is a Watcher without requests.
type free struct{}

func (free) Missed(int)                 {}
func (free) Paused() bool               { return false }
func (free) Asked(context.Context) bool { return false }
func (free) Changed() <-chan struct{}   { return nil }

// Ticker returns the ticks of a schedule to a member while it leads. Its time is the wall clock's.
type Ticker struct {
	Schedule Schedule
	// Known returns the last tick that began on any member, as far as this member knows, or since
	// when a member could begin one; zero: not known.
	Known func() time.Time
	// Publish publishes a tick to the members that can be reached, before its run begins. It reports
	// its own errors.
	Publish func(ctx context.Context, tick time.Time)
	// SkipMissed skips ticks that fell due while no member led, or while a run lasted.
	SkipMissed bool
	Watcher    Watcher // nil: none

	last time.Time        // begun here, or taken over
	wall func() time.Time // nil: the wall clock
}

// look is how often to check the wall clock: it may be set, and a machine may have been suspended.
const look = 20 * time.Second

// FarAhead is more than the difference between the clocks of a cluster. A tick that is further ahead comes from a clock
// that was wrong.
const FarAhead = time.Hour

// LastTick returns the latest tick that any member publishes under a key of its metadata. A tick in the future comes from
// a wrong clock or a malicious member: it must not stop the schedule.
func LastTick(members []batuta.MemberStatus, key string) (last time.Time) {
	for _, m := range members {
		if tick, err := time.Parse(time.RFC3339, m.Meta[key]); err == nil {
			last = LaterTick(last, tick)
		}
	}
	return last
}

// LaterTick returns the later of two ticks, unless that is [FarAhead].
func LaterTick(last, tick time.Time) time.Time {
	if tick.After(last) && time.Until(tick) < FarAhead {
		return tick
	}
	return last
}

// settle is how long a leader without a last tick waits for those that the members publish: it may have started a moment
// ago, and led before they reached it.
const settle = 2 * time.Second

// TooLate is how much later than its tick a run may begin without being late.
const TooLate = 5 * time.Second

// watcher returns the Watcher to use.
func (t *Ticker) watcher() Watcher {
	if t.Watcher == nil {
		return free{}
	}
	return t.Watcher
}

// ErrNever means that the schedule has no tick left.
var ErrNever = errors.New("the schedule has no tick within five years")

// Await waits until a run is due and returns its tick, at once if a tick was missed. The tick of a
// requested run is the present time. The error is ctx's, or [ErrNever]. It must not be called while
// a run lasts.
func (t *Ticker) Await(ctx context.Context) (time.Time, error) {
	if err := t.takeOver(ctx); err != nil {
		return time.Time{}, err
	}
	for {
		now := t.now()
		if t.last.Sub(now) > FarAhead { // the clock was set back
			t.last = now
			t.Publish(ctx, now)
		}
		if t.watcher().Asked(ctx) {
			return now.Truncate(time.Second), ctx.Err()
		}
		due := t.Schedule.Latest(t.last, now)
		if !due.IsZero() && t.watcher().Paused() {
			t.last = due
			t.Publish(ctx, due)
			continue
		}
		if t.SkipMissed && !due.IsZero() && now.Sub(due) > TooLate {
			t.missed(due.Add(time.Nanosecond))
			t.last = due
			t.Publish(ctx, due) // or the next leader counts it, too
			continue
		}
		if !due.IsZero() {
			t.missed(due)
			t.last = due
			t.Publish(ctx, due)
			return due, ctx.Err()
		}
		next := t.Schedule.Next(later(now, t.last))
		if next.IsZero() {
			return time.Time{}, ErrNever
		}
		if err := sleep(ctx, min(next.Sub(now), look), t.watcher().Changed()); err != nil {
			return time.Time{}, err
		}
	}
}

// takeOver continues after the last known tick. If none is known, not after [settle] either, it begins now, and
// publishes that: if this member dies before its first tick, the next leader runs that.
func (t *Ticker) takeOver(ctx context.Context) error {
	before := t.last
	if t.last = later(t.last, t.Known()); t.last.IsZero() {
		began := t.now()
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return ctx.Err()
		}
		if t.last = t.Known(); t.last.IsZero() {
			t.last = began
		}
	}
	if t.SkipMissed && before.IsZero() {
		now := t.now()
		t.missed(now)
		t.last = later(t.last, now)
	}
	if !t.last.Equal(before) {
		t.Publish(ctx, t.last)
	}
	return ctx.Err()
}

// missed reports the ticks after the last and before until, for which there is no run.
func (t *Ticker) missed(until time.Time) {
	if t.last.IsZero() {
		return
	}
	if n := t.Schedule.Count(t.last, until); n > 0 && !t.watcher().Paused() {
		t.watcher().Missed(n)
	}
}

// now returns the wall clock's time without Go's monotonic reading, which does not advance while a
// machine sleeps and ignores that a clock is set.
func (t *Ticker) now() time.Time {
	if t.wall != nil {
		return t.wall()
	}
	return time.Now().Round(0).UTC()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sleep(ctx context.Context, d time.Duration, until <-chan struct{}) error {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-until:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
