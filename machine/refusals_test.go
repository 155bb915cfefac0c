package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/machine"
)

// foreign has each of the members refuse m for its secret.
func foreign(m *Machine, at time.Time, by ...ID) (got []Action) {
	for _, id := range by {
		got = append(got, slices.Clone(m.Step(at, Event{Kind: DialFailed, Peer: id, Err: ErrForeign}))...)
	}
	return got
}

// A member with another secret than all others does not lead next to them, and leads as soon as none of
// them lives.
func TestAMemberThatAllOthersRefuseDoesNotLead(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members = members("3", "4", "5") })
	m.Step(start, Event{Kind: Started})
	if got := foreign(m, start, "3", "4"); slices.Contains(kinds(got), "save") || m.Standing() != IneligibleRefused {
		t.Fatalf("refused by both others it does %q and is %q, want no claim and %q", kinds(got), m.Standing(), IneligibleRefused)
	}
	later := start.Add(10 * time.Second) // it was stopped meanwhile, too
	m.Step(later, Event{Kind: Woke})
	m.Step(later, Event{Kind: DialFailed, Peer: "3", Refused: true})
	if m.Standing() != IneligibleRefused {
		t.Errorf("3 is gone and 4 refuses it: it is %q, want %q", m.Standing(), IneligibleRefused)
	}
	m.Step(later, Event{Kind: DialFailed, Peer: "4", Refused: true})
	if m.Standing() != Eligible {
		t.Errorf("both others are gone: it is %q, want a candidate", m.Standing())
	}
}

// Of two members with unlike secrets the one that leads goes on: a process that has taken the address of a
// dead member does not stop a leader, and the other does not lead next to it.
func TestAProcessAtTheAddressOfADeadMemberStopsNoLeader(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members, c.Following = members("4", "5"), token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	foreign(m, start, "4")
	if !m.View().Defined() || m.Standing() != Eligible {
		t.Fatalf("it leads, and a process at 4's address refuses it: it is %q and has %v for its leader", m.Standing(), m.View())
	}
	other := newMachine(t, "4", func(c *Config) { c.Members = members("4", "5") })
	other.Step(start, Event{Kind: Started})
	if got := foreign(other, start, "5"); slices.Contains(kinds(got), "save") || other.Standing() != IneligibleRefused {
		t.Errorf("5 refuses it: it does %q and is %q, want no claim and %q", kinds(got), other.Standing(), IneligibleRefused)
	}
}

// A leader that more members refuse than it hears gives up the leadership.
func TestALeaderThatIsOutnumberedGivesUp(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) {
		c.Members, c.Following = members("2", "3", "4", "5"), token(3, rank("5"))
	})
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	if foreign(m, start, "3", "4"); m.Standing() != Eligible {
		t.Fatalf("two refuse it, and two are on its side: it is %q", m.Standing())
	}
	m.Step(start.Add(time.Millisecond), Event{Kind: LinkDown, Peer: "2", Incarnation: 1})
	for at := start; at.Before(start.Add(time.Second)); at = at.Add(100 * time.Millisecond) {
		m.Step(at, Event{Kind: Woke})
	}
	if m.View().Defined() || m.Standing() != IneligibleRefused {
		t.Errorf("two refuse it, and it is alone: it is %q and has %v for its leader", m.Standing(), m.View())
	}
}
