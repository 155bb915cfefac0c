package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// replaced is member 2 at "here", which hears from its leader that the list has it at
// "there", and asks who is there.
func replaced(t *testing.T) *Machine {
	t.Helper()
	m := newMachine(t, "2", func(c *Config) { c.Address = "here" })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	if got := asks(m.Step(start, from("5", Message{Kind: Members, List: []Member{{Rank: rank("2"), Address: "there", Version: 2}}}))); !got {
		t.Fatal("it does not ask at the address that the list has of it")
	}
	return m
}

// asks reports whether a member dials its own address on the list.
func asks(actions []Action) bool { return slices.Contains(kinds(actions), "dial>2") }

// ends reports whether a member gives up because another process has its id, at "there".
func ends(actions []Action) bool {
	return slices.ContainsFunc(actions, func(a Action) bool {
		return a.Kind == Halt && a.Err == ErrSameID && a.Address == "there"
	})
}

func answer(incarnation uint64, own Member) Event {
	return Event{Kind: DialFailed, Peer: "2", Err: ErrSameID, Incarnation: incarnation, Member: own}
}

func TestOfTwoProcessesWithOneIDTheLaterEnds(t *testing.T) {
	m := replaced(t)
	if got := m.Step(start, answer(6, Member{})); !ends(got) {
		t.Errorf("an earlier process is at its place, and it goes on: %+v", got)
	}
	m = replaced(t)
	got := m.Step(start, answer(8, Member{}))
	if told := news(got, "5"); ends(got) || len(told) != 1 || told[0].Address != "here" || told[0].Version != 3 {
		t.Errorf("a later process has taken its place: it ends (%v) or does not say where it is: %v", ends(got), told)
	}
}

// Both have gone on the list again: by the newest entry the place is this process's.
func TestTheNewestEntrySaysWhoseThePlaceIs(t *testing.T) {
	m := replaced(t)
	if got := m.Step(start, answer(6, Member{Rank: rank("2"), Address: "here", Version: 3})); ends(got) {
		t.Errorf("it ends, although the list has it here: %+v", got)
	}
}

// A member whose own address a user has spelled otherwise finds itself there, once.
func TestAnAddressThatLeadsBackIsNotAskedAgain(t *testing.T) {
	m := replaced(t)
	if got := m.Step(start, answer(7, Member{})); ends(got) {
		t.Errorf("it has found itself, and ends: %+v", got)
	}
	for at := start; at.Before(start.Add(10 * time.Second)); at = at.Add(50 * time.Millisecond) {
		if asks(m.Step(at, Event{Kind: Woke})) {
			t.Fatalf("it asks again after %v", at.Sub(start))
		}
	}
}

// No process is at the new address: it is asked again after a second. Without one the place is this process's.
func TestAnAddressWithoutAProcessIsTakenBack(t *testing.T) {
	m := replaced(t)
	none := Event{Kind: DialFailed, Peer: "2", Refused: true}
	if got := m.Step(start, none); ends(got) || asks(got) || len(news(got, "5")) != 0 {
		t.Fatalf("that process may be starting, and it takes the place: %+v", got)
	}
	if asks(m.Step(start.Add(999*time.Millisecond), Event{Kind: Woke})) || !asks(m.Step(start.Add(time.Second), Event{Kind: Woke})) {
		t.Fatal("it does not ask again after a second")
	}
	got := m.Step(start.Add(time.Second), none)
	if own := entry(m, "2"); ends(got) || own.Address != "here" || own.Version != 3 {
		t.Errorf("no process is there: it ends (%v), or does not take the place: %+v", ends(got), own)
	}
}

// Two processes that cannot reach each other take the place in turn, each time less often.
func TestTwoThatCannotReachEachOtherTakeThePlaceEverMoreSeldom(t *testing.T) {
	m := replaced(t)
	none, taken := Event{Kind: DialFailed, Peer: "2", Refused: true}, 0
	m.Step(start, none)
	for at := start; at.Before(start.Add(time.Minute)); at = at.Add(100 * time.Millisecond) {
		if asks(m.Step(at, Event{Kind: Woke})) {
			m.Step(at, none)
		}
		if own := entry(m, "2"); own.Address == "here" {
			taken++
			own.Address, own.Version = "there", own.Version+1 // the second takes it in turn
			if asks(m.Step(at, from("5", Message{Kind: Members, List: []Member{own}}))) {
				m.Step(at, none)
			}
		}
	}
	if taken < 2 || taken > 6 {
		t.Errorf("it takes the place %d times in a minute", taken)
	}
}
