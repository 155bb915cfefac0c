package machine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// asked is what the question to a member says of when it left; 0: there is none.
func asked(actions []Action, of ID) int64 {
	for _, a := range actions {
		if a.Kind == Send && a.Message.Kind == Probe && a.To == of {
			return a.Message.Stamp
		}
	}
	return 0
}

// suspects gives a follower of 5 that has asked 4 and 3 for it, the moment, and what
// the question to 4 said of when it left.
func suspects(t *testing.T) (m *Machine, at time.Time, stamp int64) {
	t.Helper()
	m, at = follow(t, "2"), start.Add(time.Second) // T is 600 ms, and beats were due every 100 ms
	for now := start; now.Before(at); now = now.Add(DefaultHeartbeat / 2) {
		if stamp := asked(m.Step(now, Event{Kind: Woke}), "4"); stamp != 0 {
			return m, now, stamp
		}
	}
	t.Fatal("it asks nobody for its silent leader")
	return m, at, 0
}

// Whoever answered an earlier question may have claimed since: that answer ends no inquiry.
func TestAnInquiryWaitsForItsOwnAnswers(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members = members("4", "5") })
	before := asked(m.Step(start, Event{Kind: Started}), "4")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	at := start.Add(time.Minute) // it was stopped, and asks anew
	now := asked(m.Step(at, Event{Kind: Woke}), "4")
	if before == 0 || now == 0 || now == before {
		t.Fatalf("it asks at %d and at %d, want two questions", before, now)
	}
	report := func(stamp int64) []string {
		return kinds(m.Step(at, from("4", Message{Kind: ProbeReply, Stamp: stamp, Age: -1})))
	}
	if got := report(before); slices.Contains(got, "save") {
		t.Errorf("its first question is answered: %q, want no claim", got)
	}
	if got := report(now); !slices.Contains(got, "save") {
		t.Errorf("its second question is answered: %q, want a claim", got)
	}
}

// A member that reports a failing disk is left out by the others: when it is a candidate again,
// it asks once more what it had asked before.
func TestWhoseDiskWorksAgainAsksAnew(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members = members("4", "5") })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	m.Step(start, Event{Kind: MemberAdded, Member: Member{Rank: rank("1")}})
	m.Step(start, Event{Kind: Saved, Err: errors.New("no space")})
	at := start.Add(time.Millisecond)
	m.Step(at, Event{Kind: MemberAdded, Member: Member{Rank: rank("2")}})
	if asked(m.Step(at, Event{Kind: Saved}), "4") == 0 {
		t.Error("its disk works again while it inquires, and it asks nobody")
	}
}

// A confirmation keeps a silent leader from when it arrives, by what its sender had received when
// it was sent: one that answers a question from too long ago keeps no leader. A sender of an
// older version does not say what it answers, and is believed.
func TestAVouchHoldsWhileItsQuestionIsFresh(t *testing.T) {
	timing := Timing{Heartbeat: DefaultHeartbeat, TMax: DefaultTMax, TProcess: DefaultTProcess}
	longest := timing.DialTime() + 2*timing.TMax + timing.TProcess
	for _, c := range []struct {
		name   string
		echo   bool
		asked  time.Duration // before the answer
		spares bool
	}{
		{"at once", true, 0, true},
		{"just in time", true, longest, true},
		{"too late", true, longest + 1, false},
		{"from the time to come, or an earlier life", true, -time.Second, false},
		{"an older version", false, 0, true},
	} {
		m, at, stamp := suspects(t)
		if stamp == 0 {
			t.Fatal("a question does not say when it left")
		}
		report := Message{Kind: ProbeReply, Token: token(3, rank("5")), Follows: true, Age: time.Millisecond}
		if c.echo {
			report.Stamp = stamp - int64(c.asked)
		}
		before := m.Spared()
		m.Step(at, from("4", report))
		if spares := m.Spared().After(before); spares != c.spares {
			t.Errorf("%s: it spares its leader: %v, want %v", c.name, spares, c.spares)
		}
	}
}

