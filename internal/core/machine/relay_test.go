package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
)

func relay(from, to ID, kind MessageKind) *Message {
	return &Message{Kind: kind, Election: "default", From: from, To: to}
}

// passedTo are the receivers to whom actions pass something on.
func passedTo(actions []Action) (to []ID) {
	for _, a := range actions {
		if a.Kind == Send && a.Message.Kind == Relay {
			to = append(to, a.To)
		}
	}
	return to
}

// One copy goes out for one that comes in, in the name of who sent it, once.
func TestWhatIsPassedOn(t *testing.T) {
	for _, test := range []struct {
		name    string
		carried *Message
		want    []ID
	}{
		{"for a member", relay("2", "5", Election), []ID{"5"}},
		{"a ping", relay("2", "1", Ping), []ID{"1"}},
		{"nothing", nil, nil},
		{"to a stranger", relay("2", "9", Election), nil},
		{"in another's name", relay("1", "5", Election), nil},
		{"back to its sender", relay("2", "2", Election), nil},
		{"a beat", relay("2", "5", Beat), nil},
		{"a list", relay("2", "5", Members), nil},
		{"one that is passed on already", relay("2", "5", Relay), nil},
		{"of another election", &Message{Kind: Ping, Election: "other", From: "2", To: "5"}, nil},
		{"with an absurd epoch", &Message{Kind: Ping, Election: "default", From: "2", To: "5", Highest: 1 << 60}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := follow(t, "3")
			got := passedTo(m.Step(start, from("2", Message{Kind: Relay, Carried: test.carried})))
			if !slices.Equal(got, test.want) {
				t.Errorf("it is passed on to %v, want %v", got, test.want)
			}
		})
	}
}

// What comes by another is answered by that one, and is no hearing of our own.
func TestWhatComesByAnotherIsAnsweredByIt(t *testing.T) {
	m := follow(t, "3")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	actions := m.Step(start, from("2", Message{Kind: Relay, Carried: relay("1", "3", Ping)}))
	if got := passedTo(actions); len(got) == 0 || slices.ContainsFunc(got, func(by ID) bool { return by != "2" }) {
		t.Fatalf("the answer goes by %v, want by 2", got)
	}
	for _, v := range m.Members() {
		if v.ID == "1" && !v.Heard.IsZero() {
			t.Errorf("1 counts as heard at %v, and another said so", v.Heard)
		}
	}
}

// A member that does not answer a dial is asked for by the others before it counts as
// down; one whose host refuses is down at once.
func TestASilentMemberIsAskedForByOthers(t *testing.T) {
	silent := func(refused bool) []Action {
		m := newMachine(t, "3", nil)
		m.Step(start, Event{Kind: Started})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("1"), Incarnation: 1})
		return slices.Clone(m.Step(start.Add(DefaultTMax*2), Event{Kind: DialFailed, Peer: "4", Refused: refused}))
	}
	for _, by := range []ID{"1", "2"} {
		if got := passedTo(silent(false)); !slices.Contains(got, by) {
			t.Errorf("4 is silent, and %v are asked for it", got)
		}
	}
	if got := passedTo(silent(true)); got != nil {
		t.Errorf("4 refuses, and %v are asked for it", got)
	}
}

// A leader that is reached by another alone, and leads with a lower token than we hold,
// is informed of that, whatever member reports that it leads.
func TestALeaderBeyondACutIsToldOfAHigherToken(t *testing.T) {
	for _, by := range []ID{"2", "4"} {
		m := follow(t, "3") // 5 leads with epoch 3
		report := relay(by, "3", ProbeReply)
		report.Token = Token{Epoch: 2, Leader: rank("4")}
		held := m.View()
		var told []*Message
		for _, a := range m.Step(start, from("1", Message{Kind: Relay, Carried: report})) {
			if a.Kind == Send && a.To == "4" {
				told = append(told, a.Message)
			}
			if a.Kind == Send && a.Message.Kind == Relay {
				told = append(told, a.Message.Carried)
			}
		}
		if !slices.ContainsFunc(told, func(msg *Message) bool { return msg.To == "4" && msg.Kind == ProbeReply && msg.Token == held }) {
			t.Errorf("%s says that 4 leads epoch 2; 4 is told %v, want a report of %v", by, told, held)
		}
	}
}

// A member without heartbeats does not learn which higher member is back. When it learns by another
// that its leader's time is over, it asks before it claims. With heartbeats it claims at once.
func TestWhomNoBeatsReachAsksForTheHigher(t *testing.T) {
	for _, beats := range []bool{false, true} {
		m, at := follow(t, "3"), start
		m.Step(at, Event{Kind: DialFailed, Peer: "4", Refused: true})
		for range 10 { // T is 600 ms
			at = at.Add(DefaultHeartbeat)
			m.Step(at, from("5", Message{Kind: Beat, Token: m.View()}))
		}
		over := relay("5", "3", Resign)
		over.Token, over.Eligibility = m.View(), IneligibleResigned
		ev := Event{Kind: Received, Message: over}
		if !beats {
			ev = from("1", Message{Kind: Relay, Carried: over})
		}
		actions := m.Step(at, ev)
		if asks, claims := asked(actions, "4") != 0, slices.Contains(kinds(actions), "save"); asks == beats || claims != beats {
			t.Errorf("it hears beats: %v; when its leader resigns it asks 4: %v, it claims: %v", beats, asks, claims)
		}
	}
}

