package batutacron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/batutacron"
)

func parse(t *testing.T, spec string) *batutacron.Schedule {
	t.Helper()
	s, err := batutacron.Parse(spec)
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
		"@every":                    "counts from when a process started",
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
		if _, err := batutacron.Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
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
