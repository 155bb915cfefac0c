package machine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// news are the entries that actions tell to a member.
func news(actions []Action, to ID) (list []Member) {
	for _, a := range actions {
		if a.Kind == Send && a.To == to && a.Message.Kind == Members {
			list = append(list, a.Message.List...)
		}
	}
	return list
}

func entry(m *Machine, id ID) Member {
	for _, e := range m.List() {
		if e.ID == id {
			return e
		}
	}
	return Member{}
}

func TestANewcomerIsToldOfToTheLeader(t *testing.T) {
	m := follow(t, "2")
	newcomer := Member{Rank: rank("9"), Address: "127.0.0.1:9"}
	if err := m.AdmitJoin(start, newcomer, 1); err != nil {
		t.Fatal(err)
	}
	told := news(m.Step(start, Event{Kind: JoinRequested, Member: newcomer}), "5")
	if len(told) != 1 || told[0].ID != "9" || told[0].Version != 1 {
		t.Errorf("the leader hears %v, want the newcomer in version 1", told)
	}
	if again := m.Step(start, Event{Kind: JoinRequested, Member: newcomer}); len(again) != 0 {
		t.Errorf("joining twice gives %q, want nothing", kinds(again))
	}
	if err := m.Admit(start, rank("9"), 1); err != nil {
		t.Errorf("its connection is refused: %v", err)
	}
}

func TestARemovedMemberIsRefusedUntilItIsAddedAgain(t *testing.T) {
	m := follow(t, "2")
	got := m.Step(start, Event{Kind: MemberRemoved, Peer: "5"})
	if told := news(got, "5"); len(told) != 1 || told[0].Departure != Removed {
		t.Errorf("the removed leader hears %v, want its removal", told)
	}
	if want := "lose:removed"; !slices.Contains(kinds(got), want) {
		t.Errorf("%q, want %s: its leadership is over", kinds(got), want)
	}
	if err := m.Admit(start, rank("5"), 2); !errors.Is(err, ErrRemoved) {
		t.Errorf("its connection: %v, want %v", err, ErrRemoved)
	}
	e := Member{Rank: rank("5"), Address: "127.0.0.1:5"}
	if err := m.AdmitJoin(start, e, 2); !errors.Is(err, ErrRemoved) {
		t.Errorf("joining: %v, want %v", err, ErrRemoved)
	}
	m.Step(start, Event{Kind: MemberAdded, Member: e})
	if err := m.Admit(start, rank("5"), 2); err != nil {
		t.Errorf("added again, it is refused: %v", err)
	}
}

func TestWhoIsRemovedStops(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Following = token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	got := m.Step(start, from("2", Message{Kind: Members, List: []Member{{Rank: rank("5"), Version: 1, Departure: Removed}}}))
	if !slices.Contains(kinds(got), "lose:removed") {
		t.Errorf("%q, want the lead lost", kinds(got))
	}
	halted := slices.ContainsFunc(got, func(a Action) bool { return a.Kind == Halt && errors.Is(a.Err, ErrRemoved) })
	if !halted {
		t.Error("it does not halt")
	}
}

// While the work of a removed leader still stops, it changes nothing any more.
func TestWhoIsRemovedChangesNothing(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Following = token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	m.Step(start, Event{Kind: Working, On: true})
	m.Step(start, from("2", Message{Kind: Members, List: []Member{{Rank: rank("5"), Version: 1, Departure: Removed}}}))
	m.Step(start, Event{Kind: MemberRemoved, Peer: "2"})
	m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("8"), Address: "new:8"}})
	if !m.Knows("2") || m.Knows("8") {
		t.Error("it removes 2, or adds 8, after it was removed itself")
	}
}

