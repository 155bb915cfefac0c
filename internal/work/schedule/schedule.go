// Package schedule determines when to run a scheduled command on a single member of a cluster at a
// time: once for each tick of a cron schedule, including a tick that was missed while no member
// led.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/netresearch/go-cron"
)

// Schedule finds ticks: points in time. Those of [Parse] are whole minutes.
type Schedule struct{ Ticks }

// Ticks lists ticks in their order.
type Ticks interface {
	Next(after time.Time) time.Time // zero: none within five years
}

// maxSpec bounds what Parse reads, in bytes.
const maxSpec = 256

// fieldsOf reads five fields of cron, or a name such as @daily. As in cron, if both day fields are
// given, a day counts that matches either.
var fieldsOf = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Parse reads five fields of cron (minute, hour, day of the month, month, day of the week) or
// @hourly, @daily, @weekly, @monthly, @yearly. They are in UTC, which is the same on every member,
// unless "CRON_TZ=Europe/Madrid " precedes them.
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

// splitZone separates the time zone from the fields; UTC if there is none.
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
			t.last, due = due, time.Time{}
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

// zoned is the ticks of fields in a time zone. The fields are looked up in UTC, shifted by the
// zone's offset, for each period of a constant offset in turn. So the cron library is never used
// across a change of the clocks: it expects changes of one hour, and returns some times twice.
type zoned struct {
	fields *cron.SpecSchedule // of UTC
	zone   *time.Location
}

// Next returns the first tick after t; zero: none within five years.
//
// A time that the clocks show twice is a single tick, at its first occurrence. For times that the
// clocks skip there is a single tick, at the moment of the change. An hourly schedule goes by
// elapsed time instead: it has ticks in both repeated hours, and none in a skipped hour.
func (z zoned) Next(t time.Time) time.Time {
	period := z.periodOf(t)
	clock := period.clock(t.Truncate(time.Second).Add(time.Second))
	for {
		if !z.everyHour() && clock.Before(period.shown) {
			clock = period.shown // the period before has shown these times
		}
		next := z.fields.Next(clock.Add(-time.Second))
		if next.IsZero() {
			return time.Time{}
		}
		change := period.end
		if change.IsZero() || next.Before(period.clock(change)) {
			return next.Add(-period.offset).In(t.Location())
		}
		period = z.periodOf(change)
		clock = period.clock(change)
		if !z.everyHour() && next.Before(clock) { // the clocks skip it
			return change.In(t.Location())
		}
	}
}

// everyHour reports whether the schedule has ticks in each hour of the day.
func (z zoned) everyHour() bool {
	const all = 1<<24 - 1
	return z.fields.Hour&all == all
}

// period is a time in which a zone's offset is constant.
type period struct {
	offset time.Duration // of the clocks from UTC
	end    time.Time     // zero: it has none
	shown  time.Time     // the time that the clocks showed just before it began
}

func (z zoned) periodOf(t time.Time) period {
	start, end := t.In(z.zone).ZoneBounds()
	p := period{offset: offset(t.In(z.zone)), end: end}
	if !start.IsZero() {
		p.shown = start.UTC().Add(offset(start.Add(-time.Second).In(z.zone)))
	}
	return p
}

// clock returns the time that the clocks show at t, as a time in UTC.
func (p period) clock(t time.Time) time.Time { return t.UTC().Add(p.offset) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
