package machine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/machine"
)

// A leader makes way for a member that outranks it and stands, and for nobody else.
func TestALeaderMakesWayForAHigherRankThatStands(t *testing.T) {
	for _, c := range []struct {
		by       ID
		aside    Eligibility
		token    Token
		makesWay bool
	}{
		{"5", Eligible, token(3, rank("3")), true},
		{"2", Eligible, token(3, rank("3")), false},
		{"5", IneligibleResigned, token(3, rank("3")), false},
		{"5", Eligible, token(2, rank("3")), false},
	} {
		m := newMachine(t, "3", func(c *Config) { c.Following = token(3, rank("3")) })
		m.Step(start, Event{Kind: Started})
		got := kinds(m.Step(start, from(c.by, Message{Kind: Handover, Token: c.token, Eligibility: c.aside})))
		if slices.Contains(got, "lose:resigned") != c.makesWay {
			t.Errorf("%s (%q) asks to be handed %v: %q, want it to make way: %v", c.by, c.aside, c.token, got, c.makesWay)
		}
	}
}

// A leader that nobody hears any more may still lead; once it has said that its time
// is over, be it late, nothing brings that time back.
func TestALateResignIsCertain(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		m := follow(t, "2")
		now := start
		for range 100 {
			if !m.View().Defined() {
				break
			}
			now = now.Add(DefaultHeartbeat)
			m.Step(now, Event{Kind: Woke})
		}
		ended := token(3, rank("5"))
		if resigns {
			m.Step(now, from("5", Message{Kind: Resign, Token: ended, Eligibility: IneligibleResigned}))
		}
		m.Step(now.Add(time.Millisecond), from("5", Message{Kind: Coordinator, Token: ended}))
		m.Step(now.Add(time.Millisecond), Event{Kind: Saved})
		if follows := m.View() == ended; follows == resigns {
			t.Errorf("the silent leader has resigned: %v, and it is followed again: %v", resigns, follows)
		}
	}
}

// A newcomer knows of leaderships that nobody here has heard of: what is claimed next
// is above them, but no single word uses the epochs up.
func TestANewcomersEpochIsHeard(t *testing.T) {
	for said, want := range map[uint64]uint64{50: 50, 1 << 50: 3} {
		m := follow(t, "2")
		m.Step(start, Event{Kind: JoinRequested, Member: Member{Rank: rank("9"), Address: "127.0.0.1:9"}, Token: token(said, rank("9"))})
		if m.Highest() != want {
			t.Errorf("a newcomer holds epoch %d: the highest is %d, want %d", said, m.Highest(), want)
		}
	}
}

// A leader that has resigned while its leadership was being saved is not followed.
func TestALeadershipThatEndsWhileItIsSavedIsNotFollowed(t *testing.T) {
	m := follow(t, "2")
	next := token(9, rank("4"))
	m.Step(start, from("4", Message{Kind: Coordinator, Token: next}))
	m.Step(start, from("4", Message{Kind: Resign, Token: next, Eligibility: IneligibleResigned}))
	if got := kinds(m.Step(start, Event{Kind: Saved})); slices.Contains(got, "elect") || m.View() == next {
		t.Errorf("the leader has resigned before it was saved: %q, and it follows %v", got, m.View())
	}
}

// Who has stepped down stands again once a later leader's time has ended.
func TestAResignedMemberStandsAgainAfterTheNextLeader(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Following = token(3, rank("2")) })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: Resigned})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	m.Step(start, from("5", Message{Kind: Coordinator, Token: token(4, rank("5"))}))
	m.Step(start, Event{Kind: Saved})
	if aside := said(m); aside != IneligibleResigned || m.View().Leader.ID != "5" {
		t.Fatalf("it follows %v and stands aside as %q, want %q", m.View(), aside, IneligibleResigned)
	}
	m.Step(start, from("5", Message{Kind: Resign, Token: token(4, rank("5")), Eligibility: IneligibleResigned}))
	if aside := said(m); aside != Eligible {
		t.Errorf("the next leader's time has ended, and it stands aside as %q", aside)
	}
}

// A higher member that says that it stands, and never takes a contest over, holds up a
// claim once and not for ever: a program with another idea of rank may do so.
func TestAHigherMemberThatNeverTakesOverIsAskedOnce(t *testing.T) {
	m := follow(t, "4")
	m.Step(start, Event{Kind: LinkDown, Peer: "5"})
	now := start
	m.Step(now, Event{Kind: DialFailed, Peer: "5", Refused: true})
	m.Step(now, Event{Kind: Saved, Err: errors.New("no space")}) // no claim: the contest goes on
	m.Step(now, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 2})
	for range 200 {
		at, due := m.Deadline()
		if !due {
			break
		}
		now = at
		todo := []Event{{Kind: Woke}}
		for len(todo) > 0 {
			ev := todo[0]
			todo = todo[1:]
			for _, a := range m.Step(now, ev) {
				switch {
				case a.Kind == NotifyElected && a.Token.Leader == rank("4"):
					return
				case a.Kind == Save:
					todo = append(todo, Event{Kind: Saved})
				case a.Kind == Dial:
					todo = append(todo, Event{Kind: DialFailed, Peer: a.To})
				case a.Kind == Send && a.To == "5" && a.Message.Kind == Probe:
					todo = append(todo, from("5", Message{Kind: ProbeReply, Age: -1}))
				case a.Kind == Send && a.To == "5" && a.Message.Kind == Election: // it lives, and does not answer
					todo = append(todo, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 2})
				}
			}
		}
		if now.Sub(start) > time.Minute {
			break
		}
	}
	t.Errorf("after %v nobody leads", now.Sub(start))
}
