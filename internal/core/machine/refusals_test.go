package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	. "github.com/batuta-dev/batuta/internal/core/machine"
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
	m := newMachine(t, "3", func(c *Config) { c.Members = members("3", "4", "5") })
	m.Step(start, Event{Kind: Started})
	if got := foreign(m, start, "4", "5"); slices.Contains(kinds(got), "save") || m.Standing() != IneligibleRefused {
		t.Fatalf("refused by both others it does %q and is %q, want no claim and %q", kinds(got), m.Standing(), IneligibleRefused)
	}
	later := start.Add(10 * time.Second) // it was stopped meanwhile, too
	m.Step(later, Event{Kind: Woke})
	m.Step(later, Event{Kind: DialFailed, Peer: "4", Refused: true})
	if m.Standing() != IneligibleRefused {
		t.Errorf("4 is gone and 5 refuses it: it is %q, want %q", m.Standing(), IneligibleRefused)
	}
	m.Step(later, Event{Kind: DialFailed, Peer: "5", Refused: true})
	if m.Standing() != Eligible {
		t.Errorf("both others are gone: it is %q, want a candidate", m.Standing())
	}
}

// Of two members with unlike secrets the one with the greater id leads, and the other gives up. The one that
// does not lead yet waits for that.
func TestOfTwoThatRefuseEachOtherTheGreaterIDLeads(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members, c.Following = members("4", "5"), token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	foreign(m, start, "4")
	if !m.View().Defined() || m.Standing() != Eligible {
		t.Errorf("5 leads, and 4 refuses it: it is %q and has %v for its leader", m.Standing(), m.View())
	}
	lower := newMachine(t, "4", func(c *Config) { c.Members, c.Following = members("4", "5"), token(3, rank("4")) })
	lower.Step(start, Event{Kind: Started})
	foreign(lower, start, "5")
	if lower.View().Defined() || lower.Standing() != IneligibleRefused {
		t.Errorf("4 leads, and 5 refuses it: it is %q and has %v for its leader, want %q", lower.Standing(), lower.View(), IneligibleRefused)
	}
	returned := newMachine(t, "5", func(c *Config) { c.Members = members("4", "5") })
	returned.Step(start, Event{Kind: Started})
	foreign(returned, start, "4")
	if returned.Standing() != IneligibleRefused {
		t.Errorf("4 may lead, and has just refused 5, which is %q, want %q", returned.Standing(), IneligibleRefused)
	}
	later := start.Add(10 * time.Second)
	if returned.Step(later, Event{Kind: Woke}); returned.Standing() != Eligible {
		t.Errorf("4 has had time to give up: 5 is %q, want a candidate", returned.Standing())
	}
}

// A follower is connected to its leader alone, and counts the members that are up by the leader's word. One that the
// leader lets in refuses it no more.
func TestAFollowerIsOnItsLeadersSide(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Members = members("1", "2", "3", "4", "5", "6") })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	foreign(m, start, "5", "6")
	beat := func(at time.Time, others MemberState) {
		states := []MemberReport{{ID: "1", State: StateUp}, {ID: "3", State: StateUp}, {ID: "5", State: others}, {ID: "6", State: others}}
		m.Step(at, from("4", Message{Kind: Beat, Token: token(3, rank("4")), Version: uint64(at.Sub(start)) + 1, States: states}))
	}
	beat(start, StateUnreachable)
	m.Step(start, Event{Kind: Saved})
	beat(start.Add(time.Microsecond), StateUnreachable)
	if m.Standing() != Eligible {
		t.Errorf("two refuse 2, and the leader reports 1 and 3 up: it is %q, want a candidate", m.Standing())
	}
	foreign(m, start, "1", "3")
	if m.Standing() != IneligibleRefused {
		t.Errorf("four refuse 2: it is %q, want %q", m.Standing(), IneligibleRefused)
	}
	if beat(start.Add(time.Millisecond), StateUp); m.Standing() != Eligible {
		t.Errorf("the leader has a connection to all: 2 is %q, want a candidate", m.Standing())
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
	m.Step(start.Add(2*time.Millisecond), Event{Kind: DialFailed, Peer: "2", Refused: true})
	if m.View().Defined() || m.Standing() != IneligibleRefused {
		t.Errorf("two refuse it, and it is alone: it is %q and has %v for its leader", m.Standing(), m.View())
	}
}

// A follower dials the members that do not have it on their list. That they are away for a moment does not make it a
// candidate: it would lead until they return, and refuse it again.
func TestAFollowerIsRefusedUntilItIsAccepted(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members = members("3", "4", "5") })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	m.Step(start, Event{Kind: DialFailed, Peer: "3", Err: ErrNotMember})
	m.Step(start, from("4", Message{Kind: Beat, Token: token(3, rank("4")), Version: 1}))
	m.Step(start, Event{Kind: Saved})
	m.Step(start, Event{Kind: DialFailed, Peer: "3", Err: ErrNotMember})
	if m.View().Leader.ID != "4" || m.Standing() != IneligibleRefused {
		t.Fatalf("3 does not know it: it is %q and has %v for its leader, want %q", m.Standing(), m.View(), IneligibleRefused)
	}
	if m.Step(start, Event{Kind: DialFailed, Peer: "3", Refused: true}); m.Standing() != IneligibleRefused {
		t.Errorf("3 is away: it is %q, want %q", m.Standing(), IneligibleRefused)
	}
	if m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1}); m.Standing() != Eligible {
		t.Errorf("3 has accepted it: it is %q, want a candidate", m.Standing())
	}
}

// A process that joins has no list by which to refuse a member. One that has created a cluster does.
func TestAProcessThatJoinsRefusesNoMember(t *testing.T) {
	m, err := New(Config{Self: rank("2"), Joins: true, Algorithm: bully.New(), Incarnation: 7})
	if err != nil {
		t.Fatal(err)
	}
	m.Step(start, Event{Kind: Started})
	if err := m.Admit(start, rank("1"), 1); err != ErrJoining {
		t.Errorf("while it joins it answers a member: %v", err)
	}
	now := start
	for !m.View().Defined() {
		due, ok := m.Deadline()
		if !ok || due.Sub(start) > time.Minute {
			t.Fatal("it creates no cluster")
		}
		now = due
		m.Step(now, Event{Kind: Woke})
		m.Step(now, Event{Kind: Saved})
	}
	if err := m.Admit(now, rank("1"), 1); err != ErrNotMember {
		t.Errorf("while it leads alone it answers another process: %v", err)
	}
}