func TestConcurrentChangesEndInOneList(t *testing.T) {
	a, b := follow(t, "1"), follow(t, "2")
	a.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("4"), Address: "new:4"}})
	b.Step(start, Event{Kind: MemberRemoved, Peer: "4"})
	b.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("8"), Address: "new:8"}})
	listA, listB := a.List(), b.List()
	for m, other := range map[*Machine][]Member{a: listB, b: listA} {
		m.Step(start, from("5", Message{Kind: Members, List: other}))
	}
	if !slices.Equal(a.List(), b.List()) {
		t.Fatalf("lists differ:\n%v\n%v", a.List(), b.List())
	}
	if e := entry(a, "4"); e.Departure != Removed {
		t.Errorf("4 is %v, want removed: a removal wins a tie", e)
	}
}

func TestDifferingListsAreExchanged(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("8")}})
	beat := from("5", Message{Kind: Beat, Token: token(3, rank("5")), Digest: 1})
	later := start.Add(time.Second)
	if did := kinds(m.Step(later, beat)); !slices.Contains(did, "get-members>5") {
		t.Errorf("%q, want the leader asked for its list, which is another", did)
	}
	if did := kinds(m.Step(later, beat)); slices.Contains(did, "get-members>5") {
		t.Errorf("and at once again %q, want that once in T", did)
	}
	if told := news(m.Step(later, from("5", Message{Kind: GetMembers})), "5"); len(told) != 6 {
		t.Errorf("who asks hears %v, want our list", told)
	}
}

func TestTheListSurvives(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, Event{Kind: MemberRemoved, Peer: "1"})
	m.Step(start, Event{Kind: Saved})
	var state State
	for _, a := range m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("8"), Address: "x:8"}}) {
		if a.Kind == Save {
			state = a.State
		}
	}
	back := newMachine(t, "2", func(c *Config) { c.State, c.Incarnation = state, 8 })
	if !slices.Equal(back.List(), m.List()) {
		t.Errorf("after a restart %v, want %v: what the disk knows is above the configuration", back.List(), m.List())
	}
}

func TestOneKindOfIDs(t *testing.T) {
	m := follow(t, "2")
	if err := m.AdmitJoin(start, Member{Rank: rank("host-a")}, 1); !errors.Is(err, ErrMixedKind) {
		t.Errorf("a name among integers: %v, want %v", err, ErrMixedKind)
	}
}

func TestAnObserverFollowsAndNeverLeads(t *testing.T) {
	m := newMachine(t, "4", func(c *Config) { c.Observer, c.Following = true, token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	crashed(m, start, "5")
	now := start
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		if got := kinds(m.Step(now, Event{Kind: Woke})); slices.Contains(got, "save") {
			t.Fatalf("an observer claims: %q", got)
		}
	}
}

// stepAlone steps a member with a disk that writes and without an answer of any member.
func stepAlone(m *Machine, now time.Time, ev Event) []Action {
	todo := slices.Clone(m.Step(now, ev))
	for i := 0; i < len(todo); i++ {
		switch a := todo[i]; a.Kind {
		case Save:
			todo = append(todo, m.Step(now, Event{Kind: Saved})...)
		case Dial, Send:
			todo = append(todo, m.Step(now, Event{Kind: DialFailed, Peer: a.To, Refused: true})...)
		}
	}
	return todo
}

func TestWhoIsUnhealthyGivesUpTheLead(t *testing.T) {
	for _, last := range []bool{false, true} {
		m := newMachine(t, "5", func(c *Config) { c.LeadUnhealthy, c.Following = last, token(3, rank("5")) })
		stepAlone(m, start, Event{Kind: Started})
		if got := kinds(stepAlone(m, start, Event{Kind: Health})); !slices.Contains(got, "lose:resigned") {
			t.Fatalf("%q, want the lead given up", got)
		}
		for now := start; now.Before(start.Add(10 * time.Second)); now = now.Add(100 * time.Millisecond) {
			stepAlone(m, now, Event{Kind: Woke})
		}
		if again := m.View().Leader.ID == "5"; again != last {
			t.Errorf("nobody else leads, and it may as a last resort: %v; it leads: %v", last, again)
		}
	}
}

// Only refusals that follow each other bar a member: one of an hour ago does not count.
func TestAnOldRefusalBarsNobody(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Joins = true })
	stepAlone(m, start, Event{Kind: Started})
	refused := Event{Kind: DialFailed, Peer: "5", Err: ErrRemoved, Member: Member{Rank: rank("2"), Version: 1, Departure: Removed}}
	for _, at := range []time.Duration{0, time.Hour, 2 * time.Hour} {
		for _, a := range m.Step(start.Add(at), refused) {
			if a.Kind == Halt {
				t.Fatalf("after %v one refusal ends it: %v", at, a.Err)
			}
		}
	}
	halted := false
	for at := 2 * time.Hour; at < 2*time.Hour+3*time.Second; at += 950 * time.Millisecond { // over links as slow as t_max allows
		for _, a := range m.Step(start.Add(at), refused) {
			halted = halted || a.Kind == Halt
		}
	}
	if !halted {
		t.Error("refused again and again, it goes on")
	}
}

