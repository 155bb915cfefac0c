package machine_test

import (
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// The life of a member, phase by phase.
func TestTheLifeOfAMember(t *testing.T) {
	m := newMachine(t, "5", nil)
	is := func(what string, want tenure.Phase) {
		t.Helper()
		from, to, wrong := m.Moved()
		if wrong {
			t.Fatalf("%s: it goes from %v to %v, which the table does not have", what, from, to)
		}
		if to != want {
			t.Fatalf("%s: it is %v, want %v", what, to, want)
		}
	}
	now := start
	step := func(ev Event) []Action { return m.Step(now, ev) }

	is("before it starts", tenure.PhaseStarting)
	step(Event{Kind: Started})
	is("started", tenure.PhaseDiscovering)
	for _, id := range []ID{"1", "2", "3", "4"} {
		step(Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
		step(from(id, Message{Kind: ProbeReply}))
	}
	is("all have answered", tenure.PhaseElecting)
	step(Event{Kind: Saved})
	is("it has won, and saved that", tenure.PhaseLeading)
	step(Event{Kind: Working, On: true})
	step(Event{Kind: Resigned})
	is("it resigns while its work runs", tenure.PhaseDraining)
	step(Event{Kind: Working})
	is("its work has stopped", tenure.PhaseElecting)
	step(from("4", Message{Kind: Coordinator, Token: token(9, rank("4"))}))
	step(Event{Kind: Saved})
	is("another leads", tenure.PhaseFollowing)
	now = now.Add(time.Minute)
	step(Event{Kind: Woke})
	is("it was stopped for a minute, which it blames nobody for", tenure.PhaseFollowing)
	step(from("4", Message{Kind: Resign, Token: token(9, rank("4")), Eligibility: IneligibleResigned}))
	is("that one resigns", tenure.PhaseElecting)
	step(from("4", Message{Kind: Members, List: []Member{{Rank: rank("5"), Version: 1, Departure: Removed}}}))
	is("it is removed", tenure.PhaseRemoved)
	step(from("4", Message{Kind: Beat, Token: token(10, rank("4"))}))
	step(Event{Kind: Saved})
	step(from("4", Message{Kind: Members, List: []Member{{Rank: rank("5"), Version: 2}}}))
	is("it hears a leader, and that it was added again, but too late", tenure.PhaseRemoved)
}

// A newcomer waits for the leader of those who let it in, for a while.
func TestANewcomersPhases(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Joins = true })
	m.Step(start, Event{Kind: Started, List: members("1", "3")})
	_, is, _ := m.Moved()
	if is != tenure.PhaseJoining {
		t.Fatalf("let in: it is %v, want %v", is, tenure.PhaseJoining)
	}
	deadline, _ := m.Deadline()
	for range 100 {
		m.Step(deadline, Event{Kind: Woke})
		if _, is, _ = m.Moved(); is != tenure.PhaseJoining {
			break
		}
		deadline, _ = m.Deadline()
	}
	if is != tenure.PhaseDiscovering {
		t.Errorf("nobody has led for T: it is %v, want %v", is, tenure.PhaseDiscovering)
	}
}
