package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/fulltest"
	"github.com/batuta-dev/batuta/sim"
)

// A mutant is the core or Bully with one thing wrong. No seam is needed in
// them: the compiler is given a changed copy of one file (go build -overlay).
type mutant struct {
	name     string
	file     string // below the module's root
	old, new string // old stands in it exactly once
}

var mutants = []mutant{
	{"tells before it has saved", "election/tenure.go", "\tm.saving, m.listed = true, true\n", "\tm.saving, m.listed = true, true\n\tif m.next.Defined() {\n\t\tm.settle()\n\t}\n"},
	{"saves what it had before", "election/tenure.go", "\t\t\tm.writing = t\n", "\t\t\t_ = t\n"},
	{"claims although its disk refused", "election/tenure.go", "\t\tif m.isMine(m.next) {\n\t\t\tm.next = Token{}\n\t\t\tm.step(", "\t\tif false {\n\t\t\tm.next = Token{}\n\t\t\tm.step("},
	{"claims the same epoch again", "election/tenure.go", "\tm.highest++\n", ""},
	{"claims while it still asks", "election/tenure.go", "!m.started || m.aside() != Stands || m.inquiring || m.next", "!m.started || m.aside() != Stands || m.next"},
	{"claims without asking", "election/machine.go", `m.inquire("it has just started")`, `m.step(Event{Kind: Started})`},
	{"accepts a lower token", "election/tenure.go", "\tcase c < 0, c == 0 && m.certain:", "\tcase c == 0 && m.certain:"},
	{"does not hear that its leader resigns", "election/tenure.go", "\t\tm.vacate(CauseResigned, true, \"it says so\")\n", ""},
	{"follows without telling of the loss", "election/tenure.go", "\tm.lose(CauseSuperseded, true, \"a higher token \"+t.String())\n\tm.note(\"adopts\"", "\tm.note(\"adopts\""},
	{"hands over before its work has stopped", "election/tenure.go", "\tm.lose(CauseResigned, true, why)\n\tif !m.working {", "\tm.lose(CauseResigned, true, why)\n\tif true {"},
	{"forgets the epochs it hears of", "election/machine.go", "\tm.highest = max(m.highest, top)\n", ""},
	{"forgets the vouching", "election/detector.go", "\tm.set(timerVouch, m.longestAnswer())\n\tif !m.anyAsked() {", "\tif true {"},
	{"takes an old vouch for a fresh one", "election/inquiry.go", "!msg.Ended && msg.Age >= 0 && msg.Age < m.cfg.Timing.T()", "!msg.Ended"},
	{"does not notice that it was stopped", "election/detector.go", "\t\treturn m.now.Sub(last) > T\n", "\t\treturn false\n"},
	{"vouches for what it did not hear while it was stopped", "election/detector.go", "\t\tm.grace = m.now.Add(m.cfg.Timing.T()) // not", "\t\tm.grace, m.leaderAt = m.now.Add(m.cfg.Timing.T()), m.now // not"},
	{"leads although nobody acknowledges", "election/detector.go", "if m.leading() && hears && !m.relinking() &&", "if m.leading() && !hears &&"},
	{"never suspects", "election/detector.go", "if !m.suspected && !m.now.Before(m.silentAt()) && !m.firstDial(m.index[m.view.Leader.ID]) {", "if false {"},
	{"believes a dial that is refused", "election/links.go", "\tif refused {\n", "\tif false {\n"},
	{"takes a new incarnation for the old one", "election/links.go", "\tif !m.hearsay(peer.ID) {\n", "\tif false {\n"},
	{"ignores the token of beats", "election/beats.go", "\t\tm.accept(msg.Token, from)\n\t\tif msg.Token != m.next", "\t\tif msg.Token != m.next"},
	{"dials nobody but its leader", "election/links.go", "if m.shouldDial(i) && !m.now.Before(peer.redial) &&", "if m.isLeader(i) && m.shouldDial(i) && !m.now.Before(peer.redial) &&"},
	{"follows a stranger", "election/inquiry.go", "known := m.Knows(msg.Token.Leader.ID)", "known := true"},
	{"goes on although it was removed", "election/membership.go", "\tm.do(Action{Kind: Halt, Err: ErrRemoved})\n", ""},
	{"keeps news of members to itself", "election/membership.go", "\tm.spread(news, from)\n", ""},
	{"does not compare lists", "election/machine.go", "\tm.compareLists(i, msg)\n", ""},
	{"lets a member stay that was removed in the same version", "election/membership.go", "\t\tcmp.Compare(e.Gone, old.Gone),\n", ""},
	{"Bully: skips the round check", "bully/bully.go", "if b.state != asking || m.Round != b.thisRound(out) {", "if b.state != asking {"},
	{"Bully: leads although a higher one answered", "bully/bully.go", "\tb.state, b.answer = waiting, m.From\n", "\tb.claim(out)\n\tb.state, b.answer = waiting, m.From\n"},
	{"Bully: waits for ever for a COORDINATOR", "bully/bully.go", "\t\tb.startOver(out) // no", "\t\t_ = out // no"},
	{"Bully: starts over without asking who has won", "bully/bully.go", "\tb.rest(out)\n\tout.Inquire()\n", "\tb.callElection(out)\n"},
	{"Bully: waits for ever for an ANSWER", "bully/bully.go", "\tcase timerAnswer:\n\t\tb.claim(out)", "\tcase timerAnswer:\n\t\t_ = out"},
	{"Bully: waits for one that is gone", "bully/bully.go", "case b.state == waiting && peer == b.answer:", "case b.state == waiting && peer == b.answer && false:"},
	{"Bully: a leader does not say that it leads", "bully/bully.go", "\t\tb.coordinator(m.From, out)\n", ""},
	{"Bully: tells nobody that it leads", "bully/bully.go", "\t\t\tb.announce(out)\n\t\t}\n\t}\n}", "\t\t}\n\t}\n}"},
	{"Bully: asks the lowest of the higher only", "bully/bully.go", "for i := len(members) - 1; i >= 0 && members[i].Above(out.Self()); i-- {\n\t\tc := members[i]", "for i := len(members) - 1; i >= 0 && members[i].Above(out.Self()); i-- {\n\t\tif i > 0 && members[i-1].Above(out.Self()) {\n\t\t\tcontinue\n\t\t}\n\t\tc := members[i]"},
}

