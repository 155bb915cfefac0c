package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// read takes every schedule but "61 * * * *" and "@every".
func read(spec string) (schedule.Schedule, error) {
	if spec == "61 * * * *" || spec == "@every" {
		return schedule.Schedule{}, errors.New("is none")
	}
	return schedule.Schedule{Ticks: minutely{}}, nil
}

func TestLinesOfElections(t *testing.T) {
	lines, err := Format{Own: "default"}.parse("file", strings.NewReader("\ufeff# all of them\r\n\r\nshard-1\r\n  'shard 2' weight=7 prefer seats=3\nw prefer -- true {election} 'a b'\nv true weight=2"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprintf("%d %s %d %t %d %q", l.Number, l.Name, l.How.Weight, l.How.Prefer, l.How.Seats, l.Argv))
	}
	want := []string{`3 shard-1 0 false 0 []`, `4 shard 2 7 true 3 []`, `5 w 0 true 0 ["true" "w" "a b"]`, `6 v 0 false 0 ["true" "weight=2"]`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLinesOfJobs(t *testing.T) {
	lines, err := Format{Jobs: true, SkipMissed: true, Schedule: read}.parse("file", strings.NewReader(
		"a */5 * * * * true\nb @daily weight=2 missed=run timeout=10m retries=2 true\nc CRON_TZ=Europe/Madrid 30 4 * * * -- true {election}\nd '0 3 * * 1' missed=skip true\ne 'CRON_TZ=Asia/Tokyo @monthly' true"))
	if err != nil {
		t.Fatal(err)
	}
	if p := lines[1].Plan; p.Timeout != 10*time.Minute || p.Retries != 2 {
		t.Errorf("%+v", p)
	}
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprintf("%s %q %t %q", l.Name, l.Spec, l.Plan.SkipMissed, l.Argv))
	}
	want := []string{`a "*/5 * * * *" true ["true"]`, `b "@daily" false ["true"]`, `c "CRON_TZ=Europe/Madrid 30 4 * * *" true ["true" "c"]`, `d "0 3 * * 1" true ["true"]`, `e "CRON_TZ=Asia/Tokyo @monthly" true ["true"]`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestBadLinesAreRefusedWithTheirNumber(t *testing.T) {
	for _, tt := range []struct {
		jobs       bool
		text, want string
	}{
		{false, "a\na\n", `file:2: "a" is in line 1 already`},
		{false, "e\u0301\n\u00e9\n", `is in line 1 already`}, // one name in two forms
		{false, strings.Repeat("x", 257), `file:1: election name of 257 bytes is too long: at most 256`},
		{false, "a\n\"b\tc\"", `file:2: election name "b\tc" holds what does not print`},
		{false, "a\x00b", `holds what does not print`},
		{false, "..", `election name ".." is none that a path of the HTTP API can have`},
		{false, "a\xff", `file:1: this is no UTF-8`},
		{false, "''", `an election needs a name`},
		{false, "default", `"default" is the cluster's own election`},
		{false, "a 'b", `a quote is not closed`},
		{false, "a weight=0", `weight=0: give a number of 1 to 1048576`},
		{false, "a weight=many", `give a number of 1 to 1048576`},
		{false, "a seats=65", `seats=65: give a number of 1 to 64`},
		{false, "a missed=run", `missed=run: it is for jobs`},
		{false, "shard 17", `file:1: command: exec: "17": executable file not found in $PATH; give the path of a program, or one that is in PATH; put a name with a space in quotes`},
		{false, "a true | cat", `| is for a shell to read`},
		{false, "a\n" + strings.Repeat("y", maxLine), `file:2: the line has more than 16384 bytes`},
		{true, "a */5 * * *", `no schedule`},
		{true, "a */5 * * * true", `file:1: no schedule: "true" is no field of it: write minute, hour, day of the month, month and day of the week after the name`},
		{true, "a 0 4 1-7 JAN,feb mon-fri", `no command`},
		{true, "a @daily retrys=2 true", `file:1: retrys=2: no such option: use weight=N, prefer, missed=run, missed=skip, timeout=DURATION or retries=N; to set a variable of the command, write env before it`},
		{true, "a @daily prefer=yes true", `prefer=yes: no such option`},
		{true, "a @daily LANG=C true", `write env before it`},
		{false, "a weigth=2", `weigth=2: no such option: use weight=N, prefer or seats=N`},
		{true, "a", `no schedule`},
		{true, "a 61 * * * * true", `file:1: schedule is none`},
		{true, "a @every 5m true", `file:1: schedule is none`},
		{true, "a @daily", `no command`},
		{true, "a @daily seats=2 true", `seats=2: at most one run of a job at a time`},
		{false, "a retries=2", `retries=2: it is for jobs`},
		{true, "a @daily timeout=10 true", `timeout=10: give a time of 1s or more, such as 10m`},
		{true, "a @daily timeout=-1s true", `timeout=-1s: give a time`},
		{true, "a @daily retries=7 true", `retries=7: give a number of 1 to 6`},
		{true, "a @daily missed=later true", `missed=later: use run or skip`},
	} {
		_, err := Format{Own: "default", Jobs: tt.jobs, Schedule: read}.parse("file", strings.NewReader(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestAFileHoldsNoMoreThanItsBound(t *testing.T) {
	text := func(n int, rest string) *strings.Reader {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "n%d%s\n", i, rest)
		}
		return strings.NewReader(b.String())
	}
	if lines, err := (Format{}).parse("file", text(MaxElections, "")); err != nil || len(lines) != MaxElections {
		t.Errorf("%d elections, %v", len(lines), err)
	}
	if _, err := (Format{}).parse("file", text(MaxElections+2, "")); err == nil || !strings.Contains(err.Error(), "file:65537: too many: this is election 65537, and a cluster holds at most 65536") {
		t.Error(err)
	}
	lines, err := Format{Jobs: true, Schedule: read}.parse("file", text(MaxJobs, " @daily true"))
	if err != nil || len(lines) != MaxJobs {
		t.Errorf("%d jobs, %v", len(lines), err)
	}
	if _, err := (Format{Jobs: true, Schedule: read}).parse("file", text(MaxJobs+1, " @daily true")); err == nil || !strings.Contains(err.Error(), "file:101: too many: this is job 101, and a file holds at most 100") {
		t.Error(err)
	}
	if err := (Config{Lines: lines}).Check(); err != nil {
		t.Errorf("a member cannot tell of %d jobs: %v", MaxJobs, err)
	}
	if err := (Config{Lines: lines, Meta: map[string]string{"url": strings.Repeat("x", 200)}}).Check(); err == nil {
		t.Errorf("it tells of %d jobs beside 200 bytes of its own", MaxJobs)
	}
}

// Members tell the ticks of a job by a mark of 24 bits: two jobs that share one are refused.
func TestTwoJobsWhoseTicksWouldBeOneAreRefused(t *testing.T) {
	seen, first, second := map[string]string{}, "", ""
	for i := 0; second == ""; i++ {
		name := fmt.Sprintf("job-%d", i)
		mark := markOf(name)
		if other, taken := seen[mark]; taken {
			first, second = other, name
		}
		seen[mark] = name
	}
	_, err := Format{Jobs: true, Schedule: read}.parse("jobs", strings.NewReader(first+" @daily true\n"+second+" @daily true\n"))
	if err == nil || !strings.Contains(err.Error(), "rename one") {
		t.Errorf("%s and %s: %v", first, second, err)
	}
}