func TestALeadersOwnWordEndsItsTime(t *testing.T) {
	m := follow(t, "2")
	got := kinds(m.Step(start, from("5", Message{Kind: ProbeReply, Token: token(3, rank("5")), Ended: true, Age: -1})))
	if !slices.Contains(got, "lose:resigned") {
		t.Errorf("%q, want the leadership over", got)
	}
}

func TestWhoIsRemovedWhileItLeavesStaysRemoved(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, from("5", Message{Kind: Members, List: []Member{{Rank: rank("2"), Version: 1, Departure: Removed}}}))
	m.Step(start, Event{Kind: Leaving})
	if e := entry(m, "2"); e.Departure != Removed || e.Version != 1 {
		t.Errorf("its entry is %+v, want its removal", e)
	}
}

func TestPrioritiesEndTheSameEverywhere(t *testing.T) {
	a, b := follow(t, "1"), follow(t, "2")
	a.Step(start, Event{Kind: MemberAdded, On: true, Member: Member{Rank: Rank{Priority: 7, ID: "4"}}})
	b.Step(start, Event{Kind: MemberAdded, On: true, Member: Member{Rank: Rank{Priority: 9, ID: "4"}}})
	listA, listB := a.List(), b.List()
	a.Step(start, from("5", Message{Kind: Members, List: listB}))
	b.Step(start, from("5", Message{Kind: Members, List: listA}))
	if !slices.Equal(a.List(), b.List()) {
		t.Fatalf("lists differ:\n%v\n%v", a.List(), b.List())
	}
	a.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("4"), Address: "moved:4"}})
	if e := entry(a, "4"); e.Priority != 9 || e.Address != "moved:4" {
		t.Errorf("added without a priority it is %+v, want 9, which is known, and its new address", e)
	}
}

// What the process itself says at its start holds over the list, and reaches all.
func TestAProcessTellsItsOwnPriority(t *testing.T) {
	disk := State{ID: "2", Members: []Member{{Rank: Rank{Priority: 3, ID: "2"}, Version: 4, Pinned: true}}}
	m := newMachine(t, "2", func(c *Config) { c.State = disk })
	if e := entry(m, "2"); e.Priority != 0 || e.Version != 5 || e.Pinned {
		t.Errorf("its own entry is %+v, want its own priority, 0, in version 5", e)
	}
	other := follow(t, "1")
	other.Step(start, Event{Kind: MemberAdded, On: true, Member: Member{Rank: Rank{Priority: 3, ID: "2"}}})
	other.Step(start, Event{Kind: LinkUp, Rank: Rank{Priority: 8, ID: "2"}, Incarnation: 9})
	if e := entry(other, "2"); e.Priority != 8 || e.Version != 2 {
		t.Errorf("a new process that says 8 is listed as %+v", e)
	}
	other.Step(start, Event{Kind: LinkUp, Rank: Rank{Priority: 1, ID: "2"}, Incarnation: 9})
	if e := entry(other, "2"); e.Priority != 8 {
		t.Errorf("the same process, which has still to hear of its priority, is listed as %+v", e)
	}
}

