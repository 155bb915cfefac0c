package machine_test

import (
	"slices"
	"testing"

	. "github.com/batuta-dev/batuta/election"
)

// What a member reports of itself is that of its newest message, whichever way that came.
func TestWhatAMemberReportsIsInOrder(t *testing.T) {
	type said struct {
		passed          bool
		process, change uint64
		is              Eligibility
	}
	for _, test := range []struct {
		name   string
		linked bool // to its process 4, all the while
		said   []said
		want   Eligibility
	}{
		{"an older message that is passed on", true, []said{{change: 2}, {true, 4, 1, IneligibleFew}}, Eligible},
		{"a newer one", true, []said{{change: 2}, {true, 4, 3, IneligibleFew}}, IneligibleFew},
		{"another one of the same report", true, []said{{change: 2, is: IneligibleFew}, {true, 4, 2, IneligibleFew}}, IneligibleFew},
		{"one of the process before", true, []said{{change: 2}, {true, 3, 9, IneligibleFew}}, Eligible},
		{"one of a second process with its id", true, []said{{change: 2}, {true, 5, 0, IneligibleFew}, {change: 2}}, Eligible},
		{"one of the process after", false, []said{{true, 4, 2, Eligible}, {true, 5, 0, IneligibleFew}}, IneligibleFew},
		{"one of the process before, without a link", false, []said{{true, 4, 2, IneligibleFew}, {true, 3, 9, Eligible}}, IneligibleFew},
		{"an older one over a second connection", true, []said{{change: 2}, {change: 1, is: IneligibleFew}}, Eligible},
	} {
		m := follow(t, "3")
		if test.linked {
			m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 4})
		}
		for _, s := range test.said {
			ev := from("2", Message{Kind: ProbeReply, To: "3", Stamp: -1, Change: s.change, Process: s.process, Eligibility: s.is})
			if s.passed {
				ev = from("1", Message{Kind: Relay, Carried: ev.Message})
			}
			m.Step(start, ev)
		}
		if got := m.Members()[1].Eligibility; got != test.want {
			t.Errorf("%s: 2 is %q, want %q", test.name, got, test.want)
		}
	}
}

// A restarted member that is reached over relays only is not taken for its process before.
func TestAPassedMessageNamesItsProcess(t *testing.T) {
	m := follow(t, "3")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("1"), Incarnation: 1})
	m.Step(start, from("1", Message{Kind: Relay, Carried: relay("4", "3", Ping)})) // 1 reaches 4
	passed := 0
	for _, a := range m.Step(start, from("1", Message{Kind: Relay, Carried: relay("4", "3", Probe)})) {
		if a.Kind != Send || a.Message.Kind != Relay {
			continue
		}
		if passed++; a.Message.Carried.Process != 7 {
			t.Errorf("what 1 is to pass on is of process %d, want 7", a.Message.Carried.Process)
		}
	}
	if passed == 0 {
		t.Error("4 asked over a relay, and is not answered over it")
	}
}

// What a member sent before it led is older than what it sends as the leader.
func TestLeadingIsAChange(t *testing.T) {
	m := follow(t, "4")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1})
	change := func(actions []Action) (last uint64) {
		for _, a := range actions {
			if a.Kind == Send {
				last = a.Message.Change
			}
		}
		return last
	}
	before := change(m.Step(start, from("3", Message{Kind: Probe})))
	m.Step(start, from("5", Message{Kind: Resign, Token: m.View(), Eligibility: IneligibleResigned}))
	m.Step(start, Event{Kind: Saved})
	if m.View() != token(4, rank("4")) {
		t.Fatalf("it follows %v, want 4:4", m.View())
	}
	if after := change(m.Step(start, from("3", Message{Kind: Probe}))); after <= before {
		t.Errorf("its messages have change %d before it leads and %d after", before, after)
	}
}

// A member that has lost its leader does not claim while another one leads, as that reported.
func TestNoMemberClaimsWhileAnotherLeads(t *testing.T) {
	for _, leads := range []bool{false, true} {
		m := follow(t, "3")
		m.Step(start, from("5", Message{Kind: Beat, Token: m.View(), Leads: leads}))
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		m.Step(start, from("4", Message{Kind: Coordinator, Token: token(4, rank("4")), Leads: true}))
		m.Step(start, Event{Kind: Saved})
		actions := crashed(m, start, "4") // 4 has crashed
		if waits := !slices.Contains(kinds(actions), "election>5"); waits != leads {
			t.Errorf("5 leads: %v; 3 begins no election: %v, actions %q", leads, waits, kinds(actions))
		}
	}
}

// A new link to a member's own process begins its order; to one that relays have shown, it does not.
func TestALinkKeepsWhatRelaysReported(t *testing.T) {
	few := relay("2", "3", ProbeReply)
	few.Stamp, few.Change, few.Process, few.Eligibility = -1, 2, 5, IneligibleFew
	for incarnation, want := range map[uint64]Eligibility{4: Eligible, 5: IneligibleFew, 6: Eligible} {
		m := follow(t, "3")
		m.Step(start, from("1", Message{Kind: Relay, Carried: few}))
		m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: incarnation})
		if got := m.Members()[1].Eligibility; got != want {
			t.Errorf("relays showed process 5, a link process %d: 2 is %q, want %q", incarnation, got, want)
		}
		m.Step(start, from("2", Message{Kind: ProbeReply, Stamp: -1, Change: 3, Eligibility: IneligibleUnhealthy}))
		if got := m.Members()[1].Eligibility; got != IneligibleUnhealthy {
			t.Errorf("a link to process %d: 2 is %q, and it has reported that it is unhealthy", incarnation, got)
		}
	}
}

// A member that waited for another leader, and follows that now, waits no more: the next contest
// begins once, and a member that has resigned stays no candidate.
func TestTheWaitEndsWithANewLeader(t *testing.T) {
	m := follow(t, "3")
	m.Step(start, from("5", Message{Kind: Beat, Token: m.View(), Leads: true, Change: 1}))
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	m.Step(start, from("4", Message{Kind: Coordinator, Token: token(4, rank("4")), Leads: true, Change: 1}))
	m.Step(start, Event{Kind: Saved})
	crashed(m, start, "4") // 3 waits for 5, which leads
	m.Step(start, from("5", Message{Kind: Coordinator, Token: token(5, rank("5")), Leads: true, Change: 1}))
	m.Step(start, Event{Kind: Saved})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 2})
	actions := m.Step(start, from("5", Message{Kind: Resign, Token: m.View(), Change: 2, Eligibility: IneligibleClosing}))
	calls := 0
	for _, kind := range kinds(actions) {
		if kind == "election>4" {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("its leader has resigned: %q, want one election message to 4", kinds(actions))
	}
}
