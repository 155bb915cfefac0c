package machine_test

import (
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// The life of a member, phase by phase.
func TestTheLifeOfAMember(t *testing.T) {
	m := newMachine(t, "5", nil)
	is := func(what string, want Phase) {
		t.Helper()
		if m.Phase() != want {
			t.Fatalf("%s: it is %v, want %v", what, m.Phase(), want)
		}
		if from, to, wrong := m.Moved(); wrong {
			t.Fatalf("%s: it goes from %v to %v, which the table does not have", what, from, to)
		}
	}
	now := start
	step := func(ev Event) []Action { return m.Step(now, ev) }

	is("before it starts", PhaseStarting)
	step(Event{Kind: Started})
	is("started", PhaseDiscovering)
	for _, id := range []ID{"1", "2", "3", "4"} {
		step(Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
		step(from(id, Message{Kind: ProbeReply}))
	}
	is("all have answered", PhaseElecting)
	step(Event{Kind: Saved})
	is("it has won, and saved that", PhaseLeading)
	step(Event{Kind: Working, On: true})
	step(Event{Kind: Resigned})
	is("it resigns while its work runs", PhaseDraining)
	step(Event{Kind: Working})
	is("its work has stopped", PhaseElecting)
	step(from("4", Message{Kind: Coordinator, Token: token(9, rank("4"))}))
	step(Event{Kind: Saved})
	is("another leads", PhaseFollowing)
	now = now.Add(time.Minute)
	step(Event{Kind: Woke})
	is("it was stopped for a minute, which it blames nobody for", PhaseFollowing)
	step(from("4", Message{Kind: Resign, Token: token(9, rank("4")), Eligibility: IneligibleResigned}))
	is("that one resigns", PhaseElecting)
	step(from("4", Message{Kind: Members, List: []Member{{Rank: rank("5"), Version: 1, Departure: Removed}}}))
	is("it is removed", PhaseRemoved)
	step(from("4", Message{Kind: Beat, Token: token(10, rank("4"))}))
	step(Event{Kind: Saved})
	step(from("4", Message{Kind: Members, List: []Member{{Rank: rank("5"), Version: 2}}}))
	is("it hears a leader, and that it was added again, but too late", PhaseRemoved)
}

// A newcomer waits for the leader of those who let it in, for a while.
func TestANewcomersPhases(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Joins = true })
	m.Step(start, Event{Kind: Started, List: members("1", "3")})
	if m.Phase() != PhaseJoining {
		t.Fatalf("let in: it is %v, want %v", m.Phase(), PhaseJoining)
	}
	deadline, _ := m.Deadline()
	for range 100 {
		if m.Phase() != PhaseJoining {
			break
		}
		m.Step(deadline, Event{Kind: Woke})
		deadline, _ = m.Deadline()
	}
	if m.Phase() != PhaseDiscovering {
		t.Errorf("nobody has led for T: it is %v, want %v", m.Phase(), PhaseDiscovering)
	}
}

// docs/architecture.md has the table of moves that the Machine keeps to.
func TestTheTableOfMovesIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for p := PhaseStarting; p <= PhaseRemoved; p++ {
		var next []string
		for _, n := range p.Next() {
			next = append(next, n.String())
		}
		row := "| " + p.String() + " | "
		i := strings.Index(string(page), "\n"+row)
		if i < 0 {
			t.Errorf("docs/architecture.md has no line for %v", p)
			continue
		}
		line, _, _ := strings.Cut(string(page)[i+1:], "\n")
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if want := strings.Join(next, ", "); cells[len(cells)-1] != want && len(next) > 0 {
			t.Errorf("docs/architecture.md: %v may become %q, want %q", p, cells[len(cells)-1], want)
		}
	}
}
