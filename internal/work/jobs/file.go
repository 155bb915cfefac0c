package jobs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/batuta-dev/batuta/internal/work/run"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// Bounds of a file.
const (
	MaxElections = batuta.MaxElections // lines of a file of elections
	MaxJobs      = 100                 // lines of a file of jobs: a member publishes the last tick of each
	MaxRetries   = maxTries - 1        // of a run
	maxLine      = 16 << 10            // bytes of a line
	maxFaults    = 5                   // in a single error
)

// Line is an election in which a member is a candidate, and its work as the leader.
type Line struct {
	Number int    // of the line, from 1
	Text   string // as in the file
	Name   string // of the election, in its canonical form
	How    named.Candidacy
	Argv   []string  // the command; nil: it only leads
	Plan   *run.Plan // when the command runs; nil: for as long as the member leads
	Spec   string    // the schedule as in the file
}

// Format is how to read the lines of a file.
type Format struct {
	Own        string                                  // the cluster's own election, which no file may have
	Jobs       bool                                    // each line has a schedule, and a command
	SkipMissed bool                                    // whether to skip missed ticks, for a line without this option
	Schedule   func(string) (schedule.Schedule, error) // reads the schedule of a job
}

// Read reads a file with a line per election.
//
//	NAME [weight=N] [prefer] [seats=N] [COMMAND ARG…]
//	NAME SCHEDULE [weight=N] [prefer] [missed=run|skip] [timeout=DURATION] [retries=N] COMMAND ARG…
//
// It splits a line like a hook, so a name with a space needs quotes. "{election}" in a command is
// replaced by the name, and "--" may precede the command. It ignores empty lines and lines that
// begin with '#'. Its error names the file, the line, and how to fix it.
func (f Format) Read(path string) ([]Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, err := f.parse(path, file)
	if err == nil && len(lines) == 0 {
		if f.Jobs {
			err = fmt.Errorf("%s holds no job: write a name, a schedule and a command, one job per line, such as: report */5 * * * * ./report", path)
		} else {
			err = fmt.Errorf("%s names no election: write one per line, such as: shard-17", path)
		}
	}
	return lines, err
}

func (f Format) parse(path string, from io.Reader) (lines []Line, err error) {
	names, marks := map[string]int{}, map[string]int{}
	var faults []error
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxLine)
	number := 0
	for in.Scan() && len(faults) < maxFaults {
		number++
		text := bytes.TrimPrefix(in.Bytes(), []byte("\ufeff"))
		if text = bytes.TrimSpace(text); len(text) == 0 || text[0] == '#' {
			continue
		}
		l, err := f.line(string(text))
		l.Number = number
		if err == nil {
			err = f.beside(l, len(lines), names, marks)
		}
		if errors.Is(err, errTooMany) {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		} else if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", path, number, err))
			continue
		}
		lines = append(lines, l)
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		faults = append(faults, fmt.Errorf("%s:%d: the line has more than %d bytes", path, number+1, maxLine))
	} else if err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", path, err))
	}
	return lines, errors.Join(faults...)
}

var errTooMany = errors.New("too many")

// beside checks a line against the lines before it.
func (f Format) beside(l Line, before int, names, marks map[string]int) error {
	switch {
	case f.Jobs && before >= MaxJobs:
		return fmt.Errorf("%w: this is job %d, and a file holds at most %d: put the others into another file, for another cluster", errTooMany, before+1, MaxJobs)
	case before >= MaxElections:
		return fmt.Errorf("%w: this is election %d, and a cluster holds at most %d: leave some out, or use another cluster", errTooMany, before+1, MaxElections)
	case names[l.Name] > 0:
		return fmt.Errorf("%q is in line %d already: keep one", election.Shown(l.Name), names[l.Name])
	}
	names[l.Name] = l.Number
	if mark := markOf(l.Name); f.Jobs && marks[mark] > 0 {
		return fmt.Errorf("members cannot distinguish the ticks of %q and of line %d: rename one", election.Shown(l.Name), marks[mark])
	} else {
		marks[mark] = l.Number
	}
	return nil
}

