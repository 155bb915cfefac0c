package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batuta-dev/batuta/internal/cli"
	"github.com/batuta-dev/batuta/internal/fulltest"
	"github.com/batuta-dev/batuta/internal/run/runtest"
)

// newCompany is a cluster of processes that stand for many elections, each with a worker that
// must be alone. Under a quorum it is, also when whoever runs it is killed.
func newCompany(t *testing.T, verb, flag, schedule string, names ...string) *company {
	t.Helper()
	c := newCrew(t, 3, []string{"--algorithm", "quorum", "--grace", "50ms"})
	c.verb, c.dir, c.command = verb, t.TempDir(), []string{}
	var lines []string
	for _, name := range names {
		words := c.Argv("name="+name, "child", "lock="+filepath.Join(c.dir, name))
		lines = append(lines, fmt.Sprintf("%s %s worker %s\n", name, schedule, strings.Join(words, " ")))
	}
	file := filepath.Join(c.dir, "lines")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.flags = append(c.flags, flag, file)
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
	newCompany(t, "run", "--jobs", "@always", "report", "backup", "prune").goesOn("report")
}

// Whoever is killed that leads some of many elections: others lead those, and work for them.
func TestElectionsOfAFileGoOnElsewhere(t *testing.T) {
	newCompany(t, "agent", "--elections", "", "shard-1", "shard-2", "shard-3").goesOn("shard-1")
}
