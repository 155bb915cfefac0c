package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/jobs"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// newCompany is a cluster of processes that stand for many elections, each with a worker that
// must be alone. Under a quorum it is, also when whoever runs it is killed.
func newCompany(t *testing.T, verb string, flags []string, schedule, worker string, names ...string) *company {
	t.Helper()
	c := newCrew(t, 3, []string{"--algorithm", "quorum", "--grace", "50ms"})
	c.verb, c.dir, c.command = verb, c.memory, []string{}
	var lines []string
	for _, name := range names {
		words := c.Argv("name="+name, worker, "lock="+filepath.Join(c.dir, name))
		lines = append(lines, fmt.Sprintf("%s %s worker %s\n", name, schedule, strings.Join(words, " ")))
	}
	file := filepath.Join(c.dir, "lines")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.flags = append(append(c.flags, flags...), file)
	c.startAll()
	return &company{crew: c}
}

// company is a crew of such processes.
type company struct {
	*crew
	all []*runtest.Worker // that have come
}

// elsewhere waits for a worker of that name that is not member id's, whatever comes before:
// the others are given their share.
func (c *company) elsewhere(name, id string) *runtest.Worker {
	c.T.Helper()
	for {
		w := c.Next()
		c.all = append(c.all, w)
		if w.Words == "deaf" {
			continue
		}
		c.alone(w)
		if strings.HasPrefix(w.Words, "name="+name+",") && leaderOf(w) != id {
			return w
		}
	}
}

// goesOn has whoever runs the first of those be killed, some times over, and then has all end:
// nobody is left of them.
func (c *company) goesOn(name string) {
	c.T.Helper()
	dead, w := "", c.elsewhere(name, "")
	for range fulltest.Size(1, 4) {
		if dead != "" {
			c.start(dead)
		}
		dead = leaderOf(w)
		c.signal(dead, syscall.SIGKILL)
		next := c.elsewhere(name, dead)
		c.Dies(w)
		c.ends(dead)
		w = next
	}
	delete(c.runs, dead)
	for id := range c.runs {
		c.signal(id, syscall.SIGTERM)
	}
	for id := range c.runs {
		if code := c.ends(id); code != cli.Done {
			c.T.Errorf("member %s ended with exit code %d", id, code)
		}
	}
	for _, w := range c.all {
		c.Dies(w)
	}
}

// Whoever is killed that runs a job: another runs it, and never two at once.
func TestAJobGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	newCompany(t, "run", []string{"--finish", "0s", "--jobs"}, "@always", "child", "report", "backup", "prune").goesOn("report")
}

// Whoever is killed that leads some of many elections: others lead those, and work for them.
func TestElectionsOfAFileGoOnElsewhere(t *testing.T) {
	t.Parallel()
	newCompany(t, "agent", []string{"--elections"}, "", "child", "shard-1", "shard-2", "shard-3").goesOn("shard-1")
}