func (f Format) line(text string) (l Line, err error) {
	l.Text = text
	if !utf8.ValidString(text) {
		return l, errors.New("this is no UTF-8")
	}
	words, err := hooks.Words(text)
	if err != nil {
		return l, err
	}
	if l.Name, err = named.Name(words[0]); err != nil {
		return l, err
	}
	if l.Name == f.Own {
		return l, fmt.Errorf("%q is the cluster's own election, for which every member stands: leave it out, or use batuta run", l.Name)
	}
	words = words[1:]
	if f.Jobs {
		l.Plan = &run.Plan{SkipMissed: f.SkipMissed}
		if words, err = f.schedule(&l, words); err != nil {
			return l, err
		}
	}
	if words, err = l.options(words); err != nil {
		return l, err
	}
	for _, w := range words {
		l.Argv = append(l.Argv, strings.ReplaceAll(w, "{election}", l.Name))
	}
	switch {
	case len(l.Argv) > 0:
		if err := hooks.Runnable(l.Argv, text); err != nil {
			return l, fmt.Errorf("command: %w; put a name with a space in quotes", err)
		}
	case f.Jobs:
		return l, errors.New("no command: write it after the schedule, such as: report */5 * * * * ./report")
	}
	return l, nil
}

const fiveFields = "write minute, hour, day of the month, month and day of the week after the name, as in: report */5 * * * * ./report"

// cronField matches what may be a field of a schedule.
var cronField = regexp.MustCompile(`(?i)^([*?]|[0-9]|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)([-,/]|$))`)

// schedule parses the schedule at the beginning of a line: five fields, or @daily and the like,
// optionally after a time zone or in quotes. It returns the rest.
func (f Format) schedule(l *Line, words []string) (rest []string, err error) {
	n := 0
	if n < len(words) && (strings.HasPrefix(words[n], "CRON_TZ=") || strings.HasPrefix(words[n], "TZ=")) && !strings.Contains(words[n], " ") {
		n++
	}
	switch {
	case n < len(words) && (strings.HasPrefix(words[n], "@") || strings.Contains(words[n], " ")):
		n++
	default:
		for range 5 {
			if n < len(words) && !cronField.MatchString(words[n]) {
				return nil, fmt.Errorf("no schedule: %q is no field of it: %s", election.Shown(words[n]), fiveFields)
			}
			n++
		}
	}
	if len(words) < n {
		return nil, errors.New("no schedule: " + fiveFields)
	}
	l.Spec = strings.Join(words[:n], " ")
	if l.Plan.Schedule, err = f.Schedule(l.Spec); err != nil {
		return nil, fmt.Errorf("schedule %w", err)
	}
	return words[n:], nil
}

// optionName matches the name before '=', of an option or of a variable of a shell.
var optionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func optionsOf(job bool) string {
	if job {
		return "weight=N, prefer, missed=run, missed=skip, timeout=DURATION or retries=N"
	}
	return "weight=N, prefer or seats=N"
}

// options parses the options before the command, and returns the command.
func (l *Line) options(words []string) (rest []string, err error) {
	for i, w := range words {
		key, value, given := strings.Cut(w, "=")
		switch {
		case w == "--":
			return words[i+1:], nil
		case w == "prefer":
			l.How.Prefer = true
		case given && key == "weight":
			err = number(&l.How.Weight, value, named.MaxWeight)
		case given && key == "seats" && l.Plan != nil:
			err = errors.New("at most one run of a job at a time: leave it out")
		case given && key == "seats":
			err = number(&l.How.Seats, value, named.MaxSeats)
		case given && key == "missed" && l.Plan == nil:
			err = errors.New("it is for jobs, which have a schedule: leave it out")
		case given && (key == "timeout" || key == "retries") && l.Plan == nil:
			err = errors.New("it is for jobs, which have a schedule: leave it out")
		case given && key == "timeout":
			if l.Plan.Timeout, err = time.ParseDuration(value); err != nil || l.Plan.Timeout < time.Second {
				err = errors.New("give a time of 1s or more, such as 10m")
			}
		case given && key == "retries":
			err = number(&l.Plan.Retries, value, MaxRetries)
		case given && key == "missed":
			l.Plan.SkipMissed, err = SkipMissed(value)
		case given && optionName.MatchString(key):
			err = fmt.Errorf("no such option: use %s; to set a variable of the command, write env before it, and a command of that name follows --", optionsOf(l.Plan != nil))
		default:
			return words[i:], nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", election.Shown(w), err)
		}
	}
	return nil, nil
}

// SkipMissed reads what to do with missed ticks: run or skip.
func SkipMissed(word string) (bool, error) {
	if word != "run" && word != "skip" {
		return false, errors.New("use run or skip")
	}
	return word == "skip", nil
}

func number(n *int, text string, most int) (err error) {
	if *n, err = strconv.Atoi(text); err != nil || *n < 1 || *n > most {
		return fmt.Errorf("give a number of 1 to %d", most)
	}
	return nil
}
