package schedule_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/work/schedule"
)

func parse(t *testing.T, spec string) schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", clock)
	if err != nil {
		panic(err)
	}
	return t
}

func TestWhatIsNoSchedule(t *testing.T) {
	for spec, want := range map[string]string{
		"":                          "empty spec string",
		"* * * *":                   "expected exactly 5 fields",
		"61 * * * *":                "above maximum",
		"*/0 * * * *":               "positive number",
		"0 0 30 2 *":                "there is no such day",
		"@every 5m":                 "counts from when a process started",
		" @every 5m":                "counts from when a process started",
		"\t@every 5m":               "counts from when a process started",
		"CRON_TZ=UTC @every 5m":     "counts from when a process started",
		"TZ=UTC  @every 1s":         "counts from when a process started",
		"TZ=UTC TZ=UTC @every 5m":   "name one time zone",
		"CRON_TZ=Europe/Madrid":     "the fields follow the time zone",
		"TZ=0":                      "the fields follow the time zone",
		"CRON_TZ=Nowhere 0 * * * *": "unknown time zone Nowhere",
		"CRON_TZ=Local 0 * * * *":   "each member may be set to another",
		"CRON_TZ= 0 * * * *":        "each member may be set to another",
		"CRON_TZ=../UTC 0 * * * *":  "invalid location name",
		"\x1b[2J * * * *":           `\x1b[2J`,
		strings.Repeat("1,", 200):   "400 bytes: at most 256",
	} {
		if _, err := schedule.Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", spec, err, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct{ spec, after, want string }{
		{"*/5 * * * *", "2026-11-22 01:59:59", "2026-11-22 02:00:00"},
		{"*/5 * * * *", "2026-11-22 02:00:00", "2026-11-22 02:05:00"},
		{"@daily", "2026-11-22 02:00:00", "2026-11-23 00:00:00"},
		{"CRON_TZ=Europe/Madrid 30 4 * * *", "2026-11-22 00:00:00", "2026-11-22 03:30:00"},
		{"CRON_TZ=Europe/Madrid\t@daily", "2026-11-22 00:00:00", "2026-11-22 23:00:00"},
		{"0 0 29 2 *", "2026-11-22 00:00:00", "2028-02-29 00:00:00"},
		{"0 0 13 * 5", "2026-11-22 00:00:00", "2026-11-27 00:00:00"}, // a 13th or a Friday, as in cron
		{"0 23-1 * * *", "2026-11-22 00:00:00", "2026-11-22 01:00:00"},
	} {
		if got := parse(t, test.spec).Next(at(test.after)); !got.Equal(at(test.want)) {
			t.Errorf("%s after %s: %s, want %s", test.spec, test.after, got, test.want)
		}
	}
}

func TestTheLatestMissedTick(t *testing.T) {
	for _, test := range []struct{ spec, since, now, want string }{
		{"*/5 * * * *", "2026-11-22 02:00:00", "2026-11-22 02:04:59", ""},
		{"*/5 * * * *", "2026-11-22 02:00:00", "2026-11-22 02:05:00", "2026-11-22 02:05:00"},
		{"*/5 * * * *", "2026-11-22 02:00:00", "2026-11-22 09:32:10", "2026-11-22 09:30:00"},
		{"* * * * *", "2016-11-22 02:00:00", "2026-11-22 09:32:10", "2026-11-22 09:32:00"},
		{"0 3 * * 1", "2026-11-01 00:00:00", "2026-11-22 09:32:10", "2026-11-16 03:00:00"},
		{"0 0 29 2 *", "2020-03-01 00:00:00", "2026-11-22 00:00:00", "2024-02-29 00:00:00"},
		{"*/5 * * * *", "2026-11-22 02:00:00", "2026-11-22 01:00:00", ""}, // the clock was set back
	} {
		got := parse(t, test.spec).Latest(at(test.since), at(test.now))
		if test.want == "" && !got.IsZero() || test.want != "" && !got.Equal(at(test.want)) {
			t.Errorf("%s from %s to %s: %s, want %q", test.spec, test.since, test.now, got, test.want)
		}
	}
}

// crew is what the members tell each other of ticks; its clock is a bubble's, which
// begins at midnight.
type crew struct {
	told   time.Time
	missed int
	paused bool

	asked, changed chan struct{}
}