// A run that is under way when its job is handed over ends by itself, and nobody runs the job
// before it has.
func TestARunEndsBeforeItsJobIsHandedOver(t *testing.T) {
	t.Parallel()
	c := newCompany(t, "run", []string{"--profile", "wan", "--finish", "10m", "--jobs"}, "@always", "quit=0", "report")
	w := c.Next()
	from, to := leaderOf(w), "1"
	if from == to {
		to = "2"
	}
	client, err := api.NewClient(c.http[from], api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		over <- client.Call(t.Context(), "POST", "/v1/transfer", api.Heir{ID: to, Election: "report"}, nil)
	}()
	for late := time.Now().Add(runtest.Patience); c.led(from, "report"); {
		if time.Now().After(late) {
			t.Fatal("it is not handed over")
		}
	}
	c.signal(from, syscall.SIGUSR2)
	c.Awaits(w, "user defined signal 2")
	c.Dies(w)
	next := c.Next()
	c.alone(next)
	if id := leaderOf(next); id != to {
		t.Errorf("member %s runs it next, and not %s", id, to)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// list is what member id answers about the job named report; once it satisfies is, or the test fails.
func (c *company) list(id string, is func(joblist.Job) bool) joblist.Job {
	c.T.Helper()
	client, err := api.NewClient(c.http[id], api.Access{})
	if err != nil {
		c.T.Fatal(err)
	}
	for late := time.Now().Add(runtest.Patience); ; time.Sleep(20 * time.Millisecond) {
		var list []joblist.Job
		err := client.Get(c.T.Context(), "/v1/jobs", &list)
		if err == nil && len(list) == 1 && list[0].Name == "report" && is(list[0]) {
			return list[0]
		}
		if time.Now().After(late) {
			shown, _ := json.Marshal(list)
			c.T.Fatalf("member %s lists %s (%v)", id, shown, err)
		}
	}
}

func by(id, result string) func(joblist.Job) bool {
	return func(j joblist.Job) bool {
		return j.By != nil && *j.By == id && j.Result != nil && *j.Result == result
	}
}

// Each member lists the last run of a job, also when its member was killed.
func TestJobsAreListedAtEachMember(t *testing.T) {
	t.Parallel()
	c := newCompany(t, "run", []string{"--profile", "wan", "--finish", "0s", "--jobs"}, "@always", "quit=0", "report")
	w := c.Next()
	from := leaderOf(w)
	for id := range c.runs {
		j := c.list(id, by(from, joblist.Running))
		if j.Schedule != "@always" || j.Leader == nil || *j.Leader != from || j.Next == nil || j.Last == nil || j.Exit != nil || j.Took != nil || j.Tries != 1 || j.ByHand {
			t.Errorf("member %s lists %+v", id, j)
		}
	}
	c.signal(from, syscall.SIGKILL)
	c.ends(from)
	delete(c.runs, from)
	next := leaderOf(c.Next())
	for id := range c.runs {
		c.list(id, by(next, joblist.Running))
	}
	for id := range c.runs {
		if code, out := c.jobs(id); code != cli.Done || !strings.Contains(out, "report") || !strings.Contains(out, "running") {
			t.Errorf("jobs ended with %d: %s", code, out)
		}
	}
}

// jobs is "batuta jobs" at member id.
func (c *company) jobs(id string, args ...string) (code int, out string) {
	var both bytes.Buffer
	code = run(c.T.Context(), append([]string{"jobs", "--agent", c.http[id]}, args...), cli.Env{Stdout: &both, Stderr: &both, Lookup: func(string) (string, bool) { return "", false }})
	return code, both.String()
}

// other is a member that runs, and is not id.
func (c *company) other(id string) string {
	for other := range c.runs {
		if other != id {
			return other
		}
	}
	c.T.Fatal("no other member runs")
	return ""
}

// A job is run and paused through any member. The pause, and what is known of the last run, outlive the
// death of the member that led the job, and reach it when it comes back.
func TestAJobIsRunAndPausedThroughAnyMember(t *testing.T) {
	t.Parallel()
	c := newCompany(t, "run", []string{"--profile", "wan", "--finish", "0s", "--jobs"}, "@yearly", "quit=7", "report")
	all := func(is func(joblist.Job) bool) {
		t.Helper()
		for id := range c.runs {
			c.list(id, is)
		}
	}
	led := func(j joblist.Job) bool { return j.Leader != nil }
	all(led)
	from := *c.list("1", led).Leader
	does := func(id string, want int, args ...string) {
		t.Helper()
		if code, out := c.jobs(id, args...); code != want {
			t.Errorf("jobs %q at %s ended with %d, want %d: %s", args, id, code, want, out)
		}
	}
	does(c.other(from), cli.Unknown, "run", "unknown")
	does(c.other(from), cli.Done, "run", "report")
	w := c.Next()
	if leaderOf(w) != from {
		t.Errorf("it runs on %s, and %s leads it", leaderOf(w), from)
	}
	all(by(from, joblist.Running))
	does(c.other(from), cli.Failed, "run", "report")
	c.signal(from, syscall.SIGUSR2)
	c.Awaits(w, "user defined signal 2")
	all(func(j joblist.Job) bool {
		return by(from, joblist.Failed)(j) && j.ByHand && !j.Paused && j.Next != nil && j.Exit != nil && *j.Exit == 7 && j.Took != nil
	})

	does(c.other(from), cli.Done, "pause", "report")
	paused := func(j joblist.Job) bool { return j.Paused && j.Next == nil && j.Leader != nil }
	all(paused)
	c.signal(from, syscall.SIGKILL)
	c.ends(from)
	delete(c.runs, from)
	moved := func(j joblist.Job) bool { return paused(j) && *j.Leader != from && by(from, joblist.Failed)(j) }
	all(moved)
	c.start(from)
	all(func(j joblist.Job) bool { return paused(j) && by(from, joblist.Failed)(j) })

	does(from, cli.Done, "run", "report")
	now := leaderOf(c.Next())
	all(by(now, joblist.Running))
	does(from, cli.Done, "resume", "report")
	all(func(j joblist.Job) bool { return !j.Paused && j.Next != nil })
}

// led reports whether an election has a leader, as member id sees it.
func (c *company) led(id, name string) bool {
	c.T.Helper()
	resp, err := http.Get("http://" + c.http[id] + "/v1/leader?election=" + name)
	if err != nil {
		c.T.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func TestTheExamplesAreGood(t *testing.T) {
	for name, f := range map[string]jobs.Format{"elections.txt": {}, "jobs.txt": {Jobs: true, Schedule: scheduleOf}} {
		if lines, err := f.Read("../../examples/jobs/" + name); err != nil || len(lines) < 3 {
			t.Errorf("%s: %d lines, %v", name, len(lines), err)
		}
	}
}
