package player_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/command/lab/player"
)

const crash = "members 1 2 3\nseed 7\nrun 1s\ncrash 3\nagree\nexpect leader 2\n"

// What is played has what a picture needs: every message has a sender and, but for the
// lost, an arrival behind its departure, and causes lie before what they cause.
func TestPlay(t *testing.T) {
	p := player.Play(crash)
	if p.Fault != nil || p.Failure != "" || p.Leader != "2" || p.Elapsed < 1000 || p.More {
		t.Fatalf("%v, %q, %s leads after %v ms", p.Fault, p.Failure, p.Leader, p.Elapsed)
	}
	for _, f := range p.Flights {
		if f.Arrived >= 0 && f.Arrived < f.Sent || f.Cause >= 0 && p.Flights[f.Cause].Arrived != f.Sent {
			t.Errorf("%+v", f)
		}
	}
	var did []string
	for _, e := range p.Events {
		did = append(did, e.What)
		if e.Cause >= 0 && p.Flights[e.Cause].Arrived != e.At {
			t.Errorf("%+v is caused by %+v", e, p.Flights[e.Cause])
		}
	}
	for _, what := range []string{"crashes", "finds down", "loses", "claims", "leads", "follows"} {
		if !strings.Contains(strings.Join(did, ","), what) {
			t.Errorf("nobody %s: %v", what, did)
		}
	}
	if last := p.Steps[len(p.Steps)-1]; last.Line != 6 || last.To != p.Elapsed {
		t.Errorf("the last step is %+v of %v ms", last, p.Elapsed)
	}
}

func TestPlayTellsFaultsAndFailures(t *testing.T) {
	if p := player.Play("members 1 2\ncrsh 1\n"); p.Fault == nil || p.Fault.Line != 2 || p.Fault.Col != 1 {
		t.Errorf("a word that does not exist: %+v", p.Fault)
	}
	if p := player.Play("members 1 2\nalgorithm tombola\n"); p.Fault == nil || !strings.Contains(p.Fault.What, "tombola") {
		t.Errorf("an algorithm that does not exist: %+v", p.Fault)
	}
	p := player.Play("members 1 2\nrun 1s\nexpect leader 1\nrun 5s\n")
	if p.Failure == "" || p.Elapsed != 1000 || len(p.Events) == 0 {
		t.Errorf("an expectation that does not come true: %q after %v ms", p.Failure, p.Elapsed)
	}
}

func TestCutsAreFollowed(t *testing.T) {
	p := player.Play("members 1 2 3\nrun 1s\ncut 1>2\npartition 1 | 2,3\nrun 1s\nheal 1-2\nrun 1s\nheal\nrun 1s\n")
	got := map[player.Cut]bool{}
	for _, c := range p.Links {
		got[c] = true
	}
	for _, want := range []player.Cut{{From: 0, To: 1, Since: 1000, Until: 2000}, {From: 1, To: 0, Since: 1000, Until: 2000}, {From: 0, To: 2, Since: 1000, Until: 3000}, {From: 2, To: 0, Since: 1000, Until: 3000}} {
		if !got[want] {
			t.Errorf("%+v is not among %v", want, p.Links)
		}
	}
	if len(p.Links) != 4 {
		t.Errorf("%d cuts, want 4: %v", len(p.Links), p.Links)
	}
}

// What is done at a moment changes nothing before it.
func TestInsert(t *testing.T) {
	for name, c := range map[string]struct {
		text, line string
		at         time.Duration
		want       string
	}{
		"within a run":             {"members 1 2 3\nrun 9s\n", "crash 3", time.Second, "members 1 2 3\nat 1s crash 3\nrun 8s\n"},
		"near the end of the last": {"members 1 2 3\nrun 2s\n", "crash 3", 1900 * time.Millisecond, "members 1 2 3\nat 1.9s crash 3\nrun 3s\n"},
		"at the end":               {"members 1 2 3\nrun 2s\n", "crash 3", 2 * time.Second, "members 1 2 3\nrun 2s\ncrash 3\nrun 3s\n"},
		"at the start":             {"members 1 2 3\nrun 9s\n", "crash 3", 0, "members 1 2 3\ncrash 3\nrun 9s\n"},
		"before other acts":        {"members 1 2 3\nat 2s crash 3\nrun 3s\n", "freeze 2", time.Second, "members 1 2 3\nat 1s freeze 2\nat 2s crash 3\nrun 3s\n"},
		"behind other acts":        {"members 1 2 3\nat 2s crash 3\nrun 3s\n", "freeze 2", 2 * time.Second, "members 1 2 3\nat 2s crash 3\nfreeze 2\nrun 3s\n"},
		"while they agree":         {"members 1 2 3\nagree\n", "crash 3", time.Millisecond, "members 1 2 3\nat 1ms crash 3\nagree\n"},
		"a golden trace is gone":   {"members 1 2 3\nrun 9s\n----\n[0.000s] 1 asks\n", "crash 3", time.Second, "members 1 2 3\nat 1s crash 3\nrun 8s\n"},
		"to the microsecond":       {"members 1 2 3\nrun 9s\n", "crash 3", 1234567 * time.Microsecond, "members 1 2 3\nat 1.234567s crash 3\nrun 7.765433s\n"},
	} {
		got, err := player.Insert(c.text, c.at, c.line)
		if err != nil || got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func TestInsertKeepsThePast(t *testing.T) {
	base := "members 1 2 3 4 5\nseed 5\nrun 1s\nrepeat 2\ncrash 5\nagree\nrestart 5\nrun 2s\nend\n"
	before := player.Play(base)
	for _, at := range []time.Duration{300 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second, 4400 * time.Millisecond, 9 * time.Second} {
		text, err := player.Insert(base, at, "cut 1-2")
		if err != nil {
			t.Errorf("at %v: %v", at, err)
			continue
		}
		p := player.Play(text)
		if p.Fault != nil || p.Failure != "" {
			t.Errorf("at %v: %+v %s\n%s", at, p.Fault, p.Failure, text)
			continue
		}
		for i, e := range before.Events {
			if e.At >= float64(at.Milliseconds()) {
				break
			}
			if p.Events[i] != e {
				t.Errorf("at %v: event %d was %+v and is %+v", at, i, e, p.Events[i])
				break
			}
		}
	}
}

func TestSoak(t *testing.T) {
	c := player.SoakConfig{Algorithm: "bully", Nodes: 4, From: 1, To: 20}
	r := player.Soak(c)
	if r.Error != "" || r.Schedules != 20 || len(r.Failing) != 0 || r.Slowest < 1 || r.Slowest > 20 {
		t.Errorf("%+v", r)
	}
	if p := player.Play(player.Schedule(c, r.Slowest)); p.Fault != nil || p.Failure != "" {
		t.Errorf("the slowest seed, opened: %+v %s", p.Fault, p.Failure)
	}
}
