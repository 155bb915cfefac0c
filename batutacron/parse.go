package batutacron

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/netresearch/go-cron"

	"github.com/batuta-dev/batuta/election"
)

// maxSpec bounds what Parse reads, in bytes.
const maxSpec = 256

// fieldsOf reads five fields of cron, or a name such as @daily. As in cron, if both day fields are
// given, a day counts that matches either.
var fieldsOf = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Parse reads the schedule of a [Job], so that a service can check it with the rest of its configuration. It has five
// fields of cron (minute, hour, day of the month, month, day of the week), or is @hourly, @daily, @weekly, @monthly or
// @yearly. It is in UTC, which is the same on every member, unless "CRON_TZ=Europe/Madrid " precedes it. The error
// quotes what is wrong; a schedule without a time within five years is an error, too.
func Parse(spec string) (*Schedule, error) {
	shown := election.Shown(spec)
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("a schedule of %d bytes: at most %d", len(spec), maxSpec)
	}
	zone, fields, err := splitZone(strings.TrimSpace(spec))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", shown, err)
	}
	if strings.HasPrefix(fields, "@every") {
		return nil, fmt.Errorf("%q counts from when a process started, which is another time on each member: write fields, such as '*/5 * * * *'", shown)
	}
	read, err := fieldsOf.Parse(fields)
	if err != nil {
		return nil, fmt.Errorf("%q: %w; write minute, hour, day of the month, month and day of the week, as in '*/5 * * * *'", shown, err)
	}
	calendar := read.(*cron.SpecSchedule) // but for @every
	calendar.Location = time.UTC
	s := &Schedule{calendar, zone}
	if s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q: there is no such day", shown)
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

// Schedule is the times of a cron schedule, which are whole minutes.
type Schedule struct {
	// The fields are looked up in UTC, shifted by the zone's offset, for each period of a constant offset in turn. So the
	// cron library is never used across a change of the clocks: it expects changes of one hour, and returns some times twice.
	fields *cron.SpecSchedule // of UTC
	zone   *time.Location
}

// Next returns the first time after t, in the time zone of t; zero: there is none within five years.
//
// A time that the clocks show twice counts once, at its first occurrence. Times that the clocks skip count once, at the
// moment of the change. An hourly schedule goes by elapsed time instead: it has times in both repeated hours, and none in
// a skipped hour.
func (s *Schedule) Next(t time.Time) time.Time {
	period := s.periodOf(t)
	clock := period.clock(t.Truncate(time.Second).Add(time.Second))
	for {
		if !s.everyHour() && clock.Before(period.shown) {
			clock = period.shown // the period before has shown these times
		}
		next := s.fields.Next(clock.Add(-time.Second))
		if next.IsZero() {
			return time.Time{}
		}
		change := period.end
		if change.IsZero() || next.Before(period.clock(change)) {
			return next.Add(-period.offset).In(t.Location())
		}
		period = s.periodOf(change)
		clock = period.clock(change)
		if !s.everyHour() && next.Before(clock) { // the clocks skip it
			return change.In(t.Location())
		}
	}
}

// everyHour reports whether the schedule has times in each hour of the day.
func (s *Schedule) everyHour() bool {
	const all = 1<<24 - 1
	return s.fields.Hour&all == all
}

// period is a time in which a zone's offset is constant.
type period struct {
	offset time.Duration // of the clocks from UTC
	end    time.Time     // zero: it has none
	shown  time.Time     // the time that the clocks showed just before it began
}

func (s *Schedule) periodOf(t time.Time) period {
	start, end := t.In(s.zone).ZoneBounds()
	for later := t; !end.IsZero() && !end.After(t); { // on the last day of a leap year Go gives the begin of that day
		later = later.Add(24 * time.Hour)
		_, end = later.In(s.zone).ZoneBounds()
	}
	p := period{offset: offset(t.In(s.zone)), end: end}
	if !start.IsZero() {
		p.shown = start.UTC().Add(offset(start.Add(-time.Second).In(s.zone)))
	}
	return p
}

// clock returns the time that the clocks show at t, as a time in UTC.
func (p period) clock(t time.Time) time.Time { return t.UTC().Add(p.offset) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
