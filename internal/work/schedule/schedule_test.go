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

// every is a schedule with a tick every so often, at an offset from midnight, or from the Monday of a week.
type every struct{ period, offset time.Duration }

// Next implements [schedule.Ticks].
func (e every) Next(t time.Time) time.Time {
	return t.Add(-e.offset).Truncate(e.period).Add(e.offset + e.period)
}

var (
	minutely = every{period: time.Minute}
	fives    = every{period: 5 * time.Minute}
	hourly   = every{period: time.Hour}
)

// daily has a tick at an hour of each day.
func daily(hour time.Duration) every { return every{24 * time.Hour, hour * time.Hour} }

// leapDays has a tick at the beginning of each 29 February.
type leapDays struct{}

// Next implements [schedule.Ticks].
func (leapDays) Next(t time.Time) time.Time {
	for year := t.Year(); ; year++ {
		if day := time.Date(year, time.February, 29, 0, 0, 0, 0, time.UTC); day.Month() == time.February && day.After(t) {
			return day
		}
	}
}

func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", clock)
	if err != nil {
		panic(err)
	}
	return t
}

func TestTheLatestMissedTick(t *testing.T) {
	for _, test := range []struct {
		ticks            schedule.Ticks
		since, now, want string
	}{
		{fives, "2026-11-22 02:00:00", "2026-11-22 02:04:59", ""},
		{fives, "2026-11-22 02:00:00", "2026-11-22 02:05:00", "2026-11-22 02:05:00"},
		{fives, "2026-11-22 02:00:00", "2026-11-22 09:32:10", "2026-11-22 09:30:00"},
		{minutely, "2016-11-22 02:00:00", "2026-11-22 09:32:10", "2026-11-22 09:32:00"},
		{every{7 * 24 * time.Hour, 3 * time.Hour}, "2026-11-01 00:00:00", "2026-11-22 09:32:10", "2026-11-16 03:00:00"},
		{leapDays{}, "2020-03-01 00:00:00", "2026-11-22 00:00:00", "2024-02-29 00:00:00"},
		{fives, "2026-11-22 02:00:00", "2026-11-22 01:00:00", ""}, // the clock was set back
	} {
		got := schedule.Schedule{Ticks: test.ticks}.Latest(at(test.since), at(test.now))
		if test.want == "" && !got.IsZero() || test.want != "" && !got.Equal(at(test.want)) {
			t.Errorf("%v from %s to %s: %s, want %q", test.ticks, test.since, test.now, got, test.want)
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

func (c *crew) ticker(t *testing.T, ticks schedule.Ticks, skip bool) *schedule.Ticker {
	return &schedule.Ticker{Schedule: schedule.Schedule{Ticks: ticks}, SkipMissed: skip, Watcher: c,
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
			lead(t, c.ticker(t, fives, false), 12*time.Minute, time.Second), "00:05:00 for 00:05", "00:10:00 for 00:10")
		time.Sleep(4 * time.Minute) // nobody leads at 00:15
		expect(t, "the second runs what was missed, late",
			lead(t, c.ticker(t, fives, false), 6*time.Minute, time.Second), "00:16:00 for 00:15", "00:20:00 for 00:20")
		expect(t, "the third has missed nothing",
			lead(t, c.ticker(t, fives, false), 4*time.Minute, time.Second), "00:25:00 for 00:25")
		time.Sleep(3 * time.Hour)
		expect(t, "of many that were missed one runs",
			lead(t, c.ticker(t, fives, false), 3*time.Minute, time.Second), "03:26:00 for 03:25")
		if c.missed != 35 { // 00:30 to 03:20
			t.Errorf("%d are missed", c.missed)
		}
	})
}

// While a job is paused no tick is run or missed, and a run that is requested begins at once.
func TestAPauseLeavesTicksOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew{paused: true, asked: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
		ticker := c.ticker(t, fives, false)
		time.AfterFunc(12*time.Minute, func() { c.asked <- struct{}{}; c.changed <- struct{}{} })
		expect(t, "paused", lead(t, ticker, 17*time.Minute, time.Second), "00:12:00 for 00:12")
		c.paused = false
		expect(t, "resumed", lead(t, ticker, 4*time.Minute, time.Second), "00:20:00 for 00:20")
		if c.missed != 0 {
			t.Errorf("%d are missed", c.missed)
		}
		var next crew // which learns that they were left out
		next.told = c.told
		expect(t, "the next", lead(t, next.ticker(t, fives, false), 2*time.Minute, time.Second))
	})
}