// Members of before there were priorities in digests see another digest for ever:
// they are asked for their list once in T, and each asks once in T.
func TestDigestsThatAlwaysDifferAreHarmless(t *testing.T) {
	m := follow(t, "2")
	now, asked := start, 0
	for range 600 {
		now = now.Add(100 * time.Millisecond)
		for _, a := range m.Step(now, from("5", Message{Kind: Beat, Token: token(3, rank("5")), Digest: 1})) {
			if a.Kind == Send && a.Message.Kind == GetMembers {
				asked++
			}
		}
	}
	if T := 2*DefaultTMax + DefaultTProcess; asked < 2 || asked > int(time.Minute/T)+1 {
		t.Errorf("asked %d times in a minute, want once in %v", asked, T)
	}
}

// All ids of a cluster are of one kind, those that a user adds too.
func TestAMemberOfAnotherKindIsNotAdded(t *testing.T) {
	m := follow(t, "2")
	got := m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("alpha"), Address: "127.0.0.1:9"}})
	if len(got) != 0 || m.Knows("alpha") || len(m.List()) != 5 {
		t.Errorf("a member with a name among numbers: %q and %d entries, want nothing and 5", kinds(got), len(m.List()))
	}
}

// A leader that leaves steps down in the same step, and the members learn of both.
func TestALeaderThatLeavesGivesUpLeadership(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Following = token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	actions := m.Step(start, Event{Kind: Leaving})
	got := kinds(actions)
	if !slices.Contains(got, "lose:resigned") || !slices.Contains(got, "resign>2") {
		t.Errorf("%q, want leadership lost, and 2 to learn of it", got)
	}
	if told := news(actions, "2"); len(told) != 1 || told[0].ID != "5" || told[0].Departure != Left {
		t.Errorf("2 learns of %v, want that 5 has left", told)
	}
}

// A member that learns that it is off the list withdraws a claim that is on its way to the disk.
func TestAClaimEndsWithItsMembersPlaceOnTheList(t *testing.T) {
	m := follow(t, "4")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1})
	if got := kinds(crashed(m, start, "5")); !slices.Contains(got, "save") {
		t.Fatalf("the leader crashes: %q, want a claim", got)
	}
	got := kinds(m.Step(start, from("3", Message{Kind: Members, List: []Member{{Rank: rank("4"), Version: 5, Departure: Left}}})))
	if !slices.Contains(got, "report>3") {
		t.Errorf("off the list: %q, want 3 to learn that the claim is withdrawn", got)
	}
	if got = kinds(m.Step(start, Event{Kind: Saved})); slices.Contains(got, "elect") || m.Standing() != IneligibleGone {
		t.Errorf("the claim is on disk: %q, and it is a candidate: %q; want neither", got, m.Standing())
	}
}

// A member that learns late that it had left is no candidate and asks to be admitted again, by
// all through which it joins; on the list once more, it takes part.
func TestWhoHeardThatItHadLeftComesBack(t *testing.T) {
	m := follow(t, "2")
	own := entry(m, "2")
	own.Version, own.Departure = own.Version+5, Left
	got := m.Step(start, from("5", Message{Kind: Members, List: []Member{own}}))
	if !slices.ContainsFunc(got, func(a Action) bool { return a.Kind == Rejoin && a.To == None }) {
		t.Errorf("it has left, it hears, and does %+v: want it to ask to be let in", got)
	}
	if aside := reported(m); aside != IneligibleGone {
		t.Errorf("it stands aside as %q, want %q", aside, IneligibleGone)
	}
	own.Version, own.Departure = own.Version+1, Present
	m.Step(start, from("5", Message{Kind: Members, List: []Member{own}}))
	if aside := reported(m); aside != Eligible {
		t.Errorf("it is on the list again, and stands aside as %q", aside)
	}
}