// TestMutants breaks the core in single ways and demands that the lab notices.
func TestMutants(t *testing.T) {
	if raced {
		t.Skip("mutants are compiled one by one: not with -race")
	}
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if i%fulltest.Size(20, 1) != 0 {
				t.Skip("every twentieth is tried; all with BATUTA_TEST_FULL=1")
			}
			t.Parallel()
			lab := m.build(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, lab, "-test.run", "^TestHunt$", "-test.v")
			cmd.Env = append(os.Environ(), "BATUTA_HUNT=1")
			out, err := cmd.CombinedOutput()
			if ctx.Err() != nil {
				t.Logf("killed by: it does not come to an end")
				return
			}
			_, how, caught := strings.Cut(string(out), "caught by ")
			if err == nil || !caught {
				t.Fatalf("it lives: no rule, search or trace sees this\n%s", out)
			}
			how, _, _ = strings.Cut(how, "\n")
			t.Logf("killed by %s", how)
		})
	}
}

// build compiles this package's tests with the mutant in place.
func (m mutant) build(t *testing.T) string {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s holds %d times, not once:\n%s\nbring the mutant up to date", m.file, n, m.old)
	}
	dir := t.TempDir()
	changed, overlay, lab := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "lab.test")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	for file, text := range map[string]string{changed: strings.Replace(string(source), m.old, m.new, 1), overlay: string(replace)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", lab, ".").CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, out)
	}
	return lab
}

// TestHunt is what a mutant is put to: random schedules, then an exhaustive
// search, then the golden traces.
func TestHunt(t *testing.T) {
	if os.Getenv("BATUTA_HUNT") == "" {
		t.Skip("it is run by TestMutants, on mutants")
	}
	const at, upTo = 250, 4000
	for from := uint64(1); from <= upTo; from += at {
		c := sim.SoakConfig{Algorithm: "bully", Probes: []string{"descending", "all"}, From: from, To: from + at - 1, Workers: 1}
		if from/at%2 == 1 {
			c.Faults = append(sim.SoakFaults(), sim.MembershipFaults()...)
		}
		r, err := sim.Soak(t.Context(), maker, c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violations > 0 {
			_, err := c.Schedule(r.Failing[0].Seed).Play(maker, nil)
			if v, ok := errors.AsType[*sim.Violation](err); ok {
				t.Fatalf("caught by soak, seed %d: %s", r.Failing[0].Seed, v.Rule)
			}
			t.Fatalf("caught by soak, seed %d: it panics", r.Failing[0].Seed)
		}
	}
	for _, probe := range []string{"descending", "all"} {
		c := sim.ExploreConfig{Algorithm: "bully", Probe: probe, Nodes: 3, Crashes: 1, Restarts: 1, OwnRounds: true, States: 100_000, Workers: 1}
		if r, err := sim.Explore(t.Context(), maker, c); err != nil || r.Violation != nil {
			t.Fatalf("caught by explore, probe %s, %d states: %v %v", probe, r.States, r.Violation, err)
		}
	}
	files, _ := filepath.Glob("../bully/testdata/*.txt")
	for _, file := range files {
		s, err := electiontest.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if electiontest.Replay(maker, s) != nil {
			t.Fatalf("caught by the trace of %s", filepath.Base(file))
		}
	}
}