// One that has dialed only for another reports that it was in vain, and asks no member: all
// would else ask all for one that is dead.
func TestADialForAnotherIsNoConcern(t *testing.T) {
	m := follow(t, "3")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("1"), Incarnation: 1})
	m.Step(start, from("2", Message{Kind: Relay, Carried: relay("2", "4", Ping)}))
	actions := m.Step(start.Add(DefaultTMax*2), Event{Kind: DialFailed, Peer: "4"})
	if got := passedTo(actions); !slices.Equal(got, []ID{"2"}) {
		t.Errorf("4 is silent, and 2 asked for it; %v are told or asked, want 2 alone", got)
	}
}

// A question that another member passes on, as the dial has failed, is waited for from then.
func TestTheContestAwaitsWhatIsPassedOn(t *testing.T) {
	m, timing := follow(t, "3"), Timing{Heartbeat: DefaultHeartbeat, TMax: DefaultTMax, TProcess: DefaultTProcess}
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	if got := kinds(crashed(m, start, "5")); !slices.Contains(got, "election>4") {
		t.Fatalf("the leader is gone: %q, want 4 asked", got)
	}
	m.Step(start.Add(timing.DialTime()), Event{Kind: DialFailed, Peer: "4"})
	at := start.Add(timing.DialTime() + timing.T() - 1)
	wakes := func(from, to time.Time) {
		for at := from; at.Before(to); at = at.Add(DefaultHeartbeat / 2) {
			m.Step(at, Event{Kind: Woke})
		}
	}
	wakes(start.Add(timing.DialTime()), at)
	if got := passedTo(m.Step(at, from("2", Message{Kind: Relay, Carried: relay("4", "3", Pong)}))); !slices.Contains(got, "2") {
		t.Fatalf("2 reaches 4, and the question is passed on by %v", got)
	}
	over := at.Add(timing.DialTime() + 4*timing.TMax + timing.TProcess)
	if got := kinds(m.Step(at.Add(1), Event{Kind: Woke})); slices.Contains(got, "save") {
		t.Errorf("it claims when it would have without: %q", got)
	}
	wakes(at.Add(1), over)
	for _, c := range []struct {
		at    time.Time
		saves bool
	}{{over.Add(-1), false}, {over, true}} {
		if got := kinds(m.Step(c.at, Event{Kind: Woke})); slices.Contains(got, "save") != c.saves {
			t.Errorf("%v after it was passed on: %q, want a claim: %v", c.at.Sub(at), got, c.saves)
		}
	}
}

// A temporary link stays while an answer may be on its way to what was asked last, but no
// longer than 2·T after what was asked first.
func TestALinkWaitsForTheAnswerToWhatWasAskedLast(t *testing.T) {
	m := follow(t, "3") // T is 600 ms
	m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	m.Step(start, from("2", Message{Kind: Members})) // it has answered what it was asked at the start
	asks := from("1", Message{Kind: Relay, Carried: relay("1", "2", Election)})
	for ms := 0; ms <= 1700; ms += 50 {
		at := start.Add(time.Duration(ms) * time.Millisecond)
		actions := slices.Clone(m.Step(at, from("5", Message{Kind: Beat, Token: m.View()})))
		if ms == 400 || ms == 800 || ms == 1100 {
			actions = append(actions, m.Step(at, asks)...)
		}
		ends := slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == Hangup && a.To == "2" })
		if want := ms == 1650; ends != want { // later than 400 ms + 2·T
			t.Errorf("%d ms: it hangs up: %v, want %v", ms, ends, want)
		}
	}
}

// A question is asked again when its connection ends, whatever was said there after it: for others, too.
func TestAQuestionIsNotLostForWhatWasPassedOnAfterIt(t *testing.T) {
	m := follow(t, "3")
	at := start.Add(500 * time.Millisecond) // T is 600 ms
	for _, id := range []ID{"1", "2"} {
		m.Step(at, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
	}
	asks := func(actions []Action) bool {
		return slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == Send && a.To == "2" && a.Message.Kind == Probe })
	}
	at = start.Add(601 * time.Millisecond)
	if !asks(m.Step(at, Event{Kind: Woke})) {
		t.Fatal("the leader is silent, and it asks nobody who leads")
	}
	m.Step(at, from("1", Message{Kind: Relay, Carried: relay("1", "2", Election)}))
	if !asks(m.Step(at, Event{Kind: LinkDown, Peer: "2"})) {
		t.Error("it did not ask 2 again, whose connection has ended with its question")
	}
}