// A confirmation names the question that it answers: the asker's own, or in a ring that of
// whoever began the round.
func TestAVouchSaysWhatItAnswers(t *testing.T) {
	report := func(actions []Action, to ID) int64 {
		for _, a := range actions {
			if a.Kind == Send && a.Message.Kind == ProbeReply && a.To == to {
				return a.Message.Stamp
			}
		}
		t.Errorf("no report to %s", to)
		return 0
	}
	m := follow(t, "4")
	if got := report(m.Step(start, from("2", Message{Kind: Probe, Stamp: 17})), "2"); got != 17 {
		t.Errorf("to a question of 17 it answers with %d", got)
	}
	asks := Message{Kind: Election, Round: Round{Number: 1, Initiator: "2"}, Stamp: 18}
	if got := report(m.Step(start, from("2", asks)), "2"); got != 18 {
		t.Errorf("to a contest of 18 it answers with %d", got)
	}
	for _, algorithm := range []Algorithm{ring.New(), ring.NewChangRoberts()} {
		m := newMachine(t, "3", func(c *Config) { c.Algorithm, c.Following = algorithm, token(3, rank("5")) })
		m.Step(start, Event{Kind: Started})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		asks := Message{Kind: Election, Round: Round{Number: 1, Initiator: "1"}, Stamp: 19, Hops: MaxMembers - 1, Ring: []Rank{rank("1")}}
		if algorithm.Name() == "chang-roberts" {
			asks.Ring = []Rank{rank("4")}
		}
		did := m.Step(start, from("2", asks))
		if got := report(did, "1"); got != 19 {
			t.Errorf("%s: to a round of 19 it answers with %d", algorithm.Name(), got)
		}
		for _, a := range did {
			if a.Kind == Send && a.Message.Kind == Election && a.Message.Stamp != 19 {
				t.Errorf("%s: it passes on a round of 19 as of %d", algorithm.Name(), a.Message.Stamp)
			}
		}
	}
}

// An answer to an earlier process with the same id is none to this one, though both count
// their time from their start.
func TestAnAnswerToAnEarlierLifeIsLate(t *testing.T) {
	earlier := newMachine(t, "2", func(c *Config) { c.Incarnation = 6 })
	stamp := asked(earlier.Step(start, Event{Kind: Started}), "4")
	if stamp == 0 {
		t.Fatal("it asks nobody when it starts")
	}
	m, at, _ := suspects(t)
	before := m.Spared()
	m.Step(at, from("4", Message{Kind: ProbeReply, Token: token(3, rank("5")), Stamp: stamp + int64(at.Sub(start))}))
	if m.Spared().After(before) {
		t.Error("it takes for an answer what an earlier process was told")
	}
}

// A leadership of which a member receives the end while it follows no member, or another, is not
// taken up from those who have not heard of it.
func TestALeadershipThatIsOverIsNotTakenUp(t *testing.T) {
	over := token(4, rank("1"))
	for _, word := range []Message{
		{Kind: ProbeReply, Token: over, Follows: true, Age: time.Millisecond},
		{Kind: Coordinator, Token: over}, // in a ring: passed on
	} {
		for _, ended := range []bool{true, false} {
			m := follow(t, "2")
			m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1})
			if ended {
				m.Step(start, from("1", Message{Kind: Resign, Token: over}))
			}
			takes := slices.Contains(kinds(m.Step(start, from("3", word))), "save")
			if takes == ended {
				t.Errorf("%s of a leadership that has ended (%v): it takes it up: %v", word.Kind, ended, takes)
			}
		}
	}
}

// Who asks under its own token leads by it no more. Who knows of that leadership from
// others alone gives it up at once; who has heard the leader itself waits for its beats.
func TestALeaderThatAsksLeadsNoMore(t *testing.T) {
	over := token(4, rank("1"))
	asks := from("1", Message{Kind: Probe, Token: over})
	for _, c := range []struct {
		tells   ID // of the leadership
		when    string
		follows bool
	}{
		{"3", "before", false},
		{"3", "while saving", false},
		{"3", "after", false},
		{"3", "never", true},
		{"1", "while saving", true},
		{"1", "after", true},
	} {
		m := follow(t, "2")
		m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1})
		step := func(when string, ev Event) {
			if when == c.when {
				m.Step(start, asks)
			}
			m.Step(start, ev)
		}
		step("before", from(c.tells, Message{Kind: Coordinator, Token: over}))
		step("while saving", Event{Kind: Saved})
		step("after", Event{Kind: Woke})
		if follows := m.View() == over; follows != c.follows {
			t.Errorf("the leader that %s tells of asks %s: it is followed: %v, want %v", c.tells, c.when, follows, c.follows)
		}
	}
}

