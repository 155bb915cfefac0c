package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// This file has members of a running cluster start again one by one, with other times or as another version,
// before a witness: see witness_linux_test.go.

// rolled is how the members of a cluster run from some moment on.
type rolled struct {
	name    string
	flags   []string
	program string // of another version; empty: this one
}

// roll restarts the members of a crew one by one, so that they run as each of the steps in turn.
func roll(t *testing.T, flags []string, whole bool, steps []rolled) {
	t.Helper()
	w := newWitness(t)
	c := newCrew(t, 3, nil)
	c.dir, c.command, w.watch = c.memory, []string{"scribe", w.socket}, c.watch
	c.to(steps[0], flags)
	c.startAll()
	defer func() {
		if w.judge(); t.Failed() {
			c.explain()
		}
	}()
	if w.next(0, runtest.Patience) == nil {
		t.Fatal("no member leads at the start")
	}
	c.agree(steps[0].name)
	for _, step := range steps[1:] {
		c.to(step, flags)
		for _, id := range []string{"1", "2", "3"} {
			c.send(id, syscall.SIGTERM)
			<-c.dead[id]
			c.start(id)
			if whole {
				c.agree(step.name + ", member " + id)
			}
		}
		for tries := 0; ; tries++ { // the leader may have handed over to one that has returned meanwhile
			leader := c.agree(step.name).Leader
			w.mu.Lock()
			before := w.highest
			w.mu.Unlock()
			if c.ask("POST", leader, "/v1/resign", "") && w.next(before, runtest.Patience) != nil {
				break
			}
			if tries == 5 {
				t.Fatalf("%s: no member leads after %s was asked to resign", step.name, leader)
			}
		}
		c.agree(step.name + ", resigned")
	}
}

// to has members that start from now on run as a step has it.
func (c *crew) to(step rolled, flags []string) {
	c.flags, c.wrap = slices.Concat(flags, step.flags), nil
	if step.program != "" {
		c.wrap = func(_ int, argv []string) []string { return append([]string{step.program}, argv[1:]...) }
	}
}

// leaderAt is the leader that a member names; none: it names none, or does not answer.
func (c *crew) leaderAt(id string) (l api.Leader) {
	client := &http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + c.http[id] + "/v1/leader")
	if err != nil {
		return l
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		_ = json.NewDecoder(resp.Body).Decode(&l)
	}
	return l
}

// agree waits until all members name one leader, and gives it, with the lowest epoch that a member names.
func (c *crew) agree(when string) (leader api.Leader) {
	c.T.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var ids []string
		leader = api.Leader{}
		for id := range c.http {
			l := c.leaderAt(id)
			if ids = append(ids, l.Leader); len(ids) == 1 || l.Epoch < leader.Epoch {
				leader = l
			}
		}
		if ids[0] != "" && len(slices.Compact(ids)) == 1 {
			return leader
		}
		if c.watch.Given(began, time.Now()) > runtest.Patience {
			c.T.Fatalf("%s: the members name %q as the leader", when, ids)
		}
	}
}

var (
	rollQuorum = []string{"--algorithm", "quorum", "--preempt=false", "--grace", "50ms"}
	rollBully  = []string{"--grace", "50ms"}
)

// Members that start again one by one with other times never have two leaders: under a quorum all times, with best
// effort the heartbeat.
func TestTimesChangeWithoutAStop(t *testing.T) {
	t.Parallel()
	long := []string{"--heartbeat", "60ms", "--t-max", "120ms", "--t-process", "250ms"}
	t.Run("quorum", func(t *testing.T) {
		roll(t, rollQuorum, false, []rolled{{name: "short", flags: sharpTimes}, {name: "long", flags: long}, {name: "short again", flags: sharpTimes}})
	})
	t.Run("bully", func(t *testing.T) {
		times := func(heartbeat string) []string {
			return []string{"--heartbeat", heartbeat, "--t-max", "500ms", "--t-process", "2s"}
		}
		roll(t, rollBully, true, []rolled{{name: "short", flags: times("50ms")}, {name: "long", flags: times("300ms")}, {name: "short again", flags: times("50ms")}})
	})
}

// BATUTA_TEST_EARLIER=FILE is the command of an earlier version. Members change from it to this version one by one, and back.
func TestVersionsChangeWithoutAStop(t *testing.T) {
	earlier := os.Getenv("BATUTA_TEST_EARLIER")
	if earlier == "" {
		t.Skip("set BATUTA_TEST_EARLIER to the command of an earlier version, as .ci/run does")
	}
	t.Parallel()
	steps := []rolled{{name: "earlier", program: earlier}, {name: "this version"}, {name: "earlier again", program: earlier}}
	t.Run("quorum", func(t *testing.T) { roll(t, slices.Concat(rollQuorum, sharpTimes), true, steps) })
	t.Run("bully", func(t *testing.T) {
		roll(t, slices.Concat(rollBully, []string{"--t-max", "500ms", "--t-process", "2s"}), true, steps)
	})
}