// Missed implements [schedule.Watcher].
func (c *crew) Missed(n int) { c.missed += n }

// Paused implements [schedule.Watcher].
func (c *crew) Paused() bool { return c.paused }

// Asked implements [schedule.Watcher].
func (c *crew) Asked(context.Context) bool {
	select {
	case <-c.asked:
		return true
	default:
		return false
	}
}

// Changed implements [schedule.Watcher].
func (c *crew) Changed() <-chan struct{} { return c.changed }

func (c *crew) ticker(t *testing.T, spec string, skip bool) *schedule.Ticker {
	return &schedule.Ticker{Schedule: parse(t, spec), SkipMissed: skip, Watcher: c,
		Known: func() time.Time { return c.told },
		Publish: func(_ context.Context, tick time.Time) {
			if tick.Before(c.told) {
				t.Errorf("%s is told after %s", tick, c.told)
			}
			c.told = tick
		}}
}

// lead has one member lead for that long, each of its runs lasting so long, and gives
// when each began and the tick that it was for.
func lead(t *testing.T, ticker *schedule.Ticker, lasts, run time.Duration) (runs []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	for {
		tick, err := ticker.Await(ctx)
		if err != nil {
			return runs
		}
		runs = append(runs, time.Now().UTC().Format("15:04:05")+" for "+tick.Format("15:04"))
		select {
		case <-time.After(run):
		case <-ctx.Done():
		}
	}
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestATickRunsOnceOnWhoeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		expect(t, "the first leads for 12 minutes and is killed",
			lead(t, c.ticker(t, "*/5 * * * *", false), 12*time.Minute, time.Second), "00:05:00 for 00:05", "00:10:00 for 00:10")
		time.Sleep(4 * time.Minute) // nobody leads at 00:15
		expect(t, "the second runs what was missed, late",
			lead(t, c.ticker(t, "*/5 * * * *", false), 6*time.Minute, time.Second), "00:16:00 for 00:15", "00:20:00 for 00:20")
		expect(t, "the third has missed nothing",
			lead(t, c.ticker(t, "*/5 * * * *", false), 4*time.Minute, time.Second), "00:25:00 for 00:25")
		time.Sleep(3 * time.Hour)
		expect(t, "of many that were missed one runs",
			lead(t, c.ticker(t, "*/5 * * * *", false), 3*time.Minute, time.Second), "03:26:00 for 03:25")
		if c.missed != 35 { // 00:30 to 03:20
			t.Errorf("%d are missed", c.missed)
		}
	})
}

// While a job is paused no tick is run or missed, and a run that is requested begins at once.
func TestAPauseLeavesTicksOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew{paused: true, asked: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
		ticker := c.ticker(t, "*/5 * * * *", false)
		time.AfterFunc(12*time.Minute, func() { c.asked <- struct{}{}; c.changed <- struct{}{} })
		expect(t, "paused", lead(t, ticker, 17*time.Minute, time.Second), "00:12:00 for 00:12")
		c.paused = false
		expect(t, "resumed", lead(t, ticker, 4*time.Minute, time.Second), "00:20:00 for 00:20")
		if c.missed != 0 {
			t.Errorf("%d are missed", c.missed)
		}
		var next crew // which learns that they were left out
		next.told = c.told
		expect(t, "the next", lead(t, next.ticker(t, "*/5 * * * *", false), 2*time.Minute, time.Second))
	})
}

func TestAFirstLeaderThatDiesBeforeItsFirstTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		expect(t, "the first", lead(t, c.ticker(t, "0 * * * *", false), 59*time.Minute+59*time.Second, 0))
		time.Sleep(2 * time.Second)
		expect(t, "the second", lead(t, c.ticker(t, "0 * * * *", false), time.Minute, 0), "01:00:01 for 01:00")
	})
}

// A leader that has just started may lead before the last tick reaches it.
func TestALeaderReceivesTheLastTickSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		time.Sleep(17 * time.Minute)
		ticker, began := c.ticker(t, "*/5 * * * *", false), time.Now()
		ticker.Known = func() (last time.Time) {
			if time.Since(began) > time.Second {
				last = began.Truncate(time.Hour).Add(5 * time.Minute)
			}
			return last
		}
		expect(t, "it", lead(t, ticker, 2*time.Minute, 0), "00:17:02 for 00:15")
	})
}

func TestMissedTicksAreSkippedIfThatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		expect(t, "the first", lead(t, c.ticker(t, "*/5 * * * *", true), 6*time.Minute, time.Second), "00:05:00 for 00:05")
		time.Sleep(5 * time.Minute)
		expect(t, "the second", lead(t, c.ticker(t, "*/5 * * * *", true), 5*time.Minute, time.Second), "00:15:00 for 00:15")
		if c.missed != 1 {
			t.Errorf("%d are missed", c.missed)
		}
	})
}

// A run that lasts beyond the next tick delays it: never two at a time.
func TestRunsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		expect(t, "runs of 7 minutes every 5", lead(t, c.ticker(t, "*/5 * * * *", false), 20*time.Minute, 7*time.Minute),
			"00:05:00 for 00:05", "00:12:00 for 00:10", "00:19:00 for 00:15")
		var skips crew
		expect(t, "missed ones skipped", lead(t, skips.ticker(t, "*/5 * * * *", true), 18*time.Minute, 7*time.Minute),
			"00:25:00 for 00:25", "00:35:00 for 00:35")
		if c.missed != 0 || skips.missed != 1 {
			t.Errorf("%d and %d are missed", c.missed, skips.missed)
		}
	})
}

// A schedule whose members' clocks differ, or whose clock is set back, has no tick run twice.
func TestATickIsNotRunAgainByAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew{told: time.Now().Add(6 * time.Minute)} // one whose clock is ahead has run it
		expect(t, "the other", lead(t, c.ticker(t, "*/5 * * * *", false), 11*time.Minute, 0), "00:10:00 for 00:10")
	})
}

// A clock that is set back by up to an hour has no tick run twice: the next run comes when the clock has passed the
// last. After more than an hour back, and after any step ahead, the schedule goes on from the present time at once.
func TestASchedulesClockIsSetBackAndAhead(t *testing.T) {
	const job = "*/30 * * * *"
	const hour = "00:30:00 for 00:30, 01:00:00 for 01:00"
	for _, test := range []struct {
		name, spec string
		step       time.Duration // of the wall clock, 1 h 10 min after the start at midnight
		runs       string        // in four hours, by a clock that is right, and by which tick
		missed     int
	}{
		{"back by an hour", job, -time.Hour, hour + ", 02:30:00 for 01:30, 03:00:00 for 02:00, 03:30:00 for 02:30", 0},
		{"back by three hours", job, -3 * time.Hour, hour + ", 01:30:00 for 22:30, 02:00:00 for 23:00, 02:30:00 for 23:30, 03:00:00 for 00:00, 03:30:00 for 00:30", 0},
		{"ahead by three hours", job, 3 * time.Hour, hour + ", 01:10:00 for 04:00, 01:30:00 for 04:30, 02:00:00 for 05:00, 02:30:00 for 05:30, 03:00:00 for 06:00, 03:30:00 for 06:30", 5},
		{"a daily job, back by an hour after its run", "0 1 * * *", -time.Hour, "01:00:00 for 01:00", 0},
		{"a daily job, back by two hours after its run", "0 1 * * *", -2 * time.Hour, "01:00:00 for 01:00, 03:00:00 for 01:00", 0},
		{"a daily job, back by an hour before its run", "0 2 * * *", -time.Hour, "03:00:00 for 02:00", 0},
		{"a daily job, ahead over its run", "0 2 * * *", 3 * time.Hour, "01:10:02 for 02:00", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c crew
				var offset atomic.Int64
				ticker := c.ticker(t, test.spec, false)
				ticker.Publish = func(_ context.Context, tick time.Time) { c.told = tick }
				ticker.By(func() time.Duration { return time.Duration(offset.Load()) })
				time.AfterFunc(70*time.Minute-time.Second, func() { offset.Store(int64(test.step)) })
				expect(t, "runs", lead(t, ticker, 4*time.Hour-time.Second, 0), strings.Split(test.runs, ", ")...)
				if c.missed != test.missed {
					t.Errorf("%d are missed, want %d", c.missed, test.missed)
				}
			})
		})
	}
}
