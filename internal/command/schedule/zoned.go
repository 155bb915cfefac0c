package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

// zoned is the ticks that fields name on the clocks of a time zone. The fields are looked up on
// a clock that never changes, UTC's, which shows what the zone's clocks show, one
// period of the zone's offset after the other. So the library is never asked about a change
// of the clocks: it expects changes of one hour, and names some times twice.
type zoned struct {
	fields *cron.SpecSchedule // of UTC
	zone   *time.Location
}

// Next is the first tick after t; zero: none within five years.
//
// A time that the clocks show twice is a tick once, at first. For times that the clocks
// leave out there is one tick, at the moment of the change. A schedule of every hour has
// its ticks by the time that passes instead: in each of the two hours, and in none that is left out.
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
		if !z.everyHour() && next.Before(clock) { // the clocks leave it out
			return change.In(t.Location())
		}
	}
}

// everyHour reports whether the schedule has ticks in each hour of the day.
func (z zoned) everyHour() bool {
	const all = 1<<24 - 1
	return z.fields.Hour&all == all
}

// period is a length of time in which a zone's clocks are not changed.
type period struct {
	offset time.Duration // of the clocks from UTC
	end    time.Time     // zero: it has none
	shown  time.Time     // what the clocks showed as it began and they were changed
}

func (z zoned) periodOf(t time.Time) period {
	start, end := t.In(z.zone).ZoneBounds()
	p := period{offset: offset(t.In(z.zone)), end: end}
	if !start.IsZero() {
		p.shown = start.UTC().Add(offset(start.Add(-time.Second).In(z.zone)))
	}
	return p
}

// clock is what the clocks show at t, as a time of UTC.
func (p period) clock(t time.Time) time.Time { return t.UTC().Add(p.offset) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
