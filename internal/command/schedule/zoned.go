package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

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