// reported returns why a member is no candidate, as it reports.
func reported(m *Machine) Eligibility {
	for _, v := range m.Members() {
		if v.ID == "2" {
			return v.Eligibility
		}
	}
	return IneligibleGone
}

// A newcomer's word on its own entry never beats a removal, be it known here or not.
func TestNobodyLetsItselfInAgain(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, Event{Kind: MemberRemoved, Peer: "4"})
	tombstone := entry(m, "4")
	for _, said := range []uint64{0, tombstone.Version + 1, tombstone.Version + 1<<20, MaxVersion} {
		e := Member{Rank: rank("4"), Address: "x:4", Version: said}
		if err := m.AdmitJoin(start, e, 9); !errors.Is(err, ErrRemoved) {
			t.Errorf("removed, it joins with version %d: %v, want %v", said, err, ErrRemoved)
		}
		if m.Step(start, Event{Kind: JoinRequested, Member: e}); entry(m, "4") != tombstone {
			t.Fatalf("version %d has made its entry %+v", said, entry(m, "4"))
		}
		deaf := follow(t, "1") // has not heard of the removal
		for range 300 {
			deaf.Step(start, Event{Kind: JoinRequested, Member: e})
			if e.Version < MaxVersion {
				e.Version += 200
			}
		}
		deaf.Step(start, from("5", Message{Kind: Members, List: []Member{tombstone}}))
		if entry(deaf, "4") != tombstone {
			t.Errorf("a member that had not heard of the removal has %+v after it", entry(deaf, "4"))
		}
	}
	m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("4"), Address: "x:4"}})
	if err := m.AdmitJoin(start, Member{Rank: rank("4"), Address: "x:4"}, 9); err != nil {
		t.Errorf("added again it is refused: %v", err)
	}
}

// A newcomer says what epoch it holds; three in a row do not lead the one that lets
// them in beyond what the others believe.
func TestNewcomersDoNotPartALeaderFromTheOthers(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Following = token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	for i, id := range []ID{"7", "8", "9"} {
		m.Step(start, Event{Kind: JoinRequested, Member: Member{Rank: rank(id), Address: "x:1"}, Token: Token{Epoch: uint64(i+1) << 32, Leader: rank(id)}})
	}
	if m.Highest() > 3+1<<16 {
		t.Errorf("it has taken over epoch %d", m.Highest())
	}
	m.Step(start, Event{Kind: JoinRequested, Member: Member{Rank: rank("6"), Address: "x:1"}, Token: Token{Epoch: 40, Leader: rank("6")}})
	if m.Highest() != 40 {
		t.Errorf("the highest epoch is %d, want 40: a newcomer's disk has it", m.Highest())
	}
}

// A thousand joins in 13 s, by whoever it is, end with a list as it was.
func TestJoinsAreBounded(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Following = token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	before := m.List()
	now, refused := start, 0
	for i := range 1000 {
		now = now.Add(13 * time.Millisecond)
		e := Member{Rank: rank(ID(fmt.Sprint(100 + i))), Address: "x:1"}
		switch err := m.AdmitJoin(now, e, 1); {
		case errors.Is(err, ErrTooManyJoins):
			refused++
			continue
		case err != nil:
			t.Fatal(err)
		case i == 7:
			m.Step(now, Event{Kind: JoinRequested, Member: e})
			m.Step(now, Event{Kind: LinkUp, Rank: e.Rank, Incarnation: 1})
		default:
			m.Step(now, Event{Kind: JoinRequested, Member: e})
		}
	}
	if n := len(m.List()); n != 1000-refused+len(before) || n < 256 || n > 330 {
		t.Errorf("the list has %d entries, and %d were refused", n, refused)
	}
	if err := m.AdmitJoin(now, Member{Rank: rank("100"), Address: "x:1"}, 1); err != nil {
		t.Errorf("one that is a member is refused: %v", err)
	}
	m.Step(now, Event{Kind: MemberAdded, Member: Member{Rank: rank("50"), Address: "x:1"}})
	m.Step(now, Event{Kind: MemberAdded, Member: Member{Rank: rank("101"), Address: "x:1"}})
	for end := now.Add(2 * time.Minute); now.Before(end); now = now.Add(100 * time.Millisecond) {
		m.Step(now, Event{Kind: Woke})
	}
	want := len(before) + 3 // 107, which was heard, and 50 and 101, which a user has added
	if got := m.List(); len(got) != want || entry(m, "107").ID == None || entry(m, "50").ID == None || entry(m, "101").ID == None {
		t.Errorf("two minutes later the list has %d entries, want %d: %v", len(got), want, got[:min(len(got), 12)])
	}
	if err := m.AdmitJoin(now, Member{Rank: rank("1099")}, 9); err != nil {
		t.Errorf("an honest newcomer is refused: %v", err)
	}
}

