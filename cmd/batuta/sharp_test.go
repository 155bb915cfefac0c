package main

import (
	"os"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// Three members with the times of sharp, on an idle machine, suspect nobody for whom the machine
// has time: before each suspicion it has held up a processor for longer than t_process, which is
// what T allows for. Where others compute this says nothing: who waits for a processor is not
// seen by a heartbeat that gets it at once.
func TestSharpSuspectsNobodyWhoRuns(t *testing.T) {
	text := os.Getenv("BATUTA_TEST_SHARP")
	if text == "" {
		t.Skip("BATUTA_TEST_SHARP, how long an idle machine is to be watched, is not set")
	}
	watched, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("BATUTA_TEST_SHARP=%s: how long an idle machine is to be watched, such as 1h: %v", text, err)
	}
	sharp := profiles["sharp"]
	watch := stalltest.Start(t)
	c, _ := startCluster(t, 3, "--profile", "sharp")
	began := time.Now()
	all := 0
	for time.Since(began) < watched {
		c.mark()
		if err := c.settle(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.members {
			for _, e := range m.events {
				if !suspects(e) {
					continue
				}
				all++
				from := e.Time.Add(-2 * sharp.T())
				held := e.Time.Sub(from) - watch.Given(from, e.Time.Time)
				t.Logf("%v after the start %s tells %s %s%s %s: in the %v before, the machine stalled for %v",
					e.Time.Sub(began), m.id, e.Event, e.Leader, e.Member, e.Cause, 2*sharp.T(), held)
				if held < sharp.TProcess {
					t.Errorf("%s suspected somebody for whom the machine had time", m.id)
				}
			}
		}
	}
	t.Logf("%d suspicions in %v; the machine's longest stall was %v", all, watched, watch.Longest(began, time.Now()))
}

// suspects reports whether a line tells of a silence: not of a member that was itself stopped,
// nor of what comes of either.
func suspects(e api.Line) bool {
	return e.Event == "lost" && e.Cause == string(election.CauseSilent) || e.Event == "member" && e.State == string(election.StateUnreachable)
}
