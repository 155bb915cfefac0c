package batutacron_test

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/batutacron"
)

// changes are four changes of the clocks: of an hour in Madrid, of half an hour on Lord
// Howe Island, each from midnight to midnight there, and one that leaves midnight out.
var changes = map[string]struct{ zone, day string }{
	"Madrid, 02:00 becomes 03:00":    {"Europe/Madrid", "2026-03-29"},
	"Madrid, 03:00 becomes 02:00":    {"Europe/Madrid", "2026-10-25"},
	"Lord Howe, 02:00 becomes 02:30": {"Australia/Lord_Howe", "2026-10-04"},
	"Lord Howe, 02:00 becomes 01:30": {"Australia/Lord_Howe", "2026-04-05"},
	"Cairo, 00:00 becomes 01:00":     {"Africa/Cairo", "2026-04-24"},
}

func TestTheClocksAreChanged(t *testing.T) {
	for _, test := range []struct {
		change, fields string
		want           []string // ticks of that day, as the clocks there show them and by UTC
	}{
		// An hour that is left out: its ticks are due once, as it would have begun.
		{"Madrid, 02:00 becomes 03:00", "30 2 * * *", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "0 2 * * *", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "*/15 2 * * *", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "0 2,3 * * *", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "30 1-3 * * *", []string{"01:30+0100", "03:00+0200", "03:30+0200"}},
		{"Madrid, 02:00 becomes 03:00", "59 1 * * *", []string{"01:59+0100"}},
		{"Madrid, 02:00 becomes 03:00", "0 3 * * *", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "30 2 29 * *", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "30 2 30 * *", nil},
		{"Madrid, 02:00 becomes 03:00", "30 2 * * 0", []string{"03:00+0200"}},
		{"Madrid, 02:00 becomes 03:00", "@daily", []string{"00:00+0100"}},
		{"Lord Howe, 02:00 becomes 02:30", "15 2 * * *", []string{"02:30+1100"}},
		{"Lord Howe, 02:00 becomes 02:30", "*/10 2 * * *", []string{"02:30+1100", "02:40+1100", "02:50+1100"}},
		{"Lord Howe, 02:00 becomes 02:30", "30 2 * * *", []string{"02:30+1100"}},
		{"Cairo, 00:00 becomes 01:00", "@daily", []string{"01:00+0300"}},
		{"Cairo, 00:00 becomes 01:00", "30 0 * * *", []string{"01:00+0300"}},
		// Times that come twice: a tick is due at the first.
		{"Madrid, 03:00 becomes 02:00", "30 2 * * *", []string{"02:30+0200"}},
		{"Madrid, 03:00 becomes 02:00", "0 2,3 * * *", []string{"02:00+0200", "03:00+0100"}},
		{"Madrid, 03:00 becomes 02:00", "*/30 2 * * *", []string{"02:00+0200", "02:30+0200"}},
		{"Lord Howe, 02:00 becomes 01:30", "45 1 * * *", []string{"01:45+1100"}},
		{"Lord Howe, 02:00 becomes 01:30", "0 2 * * *", []string{"02:00+1030"}},
		{"Lord Howe, 02:00 becomes 01:30", "*/20 1,2 * * *", []string{"01:00+1100", "01:20+1100", "01:40+1100", "02:00+1030", "02:20+1030", "02:40+1030"}},
	} {
		change := changes[test.change]
		s, from, to := dayOf(t, test.fields, change.zone, change.day)
		if got := ticksOf(s, from, to); !slices.Equal(got, test.want) {
			t.Errorf("%s, %q: %v, want %v", test.change, test.fields, got, test.want)
		}
	}
}