func TestWhoIsForgottenIsForgottenByAll(t *testing.T) {
	leader, other := newMachine(t, "5", func(c *Config) { c.Following = token(3, rank("5")) }), follow(t, "2")
	leader.Step(start, Event{Kind: Started})
	leader.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	told := news(leader.Step(start, Event{Kind: JoinRequested, Member: Member{Rank: rank("9"), Address: "x:9"}}), "2")
	other.Step(start, from("5", Message{Kind: Members, List: told}))
	if !entry(other, "9").New {
		t.Fatalf("the follower has %+v", entry(other, "9"))
	}
	now := start
	for ; now.Before(start.Add(2 * time.Minute)); now = now.Add(100 * time.Millisecond) {
		told = append(told, news(leader.Step(now, from("2", Message{Kind: Ack, Token: token(3, rank("5")), Stamp: int64(now.Sub(start))})), "2")...)
		told = append(told, news(leader.Step(now, Event{Kind: Woke}), "2")...)
	}
	other.Step(now, from("5", Message{Kind: Members, List: told}))
	if !slices.Equal(leader.List(), other.List()) || entry(other, "9").ID != None {
		t.Errorf("the lists are\n%v\n%v", leader.List(), other.List())
	}
}

// A removal holds over what the member itself has done to its entry meanwhile.
func TestARemovalHoldsOverTheMembersOwnChanges(t *testing.T) {
	m := follow(t, "2")
	moved := entry(m, "4")
	moved.Version, moved.Address = 3, "127.0.0.1:44"
	m.Step(start, Event{Kind: MemberRemoved, Peer: "4"})
	m.Step(start, from("5", Message{Kind: Members, List: []Member{moved}}))
	if e := entry(m, "4"); e.Departure != Removed {
		t.Errorf("4 was removed, and moved without having heard of it: it is %+v, want it removed", e)
	}
}

// What a newcomer is told of the members when it is let in holds from its start.
func TestANewcomerTakesTheListItIsTold(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Members, c.Joins = nil, true })
	m.Step(start, Event{Kind: Started, List: members("1", "2", "9")})
	if !m.Knows("1") || !m.Knows("9") {
		t.Errorf("it was told of 1, 2 and 9, and lists %v", m.List())
	}
}

