package main

import (
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/jobs"
	"github.com/batuta-dev/batuta/internal/command/schedule"
	"github.com/batuta-dev/batuta/internal/core/named"
)

// defaultFinish is well within what "batuta drain" waits for.
const defaultFinish = 30 * time.Second

// lineFlags name files with an election in each line, of which the member is a candidate.
type lineFlags struct {
	elections string // of "batuta agent"
	jobs      string // of "batuta run"
	finish    time.Duration
}

func (f *lineFlags) registerElections(fs *pflag.FlagSet) {
	fs.StringVar(&f.elections, "elections-file", "", "`FILE` of elections for which this member is a candidate, one per line: NAME [weight=N] [prefer] [seats=N] [COMMAND ARG...], which runs while this member leads it; SIGHUP reads it again")
	cli.Alias(fs, "elections-file", "elections")
}

func (f *lineFlags) registerJobs(fs *pflag.FlagSet) {
	fs.StringVar(&f.jobs, "jobs", "", "`FILE` of jobs, one per line: NAME SCHEDULE [weight=N] [prefer] [missed=run|skip] [timeout=DURATION] [retries=N] COMMAND ARG..., each an election of its own; SIGHUP reads it again")
	fs.DurationVar(&f.finish, "finish", defaultFinish, "when a job moves to another member, let a run that is under way go on for `DURATION`, then stop it [--jobs]")
}

// file is the file that they name; nil: none.
func (f *lineFlags) file(a *agentFlags, p *planFlags, parse func(string) (schedule.Schedule, error)) (*lineFile, error) {
	l := &lineFile{flag: "--elections-file", path: f.elections, format: jobs.Format{Own: ownElection, Schedule: parse}}
	if f.jobs != "" {
		l.flag, l.path, l.format.Jobs = "--jobs", f.jobs, true
	}
	switch {
	case f.finish < 0:
		return nil, cli.Usagef("--finish %v is negative: give 0s to have a job stopped at once", f.finish)
	case f.jobs == "" && f.finish != 0 && f.finish != defaultFinish:
		return nil, cli.Usagef("--finish %v goes with --jobs: add that, or leave it out", f.finish)
	case l.path == "":
		return nil, nil
	case f.jobs != "" && p.schedule != "":
		return nil, cli.Usagef("--schedule does not go with --jobs, in which each line has one: leave one out")
	}
	var err error
	if l.format.SkipMissed, err = p.skips(); err != nil {
		return nil, err
	}
	if err := manyElections(l.flag, a); err != nil {
		return nil, err
	}
	if l.lines, err = l.format.Read(l.path); err != nil {
		return nil, cli.Usagef("%s: %w", l.flag, cli.Unread(err))
	}
	if err := (jobs.Config{Lines: l.lines, Meta: a.membership.meta}).Check(); err != nil {
		return nil, cli.Usagef("--jobs: besides --meta, a member publishes the last scheduled time of each job: %w", err)
	}
	return l, nil
}

// lineFile is a file of elections, or of jobs.
type lineFile struct {
	flag, path string
	format     jobs.Format
	lines      []jobs.Line
}

// crew is for its lines.
func (l *lineFile) crew(a *agentRun, j *job, self string) (*jobs.Crew, error) {
	c := jobs.Config{Lines: l.lines, Grace: j.grace, Finish: j.named.finish, Heartbeat: a.flags.heartbeat, T: a.flags.timing().T(), Program: self, Guard: guardLine(),
		Meta: a.flags.membership.meta, Logger: a.log}
	if !l.format.Jobs {
		c.Stdout = os.Stderr // standard output is for events
	}
	return jobs.New(c)
}

// reload reads its lines again. With an error what was goes on.
func (j *job) reload() error {
	if j == nil || j.file == nil {
		return nil
	}
	lines, err := j.file.format.Read(j.file.path)
	if err != nil {
		return err
	}
	return j.crew.Change(lines)
}

// book is what this agent knows of jobs.
func (j *job) book() *jobs.Book {
	if j == nil || j.crew == nil {
		return jobs.NewBook()
	}
	return j.crew.Book()
}

// has reports whether this agent is itself a candidate of that election.
func (j *job) has(election string) bool {
	switch {
	case j == nil:
		return false
	case j.file != nil:
		return j.crew.Has(election)
	}
	canonical, _ := named.Name(j.election.name) // it has been checked
	return j.election.name != "" && canonical == election
}

// shows returns the elections that the events include; nil: none.
func (j *job) shows() func(election string) bool {
	switch {
	case j == nil:
		return nil
	case j.file != nil:
		return func(string) bool { return true }
	case j.election.name != "":
		canonical, _ := named.Name(j.election.name) // it has been checked
		return func(name string) bool { return name == canonical }
	}
	return nil
}