// A schedule of every hour goes on at its pace: the clocks are changed, no time passes.
func TestEveryHourWhileTheClocksAreChanged(t *testing.T) {
	for name, change := range changes {
		for fields, apart := range map[string]time.Duration{"* * * * *": time.Minute, "*/5 * * * *": 5 * time.Minute, "*/5 0-23 * * *": 5 * time.Minute, "*/30 */1 * * *": 30 * time.Minute} {
			s, from, to := dayOf(t, fields, change.zone, change.day)
			for tick := from; tick.Before(to); {
				next := s.Next(tick)
				if next.Sub(tick) != apart {
					t.Errorf("%s, %q: %s comes after %s, not %s", name, fields, next, tick, apart)
				}
				tick = next
			}
		}
	}
	s, from, to := dayOf(t, "30 * * * *", "Europe/Madrid", "2026-03-29")
	if got, want := ticksOf(s, from, to)[:4], []string{"00:30+0100", "01:30+0100", "03:30+0200", "04:30+0200"}; !slices.Equal(got, want) {
		t.Errorf("half past each hour: %v, want %v", got, want)
	}
}

// Whenever one asks, the answer is one of the day's ticks, and the next of them: a member that looks
// in the hour that is left out, or comes to lead in it, sees what the others see.
func TestWhenOneAsksMakesNoDifference(t *testing.T) {
	for name, change := range changes {
		for _, fields := range []string{"30 2 * * *", "15 2 * * *", "45 1 * * *", "0 0 * * *", "*/20 1-3 * * *", "*/5 * * * *"} {
			s, from, to := dayOf(t, fields, change.zone, change.day)
			var ticks []time.Time
			for tick := s.Next(from.Add(-time.Second)); tick.Before(to); tick = s.Next(tick) {
				ticks = append(ticks, tick)
			}
			for at := from; at.Before(to); at = at.Add(time.Minute) {
				for _, now := range []time.Time{at.Add(-time.Nanosecond), at, at.Add(time.Nanosecond)} {
					next := s.Next(now)
					i := slices.IndexFunc(ticks, func(tick time.Time) bool { return tick.After(now) })
					if i >= 0 && !next.Equal(ticks[i]) || i < 0 && next.Before(to) {
						t.Fatalf("%s, %q: after %s comes %s; the ticks are %v", name, fields, now, next, ticks)
					}
				}
			}
		}
	}
}

// dayOf is a schedule in a zone, and the first and the last moment of a day there.
func dayOf(t *testing.T, fields, zone, day string) (s *batutacron.Schedule, from, to time.Time) {
	t.Helper()
	there, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	noon, err := time.ParseInLocation(time.DateOnly+" 15", day+" 12", there)
	if err != nil {
		t.Fatal(err)
	}
	from, to = noon.Add(-12*time.Hour), noon.Add(12*time.Hour)
	for ; from.Day() == noon.Day(); from = from.Add(-time.Minute) {
	}
	for ; from.Day() != noon.Day(); from = from.Add(time.Minute) {
	}
	for ; to.Day() == noon.Day(); to = to.Add(time.Minute) {
	}
	for ; to.Day() != noon.Day(); to = to.Add(-time.Minute) {
	}
	return parse(t, "CRON_TZ="+zone+" "+fields), from, to.Add(time.Minute)
}

func ticksOf(s *batutacron.Schedule, from, to time.Time) (ticks []string) {
	for tick := s.Next(from.Add(-time.Second)); tick.Before(to); tick = s.Next(tick) {
		ticks = append(ticks, tick.Format("15:04-0700"))
	}
	return ticks
}

// After the years that the time zones list, each has a time a day, also at the end of a leap year: a clock may be wrong.
func TestTimesOfFarYears(t *testing.T) {
	for _, zone := range []string{"Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"} {
		s, err := batutacron.Parse("CRON_TZ=" + zone + " 30 4 * * *")
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{2037, 2040, 2044, 2099} {
			at, n := time.Date(year, 12, 20, 0, 0, 0, 0, time.UTC), 0
			for end := at.Add(30 * 24 * time.Hour); at.Before(end); n++ {
				at = s.Next(at)
			}
			if n != 31 {
				t.Errorf("%s, %d: %d times in 30 days", zone, year, n-1)
			}
		}
	}
	leap, err := batutacron.Parse("CRON_TZ=Europe/Madrid 0 0 29 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if next, want := leap.Next(time.Date(2040, 3, 1, 0, 0, 0, 0, time.UTC)), time.Date(2044, 2, 28, 23, 0, 0, 0, time.UTC); !next.Equal(want) {
		t.Errorf("%v, want %v", next, want)
	}
}