// A leader that hears others does not end at the word of one that they have removed.
func TestTheRemovedEndNobodyThatHearsOthers(t *testing.T) {
	for _, others := range []bool{true, false} {
		m := newMachine(t, "4", func(c *Config) { c.Following = token(3, rank("4")) })
		m.Step(start, Event{Kind: Started})
		if others {
			m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
		}
		m.Step(start, Event{Kind: MemberRemoved, Peer: "5"})
		m.Step(start, Event{Kind: Saved})
		dialed, halted := false, false
		now := start
		for range 30 {
			now = now.Add(100 * time.Millisecond)
			for _, a := range append(slices.Clone(m.Step(now, Event{Kind: Woke})), m.Step(now, Event{Kind: Saved})...) {
				dialed = dialed || a.Kind == Dial && a.To == "5"
			}
			if others {
				m.Step(now, from("2", Message{Kind: Ack, Token: token(3, rank("4")), Stamp: int64(now.Sub(start))}))
			}
			if dialed {
				break
			}
		}
		if !dialed {
			t.Fatal("it does not look for the member that it has removed")
		}
		if err := m.AdmitAnswer(now, rank("5"), 1); err != nil {
			t.Errorf("it does not talk to the removed one that it has dialed: %v", err)
		}
		tombstone := Member{Rank: rank("4"), Version: 1 << 16, Departure: Removed}
		m.Step(now, Event{Kind: DialFailed, Peer: "5", Err: ErrRemoved, Member: tombstone})
		for _, a := range append(slices.Clone(m.Step(now, Event{Kind: Saved})), m.Step(now, Event{Kind: Saved})...) {
			halted = halted || a.Kind == Halt
		}
		if halted == others {
			t.Errorf("it hears others: %v; it ends: %v", others, halted)
		}
		if back := entry(m, "5").Departure == Present; back == others {
			t.Errorf("it hears others: %v; the other is on its list again: %v", others, back)
		}
	}
}

// Members that come and leave again do not fill the list: the leader has the oldest of
// their tombstones forgotten, also those of members that it removed because they were absent, and
// none of a member that a user has removed.
func TestTheOldestLeaversAreForgotten(t *testing.T) {
	sent := Member{Rank: rank("6"), Version: 1 << 16, Departure: Removed}
	list := []Member{sent, {Rank: rank("7"), Version: 1 << 16, Departure: Removed, New: true}}
	for i := range MaxMembers * 3 / 4 {
		list = append(list, Member{Rank: rank(ID(fmt.Sprint(1000 + i))), Address: "a:1", Version: 2, Departure: Left})
	}
	state := State{ID: "5", Members: list}
	leader := newMachine(t, "5", func(c *Config) { c.State, c.Following = state, token(3, rank("5")) })
	follower := newMachine(t, "2", func(c *Config) { c.State, c.Following = state, token(3, rank("5")) })
	leader.Step(start, Event{Kind: Started})
	follower.Step(start, Event{Kind: Started})
	leader.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	follower.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})

	last := Member{Rank: rank("999"), Address: "a:1", Version: 2, Departure: Left}
	for _, m := range []*Machine{leader, follower} {
		m.Step(start, from("1", Message{Kind: Members, List: []Member{last}}))
	}
	now := start.Add(100 * time.Millisecond)
	told := news(leader.Step(now, Event{Kind: Woke}), "2")
	follower.Step(now, from("5", Message{Kind: Members, List: told}))
	if !slices.Equal(leader.List(), follower.List()) {
		t.Errorf("the leader lists %d entries, its follower %d", len(leader.List()), len(follower.List()))
	}
	if got := len(leader.List()); got > MaxMembers*3/4 {
		t.Errorf("%d entries are left, want three quarters of the bound at most", got)
	}
	if e, _ := leader.Entry("999"); e != last {
		t.Errorf("of who has left last it holds %+v, want %+v", e, last)
	}
	if e, _ := leader.Entry("6"); e != sent {
		t.Errorf("of who was removed it holds %+v, want %+v", e, sent)
	}
	for _, id := range []ID{"7", "1000"} {
		if e, ok := leader.Entry(id); ok {
			t.Errorf("of who has left first it still holds %+v", e)
		}
	}
	late := from("5", Message{Kind: Members, List: []Member{{Rank: rank("1000"), Address: "a:1", Version: 2, Departure: Left}}})
	follower.Step(now, late)
	if e, ok := follower.Entry("1000"); ok {
		t.Errorf("a late word brings back %+v, want nothing", e)
	}
	follower.Step(now, Event{Kind: JoinRequested, Member: Member{Rank: rank("1000"), Address: "a:1"}})
	if e, _ := follower.Entry("1000"); e.Version != 4 || e.Departure != Present {
		t.Errorf("it joins again as %+v, want a version above that by which it was forgotten", e)
	}
}