// A question that is lost with its connection leaves again, and its answer takes as long from then.
func TestWhoIsAskedAgainIsAwaitedAnew(t *testing.T) {
	for _, heard := range []bool{false, true} { // of something older, on the same connection
		m, at := follow(t, "2"), start
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		pong := Message{Kind: Pong}
		for _, a := range m.Step(start, from("4", Message{Kind: Ping})) {
			if a.Kind == Send && a.Message.Kind == Pong {
				pong.Digest = a.Message.Digest // the lists are alike
			}
		}
		for asks := int64(0); asks == 0; asks = asked(m.Step(at, Event{Kind: Woke}), "4") {
			m.Step(at, from("4", pong))
			at = at.Add(DefaultHeartbeat / 2)
		}
		if heard {
			m.Step(at, from("4", pong))
		}
		timing := Timing{Heartbeat: DefaultHeartbeat, TMax: DefaultTMax, TProcess: DefaultTProcess}
		over := at.Add(timing.DialTime() + 2*timing.TMax) // those without a link are awaited until then
		for ; at.Before(over.Add(-DefaultHeartbeat)); at = at.Add(DefaultHeartbeat / 2) {
			m.Step(at, Event{Kind: Woke})
		}
		again := kinds(m.Step(at, Event{Kind: LinkDown, Peer: "4"}))
		m.Step(over.Add(1), Event{Kind: Woke})
		if !slices.Contains(again, "query>4") || !m.View().Defined() {
			t.Errorf("heard before: %v: the question is lost, and leaves again: %q, want its answer awaited; view %v", heard, again, m.View())
		}
	}
}

// So does the Algorithm: what it asked leaves again, and its answer takes as long from then.
func TestTheContestAwaitsWhatIsSaidAgain(t *testing.T) {
	m := follow(t, "3")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	at := start.Add(time.Millisecond)
	if got := kinds(crashed(m, at, "5")); !slices.Contains(got, "election>4") {
		t.Fatalf("the leader is gone: %q, want 4 asked", got)
	}
	timing := Timing{Heartbeat: DefaultHeartbeat, TMax: DefaultTMax, TProcess: DefaultTProcess}
	over := at.Add(timing.T())
	for ; at.Before(over.Add(-DefaultHeartbeat)); at = at.Add(DefaultHeartbeat / 2) {
		m.Step(at, Event{Kind: Woke})
	}
	if got := kinds(m.Step(at, Event{Kind: LinkDown, Peer: "4"})); !slices.Contains(got, "election>4") {
		t.Fatalf("the link has ended: %q, want 4 asked again", got)
	}
	again := at.Add(timing.DialTime() + timing.T())
	m.Step(over.Add(-1), Event{Kind: Woke})
	for _, c := range []struct {
		at    time.Time
		saves bool
	}{{over, false}, {again.Add(-1), false}, {again, true}} {
		if got := kinds(m.Step(c.at, Event{Kind: Woke})); slices.Contains(got, "save") != c.saves {
			t.Errorf("%v after it was asked again: %q, want a claim: %v", c.at.Sub(at), got, c.saves)
		}
	}
}

// A member that has asked a higher one in vain whether it is a candidate asks the others once
// more for the leader before it claims: the higher one may lead, and their reports of that are old.
func TestWhoAsksAHigherMemberInVainAsksTheOthers(t *testing.T) {
	m := follow(t, "3")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	m.Step(start, from("4", Message{Kind: Ack, Eligibility: IneligibleUnhealthy}))
	at := start.Add(time.Millisecond)
	if got := crashed(m, at, "5"); asked(got, "4") == 0 {
		t.Fatalf("the leader is gone: %q, want 4 asked whether it stands", kinds(got))
	}
	for end := at.Add(2 * time.Second); at.Before(end); at = at.Add(DefaultHeartbeat / 2) {
		switch got := m.Step(at, Event{Kind: Woke}); {
		case slices.Contains(kinds(got), "save"):
			t.Fatalf("4 has not answered: %q, want the others asked first", kinds(got))
		case asked(got, "2") != 0:
			return
		}
	}
	t.Error("it asks nobody")
}
