// Package schedule says when a command is due that runs by a schedule of cron's, on one
// member of a cluster at a time: once for each tick, also for one that was missed
// while nobody led.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/netresearch/go-cron"

	"github.com/batuta-dev/batuta/election"
)

// Schedule is a set of ticks: points in time, all of them whole minutes.
type Schedule struct{ ticks cron.Schedule }

// maxSpec bounds what Parse reads, in bytes.
const maxSpec = 256

// fieldsOf reads five fields of cron's, or a name such as @daily. As in cron, a day
// counts that one of the two fields names where both are given.
var fieldsOf = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Parse reads five fields of cron's (minute, hour, day of the month, month, day of the
// week) or @hourly, @daily, @weekly, @monthly, @yearly. They are of UTC, which is the
// same on every member, unless "CRON_TZ=Europe/Madrid " precedes them.
func Parse(spec string) (Schedule, error) {
	shown := election.Shown(spec)
	if len(spec) > maxSpec {
		return Schedule{}, fmt.Errorf("a schedule of %d bytes: at most %d", len(spec), maxSpec)
	}
	zone, fields, err := splitZone(strings.TrimSpace(spec))
	if err != nil {
		return Schedule{}, fmt.Errorf("%q: %w", shown, err)
	}
	read, err := fieldsOf.Parse(fields)
	if err != nil {
		return Schedule{}, fmt.Errorf("%q: %w; write minute, hour, day of the month, month and day of the week, as in '*/5 * * * *'", shown, err)
	}
	calendar, ok := read.(*cron.SpecSchedule)
	if !ok { // @every
		return Schedule{}, fmt.Errorf("%q counts from when a process started, which is another time on each member: write fields, such as '*/5 * * * *'", shown)
	}
	calendar.Location = time.UTC
	s := Schedule{zoned{calendar, zone}}
	if s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fmt.Errorf("%q: there is no such day", shown)
	}
	return s, nil
}

// splitZone takes the time zone off the fields, UTC if there is none.
func splitZone(spec string) (zone *time.Location, fields string, err error) {
	name, fields, named := strings.TrimPrefix(spec, "CRON_"), spec, false
	if name, named = strings.CutPrefix(name, "TZ="); !named {
		return time.UTC, fields, nil
	}
	if cut := strings.IndexFunc(name, unicode.IsSpace); cut < 0 {
		fields = ""
	} else {
		name, fields = name[:cut], strings.TrimSpace(name[cut:])
	}
	switch {
	case fields == "":
		return nil, "", errors.New("the fields follow the time zone, as in 'CRON_TZ=Europe/Madrid 30 4 * * *'")
	case strings.Contains(fields, "TZ="):
		return nil, "", errors.New("name one time zone, as in 'CRON_TZ=Europe/Madrid 30 4 * * *'")
	case name == "" || name == "Local":
		return nil, "", errors.New("name the time zone, such as Europe/Madrid: each member may be set to another")
	}
	if zone, err = time.LoadLocation(name); err != nil {
		return nil, "", fmt.Errorf("%w; name one of the IANA database, such as Europe/Madrid or UTC", err)
	}
	return zone, fields, nil
}

// Next is the first tick after t; zero: none within five years.
func (s Schedule) Next(t time.Time) time.Time { return s.ticks.Next(t) }

// Latest is the last tick after since that is not after now; zero: there is none.
func (s Schedule) Latest(since, now time.Time) (tick time.Time) {
	// A schedule by the minute has half a million ticks a year: look at the last ones first.
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

// Count is how many ticks there are after since and before until, at most [MaxCount].
func (s Schedule) Count(since, until time.Time) (n int) {
	for next := s.Next(since); n < MaxCount && !next.IsZero() && next.Before(until); next = s.Next(next) {
		n++
	}
	return n
}

// MaxCount is as far as Count counts.
const MaxCount = 1000

// Watcher is what a Ticker heeds and reports beside its schedule.
type Watcher interface {
	// Missed counts ticks for which there is no run.
	Missed(n int)
	// Paused reports whether ticks that fall due are left out; they are not missed.
	Paused() bool
	// Asked reports whether a run is requested, and takes the request.
	Asked(ctx context.Context) bool
	// Changed has a value when either may have changed.
	Changed() <-chan struct{}
}

// free is a Watcher that asks for nothing.
type free struct{}

func (free) Missed(int)                 {}
func (free) Paused() bool               { return false }
func (free) Asked(context.Context) bool { return false }
func (free) Changed() <-chan struct{}   { return nil }

// Ticker gives the ticks of a schedule to one member, while it leads. Its time is the
// wall clock's.
type Ticker struct {
	Schedule Schedule
	// Known is the last tick that was begun anywhere, as far as this member can tell, or
	// since when there was somebody to begin one; zero: it knows of none.
	Known func() time.Time
	// Tell has the other members know of a tick before its run begins, as far as they
	// can be reached. What goes wrong is its own to report.
	Tell func(ctx context.Context, tick time.Time)
	// SkipMissed leaves ticks out that fell due while nobody led, or while a run lasted.
	SkipMissed bool
	Watcher    Watcher // nil: none

	last time.Time // begun here, or taken over
}

// look is how often the wall clock is looked at: it may be set, and a machine may
// have slept.
const look = 20 * time.Second

// TooLate is how much later than its tick a run may begin that is not to be late.
const TooLate = 5 * time.Second

// watcher is the one to heed.
func (t *Ticker) watcher() Watcher {
	if t.Watcher == nil {
		return free{}
	}
	return t.Watcher
}

// ErrNever says that the schedule has no tick left.
var ErrNever = errors.New("the schedule has no tick within five years")

// Await waits until a run is due and gives its tick: at once, if one was missed. The tick of a run
// that was requested is the present time. The error
// is ctx's, or [ErrNever]. It must not be called while a run lasts.
func (t *Ticker) Await(ctx context.Context) (time.Time, error) {
	if err := t.takeOver(ctx); err != nil {
		return time.Time{}, err
	}
	for {
		now := wall()
		if t.watcher().Asked(ctx) {
			return now.Truncate(time.Second), ctx.Err()
		}
		due := t.Schedule.Latest(t.last, now)
		if !due.IsZero() && t.watcher().Paused() {
			t.last = due
			t.Tell(ctx, due)
			continue
		}
		if t.SkipMissed && !due.IsZero() && now.Sub(due) > TooLate {
			t.missed(due.Add(time.Nanosecond))
			t.last, due = due, time.Time{}
		}
		if !due.IsZero() {
			t.missed(due)
			t.last = due
			t.Tell(ctx, due)
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

// takeOver goes on from the last tick that is known. Who knows of none begins now, and
// says so: should it die before its first tick, another one runs that.
func (t *Ticker) takeOver(ctx context.Context) error {
	before := t.last
	t.last = later(t.last, t.Known())
	if t.last.IsZero() || t.SkipMissed && before.IsZero() {
		now := wall()
		t.missed(now)
		t.last = later(t.last, now)
	}
	if !t.last.Equal(before) {
		t.Tell(ctx, t.last)
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

// wall is the time that people see: without what Go keeps beside it, which stands still
// while a machine sleeps and does not heed a clock that is set.
func wall() time.Time { return time.Now().Round(0).UTC() }

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

// Of is a schedule of other ticks than cron's.
func Of(ticks interface{ Next(time.Time) time.Time }) Schedule { return Schedule{ticks} }