// The list shows which members a user has removed, and which a leader because they were absent.
func TestAListShowsWhyAMemberWasRemoved(t *testing.T) {
	newcomer := Member{Rank: rank("4"), Address: "a:1", Version: 1, New: true}
	m := newMachine(t, "5", func(c *Config) {
		c.ReapAfter, c.State, c.Following = time.Minute, State{ID: "5", Members: []Member{newcomer}}, token(3, rank("5"))
	})
	m.Step(start, Event{Kind: Started})
	for _, id := range []ID{"1", "2", "3"} {
		m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
	}
	crashed(m, start, "1")
	m.Step(start, Event{Kind: MemberRemoved, Peer: "4"})
	for now := start; now.Before(start.Add(2 * time.Minute)); now = now.Add(50 * time.Millisecond) {
		for _, id := range []ID{"2", "3"} {
			m.Step(now, from(id, Message{Kind: Ack, Token: m.View(), Stamp: int64(now.Sub(start))}))
		}
		m.Step(now, Event{Kind: Woke})
		m.Step(now, Event{Kind: Saved})
	}
	for id, absent := range map[ID]bool{"1": true, "4": false} {
		if e, _ := m.Entry(id); e.Departure != Removed || e.New != absent {
			t.Errorf("of %s it holds %+v", id, e)
		}
	}
}

// A leader that has left and was let in again where we did not hear of it tells so itself, as its beats come. One that was
// removed is not believed.
func TestWhoHasLeftIsBackByItsOwnWord(t *testing.T) {
	for _, departure := range []Departure{Left, Removed} {
		m := follow(t, "3")
		e := entry(m, "5")
		e.Version, e.Departure = e.Version+1, departure
		m.Step(start, from("2", Message{Kind: Members, List: []Member{e}}))
		asked := m.Step(start, from("5", Message{Kind: Beat, Token: m.View()}))
		if asks := slices.Contains(kinds(asked), "get-members>5"); asks != (departure == Left) {
			t.Errorf("departure %v, and it beats: it is asked for its list: %v", departure, asks)
		}
		e.Version, e.Departure = e.Version+1, Present
		m.Step(start, from("5", Message{Kind: Members, List: []Member{e}}))
		if back := entry(m, "5").Departure == Present; back != (departure == Left) {
			t.Errorf("departure %v, and it says that it is back: on the list: %v", departure, back)
		}
	}
}

// A removed member that starts again changes no list before it leads or follows: only then has the
// cluster admitted it, or is there no cluster. It takes its own address at once.
func TestARemovedMemberChangesTheListOnceItHasALeader(t *testing.T) {
	disk := State{ID: "2", Members: []Member{{Rank: rank("2"), Version: RemovalLead, Departure: Removed}}}
	m := newMachine(t, "2", func(c *Config) { c.State, c.Address = disk, "" })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("2"), Address: "here:2"}})
	m.Step(start, Event{Kind: Saved})
	if e := entry(m, "2"); e.Address != "here:2" {
		t.Errorf("its own entry is %+v, want the address that it has found out", e)
	}
	if err := m.AdmitChange(false, "8", false); !errors.Is(err, ErrRemoved) {
		t.Errorf("before it has a leader, a change is admitted with %v, want %v", err, ErrRemoved)
	}
	add := Event{Kind: MemberAdded, Member: Member{Rank: rank("8"), Address: "new:8"}}
	if m.Step(start, add); m.Knows("8") {
		t.Error("it adds 8 before it has a leader")
	}
	for _, id := range []ID{"1", "3", "4", "5"} {
		stepAlone(m, start, Event{Kind: DialFailed, Peer: id, Refused: true})
	}
	if m.Step(start, add); m.View().Leader.ID != "2" || !m.Knows("8") {
		t.Errorf("it has %v for its leader, and knows 8: %v", m.View(), m.Knows("8"))
	}
}
