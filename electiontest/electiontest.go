// Package electiontest is the conformance kit for algorithms. A call runs an
// [election.Algorithm] in the simulator: an algorithm of batuta or of its user. Each failure
// names the rule that was broken.
package electiontest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// Run tests the algorithm that fresh returns. Each call of fresh must return a new algorithm,
// since an Algorithm belongs to a single Machine. Run plays the scripts of the kit, which state
// what every election must do. It also plays random schedules of faults, which must break no
// rule; with testing.Short it plays a tenth of them.
//
// A failure names the rule. It shows a short script that breaks the rule, and its trace.
func Run(t *testing.T, fresh func() election.Algorithm) {
	t.Helper()
	heard, arrives := listening(fresh)
	maker := func(string, string) (func() election.Algorithm, error) { return heard, nil }
	t.Run("it has a name and is new each time", func(t *testing.T) { fromFresh(t, fresh) })
	for _, c := range scripts {
		t.Run(c.rule, func(t *testing.T) {
			s, err := scenario.Parse(c.rule, c.script)
			if err != nil {
				t.Fatal(err)
			}
			play(t, maker, c.rule, s)
		})
	}
	t.Run("no rule breaks under random faults", func(t *testing.T) {
		Soak(t, maker, SoakConfig{Algorithm: "the algorithm", From: 1, To: schedules})
	})
	t.Run("what it sends arrives", arrives)
}

func fromFresh(t *testing.T, fresh func() election.Algorithm) {
	a, b := fresh(), fresh()
	switch {
	case a == nil || b == nil:
		t.Fatal("fresh gives nil: give a new Algorithm at each call")
	case a.Name() == "":
		t.Error("its Name is empty: logs and status have nothing to call it")
	case shared(a, b):
		t.Error("fresh gives the same Algorithm twice: it belongs to one Machine, make a new one at each call")
	}
}

// shared reports whether a and b have state that two Machines would both change. Values that are
// no pointers are copied; values without a size hold no state.
func shared(a, b election.Algorithm) bool {
	one, other := reflect.ValueOf(a), reflect.ValueOf(b)
	switch one.Kind() {
	case reflect.Pointer:
		return one.Type() == other.Type() && one.Pointer() == other.Pointer() && one.Type().Elem().Size() > 0
	case reflect.Map, reflect.Chan:
		return one.Type() == other.Type() && one.Pointer() == other.Pointer()
	}
	return false
}

// scripts are what every election must survive, whatever its leader. The names are the rules.
var scripts = []struct{ rule, script string }{
	{"a cluster that starts elects its highest rank", "members 1 2 3 4 5\nagree\nexpect leader 5\nexpect epoch 1"},
	{"one member leads itself", "members 1\nagree\nexpect leader 1"},
	{"two members survive the death of either", "members 1 2\nagree\ncrash 2\nagree\nexpect leader 1\nrestart 2\nagree\nexpect leader 2\ncrash 1\nrun 5s\nexpect leader 2"},
	{"the highest of the others follows a leader that crashes", "members 1 2 3 4 5\nagree\nmark\ncrash 5\nagree\nexpect leader 4\nexpect epoch 2\nexpect changes = 1"},
	{"a leader whose host vanishes is replaced", "members 1 2 3 4 5\nagree\npoweroff 5\nagree\nexpect leader 4"},
	{"a leader that is stopped is replaced, and knows when it wakes", "members 1 2 3\nagree\nfreeze 3\nrun 10s\nexpect leader 2 on 1,2\nthaw 3\nagree\nexpect leader 3"},
	{"a leader that resigns is followed by another and does not come back by itself", "members 1 2 3\nagree\nresign 3\nagree\nexpect leader 2\nrun 30s\nexpect leader 2"},
	{"a contest called while the leader lives changes nothing", "members 1 2 3\nagree\nmark\ncampaign 1\nrun 5s\nexpect leader 3\nexpect changes = 0\nexpect lost 1 = 0"},
	{"the highest rank takes over when it returns", "members 1 2 3\nagree\ncrash 3\nagree\nrestart 3\nagree\nexpect leader 3\nexpect epoch 3"},
	{"without preempting it follows when it returns", "members 1 2 3\npreempt off\nagree\ncrash 3\nagree\nrestart 3\nagree\nexpect leader 2\nexpect epoch 2"},
	{"a cut that leaves a witness changes nothing", "members 1 2 3\nagree\nmark\ncut 1-3\nrun 60s\nexpect leader 3\nexpect changes = 0"},
	{"each side of a partition has a leader, and one is left when it heals", "members 1 2 3 4 5\nagree\npartition 1,2 | 3,4,5\nagree\nexpect leader 2 on 1,2\nexpect leader 5 on 3,4,5\nheal\nagree\nexpect leader 5"},
	{"a cluster that loses power begins above all that its files know", "members 1 2 3\nagree\npoweroff 1 2 3\nrun 1s\nrestart 1 2 3\nagree\nexpect leader 3\nexpect epoch 2"},
	{"two that die in turn are replaced in turn", "members 1 2 3 4 5\nagree\ncrash 5\nrun 3ms\ncrash 4\nagree\nexpect leader 3"},
	{"a quiet cluster stays as it is", "members 1 2 3 4 5\nagree\nmark\nrun 5m\nexpect changes = 0\nexpect lost 1 = 0"},
}

// schedules is how many random schedules are played.
const schedules = 2000

// Soak plays the random schedules of c, with testing.Short a tenth of them. None may break a
// rule. It shrinks and shows the first that does.
func Soak(t *testing.T, maker Maker, c SoakConfig) {
	t.Helper()
	if testing.Short() {
		c.To = c.From + (c.To-c.From)/10
	}
	r, err := sim.Soak(t.Context(), maker, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations == 0 {
		t.Logf("%d schedules, %v simulated, agreement after %v at most", r.Schedules, r.Simulated, r.Agreed)
		return
	}
	s, v := sim.Shrink(c.Schedule(r.Failing[0].Seed), maker)
	if v == nil {
		t.Fatalf("seed %d broke a rule and did not when played again: the algorithm must draw on nothing but its events", r.Failing[0].Seed)
	}
	t.Errorf("%d of %d random schedules break a rule; the first is seed %d", r.Violations, r.Schedules, r.Failing[0].Seed)
	play(t, maker, "", s)
}

// play plays a script and reports which rule it breaks, and how.
func play(t *testing.T, maker Maker, rule string, s *Scenario) {
	log := trace.Log{Messages: true}
	_, err := playCaught(s, maker, log.Add)
	if err == nil {
		return
	}
	if v, ok := errors.AsType[*invariant.Violation](err); ok {
		rule = v.Rule
	}
	t.Errorf("rule broken: %s\n%v\nscript:\n%strace (its end):\n%s", rule, err, s, tail(log.Lines))
}

// playCaught turns a panic of the algorithm into an error.
func playCaught(s *Scenario, maker Maker, log func(trace.Entry)) (o sim.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panics: %v", r)
		}
	}()
	return sim.Play(s, maker, log)
}

// tail returns the end of a long trace.
func tail(lines []string) string {
	const most = 60
	text := ""
	for _, line := range slices.Clone(lines[max(0, len(lines)-most):]) {
		text += line + "\n"
	}
	return text
}