func TestAFirstLeaderThatDiesBeforeItsFirstTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		expect(t, "the first", lead(t, c.ticker(t, hourly, false), 59*time.Minute+59*time.Second, 0))
		time.Sleep(2 * time.Second)
		expect(t, "the second", lead(t, c.ticker(t, hourly, false), time.Minute, 0), "01:00:01 for 01:00")
	})
}

// A leader that has just started may lead before the last tick reaches it.
func TestALeaderReceivesTheLastTickSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		time.Sleep(17 * time.Minute)
		ticker, began := c.ticker(t, fives, false), time.Now()
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
		expect(t, "the first", lead(t, c.ticker(t, fives, true), 6*time.Minute, time.Second), "00:05:00 for 00:05")
		time.Sleep(5 * time.Minute)
		expect(t, "the second", lead(t, c.ticker(t, fives, true), 5*time.Minute, time.Second), "00:15:00 for 00:15")
		if c.missed != 1 {
			t.Errorf("%d are missed", c.missed)
		}
	})
}

// A tick that one leader has skipped is not counted again by the next, if that has led before.
func TestASkippedTickIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		first := c.ticker(t, fives, true)
		expect(t, "the first", lead(t, first, 6*time.Minute, time.Second), "00:05:00 for 00:05")
		expect(t, "the second", lead(t, c.ticker(t, fives, true), 12*time.Minute, 7*time.Minute), "00:10:00 for 00:10") // over 00:15
		expect(t, "the first again", lead(t, first, 3*time.Minute, time.Second), "00:20:00 for 00:20")
		if c.missed != 1 {
			t.Errorf("%d are missed", c.missed)
		}
	})
}

// A run that lasts beyond the next tick delays it: never two at a time.
func TestRunsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		expect(t, "runs of 7 minutes every 5", lead(t, c.ticker(t, fives, false), 20*time.Minute, 7*time.Minute),
			"00:05:00 for 00:05", "00:12:00 for 00:10", "00:19:00 for 00:15")
		var skips crew
		expect(t, "missed ones skipped", lead(t, skips.ticker(t, fives, true), 18*time.Minute, 7*time.Minute),
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
		expect(t, "the other", lead(t, c.ticker(t, fives, false), 11*time.Minute, 0), "00:10:00 for 00:10")
	})
}

// A clock that is set back by up to an hour has no tick run twice: the next run comes when the clock has passed the
// last. After more than an hour back, and after any step ahead, the schedule goes on from the present time at once.
func TestASchedulesClockIsSetBackAndAhead(t *testing.T) {
	job := every{period: 30 * time.Minute}
	const hour = "00:30:00 for 00:30, 01:00:00 for 01:00"
	for _, test := range []struct {
		name   string
		ticks  schedule.Ticks
		step   time.Duration // of the wall clock, 1 h 10 min after the start at midnight
		runs   string        // in four hours, by a clock that is right, and by which tick
		missed int
	}{
		{"back by an hour", job, -time.Hour, hour + ", 02:30:00 for 01:30, 03:00:00 for 02:00, 03:30:00 for 02:30", 0},
		{"back by three hours", job, -3 * time.Hour, hour + ", 01:30:00 for 22:30, 02:00:00 for 23:00, 02:30:00 for 23:30, 03:00:00 for 00:00, 03:30:00 for 00:30", 0},
		{"ahead by three hours", job, 3 * time.Hour, hour + ", 01:10:00 for 04:00, 01:30:00 for 04:30, 02:00:00 for 05:00, 02:30:00 for 05:30, 03:00:00 for 06:00, 03:30:00 for 06:30", 5},
		{"a daily job, back by an hour after its run", daily(1), -time.Hour, "01:00:00 for 01:00", 0},
		{"a daily job, back by two hours after its run", daily(1), -2 * time.Hour, "01:00:00 for 01:00, 03:00:00 for 01:00", 0},
		{"a daily job, back by an hour before its run", daily(2), -time.Hour, "03:00:00 for 02:00", 0},
		{"a daily job, ahead over its run", daily(2), 3 * time.Hour, "01:10:02 for 02:00", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c crew
				var offset atomic.Int64
				ticker := c.ticker(t, test.ticks, false)
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
