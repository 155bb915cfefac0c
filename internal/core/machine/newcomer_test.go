package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// Whom it has let in is asked like all others, also while that one awaits a leader and has said
// nothing yet: it may have joined through another, too, and follow the leader of that one.
func TestWhomItHasLetInIsAsked(t *testing.T) {
	for _, said := range []Eligibility{"", IneligibleJoining, IneligibleUnfounded, Eligible} {
		m := newMachine(t, "1", func(c *Config) { c.Members, c.Newcomer = members("1"), true })
		m.Step(start, Event{Kind: Started})
		m.Step(start, Event{Kind: JoinRequested, Member: Member{Rank: rank("2")}})
		if said != "" {
			m.Step(start, from("2", Message{Kind: Probe, Eligibility: said}))
		}
		got := m.Step(start, Event{Kind: JoinRequested, Member: Member{Rank: rank("3")}, Token: token(2, rank("3"))})
		if asked(got, "2") == 0 || asked(got, "3") == 0 {
			t.Errorf("2 says %q, and 3 knows of a leader: %q, want both asked", said, kinds(got))
		}
	}
}

// A leader that a member reports, and that has yet to come onto the list, leads all the same: the member
// is asked again when its list has come.
func TestALeaderThatIsNotYetListedLeads(t *testing.T) {
	m := newMachine(t, "5", nil)
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	report := Message{Kind: ProbeReply, Token: token(3, rank("6")), Follows: true, Age: time.Millisecond, Digest: 1}
	got := kinds(m.Step(start, from("4", report)))
	for _, id := range []ID{"1", "2", "3"} {
		got = append(got, kinds(m.Step(start, Event{Kind: DialFailed, Peer: id, Refused: true}))...)
	}
	if !slices.Contains(got, "get-members>4") || slices.Contains(got, "save") {
		t.Fatalf("4 reports a leader that is not on the list: %q, want no claim, and 4 asked for its list", got)
	}
	if got := m.Step(start, from("4", Message{Kind: Members, List: members("6")})); asked(got, "4") == 0 {
		t.Fatalf("its list has come: %q, want 4 asked again", kinds(got))
	}
	m.Step(start, Event{Kind: Saved})
	m.Step(start, from("4", report))
	m.Step(start, Event{Kind: Saved})
	if m.View() != report.Token {
		t.Errorf("it follows %v, want %v", m.View(), report.Token)
	}
}

// A higher member that was no candidate, and that the lost leader did not reach, is asked before a claim if
// this member has a connection with it: it may be a candidate by now.
func TestAMemberThatOnlyTheLeaderDidNotReachIsAsked(t *testing.T) {
	m := newMachine(t, "3", nil)
	m.Step(start, Event{Kind: Started})
	for _, id := range []ID{"1", "2", "4", "5"} {
		m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
	}
	report := []MemberReport{{ID: "4", State: StateDown, Eligibility: IneligibleUnhealthy}}
	m.Step(start, from("5", Message{Kind: Beat, Token: token(1, rank("5")), Version: 1, States: report}))
	m.Step(start, Event{Kind: Saved})
	at := start.Add(50 * time.Millisecond)
	m.Step(at, from("5", Message{Kind: Beat, Token: token(1, rank("5")), Version: 2, States: report}))
	if got := crashed(m, at, "5"); asked(got, "4") == 0 || slices.Contains(kinds(got), "save") {
		t.Errorf("its leader is gone: %q, want 4 asked and no claim", kinds(got))
	}
}

// A leader that the last leader did not reach is up: it is received over a link.
func TestALeaderThatIsReceivedIsUp(t *testing.T) {
	m := follow(t, "1")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	m.Step(start, from("5", Message{Kind: Beat, Token: token(3, rank("5")), Version: 1, States: []MemberReport{{ID: "4", State: StateDown}}}))
	state := func() MemberState {
		views := m.Members()
		return views[slices.IndexFunc(views, func(v MemberView) bool { return v.ID == "4" })].State
	}
	if got := state(); got != StateDown {
		t.Fatalf("4 is %s, want %s: its leader reports that", got, StateDown)
	}
	m.Step(start, from("4", Message{Kind: Coordinator, Token: token(4, rank("4"))}))
	m.Step(start, Event{Kind: Saved})
	m.Step(start, from("4", Message{Kind: Beat, Token: token(4, rank("4"))}))
	if got := state(); got != StateUp {
		t.Errorf("4, which leads, is %s, want %s", got, StateUp)
	}
}

// While a member's old process is found down, as a new process answers, there is no member fewer: this
// member reports in no message that it is no candidate, because a lower member would claim at once.
func TestANewProcessIsNoMemberFewer(t *testing.T) {
	m := newMachine(t, "3", func(c *Config) { c.MinMembers = 5 })
	m.Step(start, Event{Kind: Started})
	for _, id := range []ID{"1", "2", "4", "5"} {
		m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
	}
	sent := 0
	for _, a := range m.Step(start, Event{Kind: LinkUp, Rank: Rank{Priority: 3, ID: "5"}, Incarnation: 2}) {
		if a.Kind != Send {
			continue
		}
		sent++
		if a.Message.Eligibility != Eligible {
			t.Errorf("it reports to %s that it is %q", a.To, a.Message.Eligibility)
		}
	}
	if sent == 0 {
		t.Error("it sends nothing, so this shows nothing")
	}
}
