package machine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// A leader yields to a candidate that outranks it, and to no other member.
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

// A leader from which no member receives any more may still lead; once it has announced that its time
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

// A newcomer knows of leaderships that no member here has learned of: what is claimed next
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

// A leader resigns under an epoch to which it had raised the leadership that is followed. A member that
// received it before that does not bring it back.
func TestALeadershipThatEndsUnderAHigherEpochIsNotTakenUp(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		m := follow(t, "2")
		raised := token(4, rank("5"))
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		if resigns {
			got := kinds(m.Step(start, from("5", Message{Kind: Resign, Token: raised, Renews: 3, Eligibility: IneligibleResigned})))
			if !slices.Contains(got, "lose:resigned") {
				t.Errorf("its leader has resigned: %q", got)
			}
		}
		got := kinds(m.Step(start, from("4", Message{Kind: ProbeReply, Token: raised, Renews: 3, Follows: true, Age: time.Millisecond})))
		if slices.Contains(got, "save") == resigns {
			t.Errorf("the leader has resigned: %v, and a member reports the leadership: %q", resigns, got)
		}
	}
}

// A member that has resigned is a candidate again once another leadership of at least 2·T has ended.
func TestAResignedMemberStandsAgainAfterTheNextLeader(t *testing.T) {
	const beat = DefaultHeartbeat
	next, long := token(4, rank("5")), 2*Timing{}.WithDefaults().T()
	for _, tt := range []struct {
		led           time.Duration
		during, after Eligibility
	}{
		{0, IneligibleResigned, IneligibleResigned},
		{long - beat, IneligibleResigned, IneligibleResigned},
		{long, StandsNext, Eligible},
	} {
		m := newMachine(t, "2", func(c *Config) { c.Following = token(3, rank("2")) })
		m.Step(start, Event{Kind: Started})
		m.Step(start, Event{Kind: Resigned})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
		m.Step(start, from("5", Message{Kind: Coordinator, Token: next}))
		m.Step(start, Event{Kind: Saved})
		for at := time.Duration(0); at <= tt.led; at += beat {
			m.Step(start.Add(at), from("5", Message{Kind: Beat, Token: next}))
		}
		if is := reported(m); is != tt.during || m.View() != next {
			t.Fatalf("it has followed %v for %v and is %q, want %q", m.View(), tt.led, is, tt.during)
		}
		m.Step(start.Add(tt.led), from("5", Message{Kind: Resign, Token: next, Eligibility: IneligibleResigned}))
		if is := reported(m); is != tt.after {
			t.Errorf("a leadership of %v has ended, and it is %q, want %q", tt.led, is, tt.after)
		}
	}
}

// The time in which no member could lead, because work of another had still to stop, does not count for one that
// has resigned: it is a candidate again when no member has led for 2·T after that.
func TestTimeInWhichNobodyCouldLeadDoesNotCount(t *testing.T) {
	m := newMachine(t, "2", func(c *Config) { c.Following = token(3, rank("2")) })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	timing := Timing{}.WithDefaults()
	at, stood := start, time.Duration(0)
	const step = 50 * time.Millisecond
	for ; stood == 0 && at.Before(start.Add(time.Minute)); at = at.Add(step) {
		m.Step(at, from("4", Message{Kind: Ping, Draining: at.Before(start.Add(timing.T()))}))
		if at.Equal(start) {
			m.Step(at, Event{Kind: Resigned})
		}
		m.Step(at, Event{Kind: Woke})
		if reported(m) == Eligible {
			stood = at.Sub(start)
		}
	}
	if stood < 3*timing.T() || stood > 3*timing.T()+4*step {
		t.Errorf("4's work stopped %v after 2 has resigned, and 2 stands %v after it, want %v", timing.T(), stood, 3*timing.T())
	}
}

// A leader that resigns and had seen a higher epoch, or reports that another may lead, may have yielded to a leader of
// which its followers have not heard: they ask.
func TestWhoseLeaderKnewMoreAsks(t *testing.T) {
	for _, over := range []Message{{}, {Highest: 4}, {Follows: true}} {
		m := follow(t, "4")
		over.Kind, over.Token, over.Eligibility = Resign, token(3, rank("5")), IneligibleResigned
		got := kinds(m.Step(start, from("5", over)))
		if asks := !slices.Contains(got, "save"); asks != (over.Follows || over.Highest > 0) {
			t.Errorf("5 says %+v, and 4 does %q", over, got)
		}
	}
}

// A leader that resigns while it still dials a member, to inform it of its leadership, informs it of the end behind that.
func TestAnEndGoesBehindTheDial(t *testing.T) {
	m := newMachine(t, "2", nil)
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("1"), Incarnation: 1})
	m.Step(start, from("1", Message{Kind: ProbeReply, Age: -1}))
	for _, id := range []ID{"3", "4", "5"} {
		m.Step(start, Event{Kind: DialFailed, Peer: id, Refused: true})
	}
	m.Step(start, Event{Kind: LinkDown, Peer: "1"})
	if got := kinds(m.Step(start, Event{Kind: Saved})); !slices.Contains(got, "coordinator>1") {
		t.Fatalf("the others are gone, and it does %q, want it to lead, and 1 dialed with the word of it", got)
	}
	if got := kinds(m.Step(start, Event{Kind: Resigned})); !slices.Contains(got, "resign>1") {
		t.Errorf("it resigns and does %q, want 1 told", got)
	}
}

// A member that has lost that leader, before the next candidate has, waits for that candidate:
// both would else claim.
func TestWhoStandsNextIsWaitedFor(t *testing.T) {
	for says, waits := range map[Eligibility]bool{StandsNext: true, IneligibleResigned: false} {
		m := follow(t, "3")
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		at := start.Add(time.Millisecond)
		crashed(m, at, "5")
		at = at.Add(time.Millisecond)
		m.Step(at, from("4", Message{Kind: Ping, Eligibility: says, Highest: 3})) // it follows 5 still
		got := kinds(m.Step(at, Event{Kind: Campaign}))
		if slices.Contains(got, "election>4") != waits || slices.Contains(got, "save") == waits {
			t.Errorf("4 says %q: 3 does %q, want it to ask 4: %v, else to claim", says, got, waits)
		}
	}
}

// A member that learns of a higher epoch while it asks the higher members does not claim on what
// it learned before: a leader may have been elected meanwhile.
func TestAClaimBehindAPollRestsOnWhatIsNew(t *testing.T) {
	for highest, claims := range map[uint64]bool{3: true, 9: false} {
		m := follow(t, "3")
		m.Step(start, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		m.Step(start, from("4", Message{Kind: Ping, Eligibility: IneligibleUnsaved}))
		at := start.Add(time.Millisecond)
		if got := kinds(crashed(m, at, "5")); !slices.Contains(got, "query>4") {
			t.Fatalf("5 is gone, and 3 does %q, want it to ask 4", got)
		}
		at = at.Add(time.Millisecond)
		m.Step(at, from("2", Message{Kind: Ping, Highest: highest}))
		got := kinds(m.Step(at, from("4", Message{Kind: ProbeReply, Age: -1, Eligibility: IneligibleUnsaved})))
		if slices.Contains(got, "save") != claims || slices.Contains(got, "query>2") == claims {
			t.Errorf("the highest epoch is %d by now: 3 does %q, want it to claim: %v", highest, got, claims)
		}
	}
}

// An acknowledgement that arrives during an election may have set out before it. The member is asked.
func TestAnAcknowledgementIsNoReportOfTheElection(t *testing.T) {
	for kind, asked := range map[MessageKind]bool{Ack: true, Ping: false} {
		m := follow(t, "2")
		for _, id := range []ID{"3", "4"} {
			m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
		}
		m.Step(start, from("3", Message{Kind: Ping, Eligibility: IneligibleUnhealthy}))
		at := start.Add(time.Millisecond)
		if got := kinds(crashed(m, at, "5")); !slices.Contains(got, "election>4") {
			t.Fatalf("5 has crashed, and 2 does %q, want an election with 4", got)
		}
		at = at.Add(time.Millisecond)
		m.Step(at, from("3", Message{Kind: kind, Eligibility: IneligibleUnhealthy}))
		m.Step(at, from("4", Message{Kind: Ping, Eligibility: IneligibleUnhealthy}))
		got := kinds(m.Step(at, Event{Kind: Campaign}))
		if slices.Contains(got, "query>3") != asked || slices.Contains(got, "save") == asked {
			t.Errorf("3 reports that it is unhealthy with %v: 2 does %q, want 3 asked: %v", kind, got, asked)
		}
	}
}

// What a member reports while the leader's work stops is old when that has stopped. The member is asked.
func TestAReportWhileALeaderDrainsIsOld(t *testing.T) {
	m := newMachine(t, "4", nil)
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	for _, id := range []ID{"1", "2", "3"} {
		m.Step(start, Event{Kind: DialFailed, Peer: id, Refused: true})
	}
	m.Step(start, from("5", Message{Kind: ProbeReply, Age: -1, Eligibility: IneligibleUnhealthy}))
	m.Step(start, Event{Kind: Saved})
	m.Step(start, Event{Kind: Working, On: true})
	m.Step(start, from("5", Message{Kind: Handover, Token: m.View()}))
	at := start.Add(time.Millisecond)
	m.Step(at, from("5", Message{Kind: Ping, Eligibility: IneligibleUnhealthy}))
	at = at.Add(time.Millisecond)
	if got := kinds(m.Step(at, Event{Kind: Working})); !slices.Contains(got, "resign>5") || !slices.Contains(got, "query>5") || slices.Contains(got, "save") {
		t.Errorf("5 was unhealthy while the work stopped: 4 does %q, want it to resign and to ask 5", got)
	}
}

// A higher member that is a candidate again while a claim is being saved takes over, once; it may
// say so in the very moment in which the claim begins.
func TestAClaimIsLeftToWhoStandsSince(t *testing.T) {
	for _, later := range []time.Duration{0, 1} {
		m := follow(t, "3")
		m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
		at := start.Add(time.Millisecond)
		m.Step(at, from("4", Message{Kind: Ping, Eligibility: IneligibleUnsaved}))
		crashed(m, at, "5")
		m.Step(at.Add(later), from("4", Message{Kind: Probe, Token: token(3, rank("5"))}))
		if got := kinds(m.Step(at.Add(later+1), Event{Kind: Saved})); slices.Contains(got, "elect") || !slices.Contains(got, "election>4") {
			t.Errorf("4 stands %v after 3 has claimed, whose claim is saved: %q, want 4 asked", later, got)
		}
	}
}

// A higher member that reports itself as a candidate, and never takes an election over, holds up
// a claim once and not forever: a program with another idea of rank may do so.
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

// Who hears during its contest that another has claimed asks who leads before it claims, too; not
// when that one says that it has given its claim up.
func TestAClaimThatIsHeardOfIsAskedAfter(t *testing.T) {
	for name, c := range map[string]struct {
		word  Message
		claim bool
	}{
		"another has claimed": {Message{Kind: Pong, Highest: 4}, false},
		"it has given that up": {Message{Kind: ProbeReply, Age: -1, Highest: 4,
			Eligibility: IneligibleUnsaved}, true},
		"it has led, and that is over": {Message{Kind: Ping, Token: token(4, rank("2")), Highest: 4,
			Eligibility: IneligibleResigned}, false},
		"nobody has": {Message{Kind: Pong, Highest: 3}, true},
	} {
		m := follow(t, "3")
		crashed(m, start, "5")
		m.Step(start, from("2", Message{Kind: Pong}))
		m.Step(start, from("2", c.word))
		got := m.Step(start, Event{Kind: DialFailed, Peer: "4", Refused: true})
		if claims := slices.Contains(kinds(got), "save"); claims != c.claim || (asked(got, "2") == 0) != c.claim {
			t.Errorf("%s: %q, want a claim at once: %v", name, kinds(got), c.claim)
		}
		for _, id := range []ID{"1", "4", "5"} {
			m.Step(start, Event{Kind: DialFailed, Peer: id, Refused: true})
		}
		got = append(got, m.Step(start, from("2", Message{Kind: ProbeReply, Token: token(3, rank("5")), Age: -1, Highest: 4}))...)
		if !slices.Contains(kinds(got), "save") {
			t.Errorf("%s, and nobody leads: %q, want a claim", name, kinds(got))
		}
	}
}

// A candidate of last resort is one too where the leader that it was about to follow is gone
// before that was saved.
func TestWhoIsLeftAloneStandsAsALastResort(t *testing.T) {
	m := newMachine(t, "4", func(c *Config) { c.LeadUnhealthy = true })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	m.Step(start, from("5", Message{Kind: Coordinator, Token: token(3, rank("5"))}))
	m.Step(start, Event{Kind: Health, On: false})
	m.Step(start, Event{Kind: LinkDown, Peer: "5"})
	for _, id := range []ID{"5", "3", "2", "1"} {
		m.Step(start, Event{Kind: DialFailed, Peer: id, Refused: true})
	}
	m.Step(start, Event{Kind: Saved})
	for at := start; at.Before(start.Add(5 * time.Second)); at = at.Add(DefaultHeartbeat / 2) {
		m.Step(at, Event{Kind: Woke})
		for _, id := range []ID{"5", "3", "2", "1"} {
			m.Step(at, Event{Kind: DialFailed, Peer: id, Refused: true})
		}
		m.Step(at, Event{Kind: Saved})
	}
	if m.View().Leader.ID != "4" {
		t.Errorf("everyone else is gone for 5 s: it sees %v lead, want itself", m.View())
	}
}

// hasty is an algorithm that claims, and finds its contest vain before the claim is on disk.
type hasty struct{}

func (hasty) Name() string { return "hasty" }

func (hasty) Step(ev Event, out Actions) {
	switch ev.Kind {
	case Started:
		out.Claim()
	case PeerUp:
		out.Discover()
	}
}

// A member whose claim is on its way to the disk asks no member who leads: it would lead while it asks.
func TestAMemberThatHasClaimedAsksNoMember(t *testing.T) {
	m := newMachine(t, "1", func(c *Config) { c.Members, c.Algorithm = members("1", "2"), hasty{} })
	m.Step(start, Event{Kind: Started})
	if got := kinds(m.Step(start, Event{Kind: PeerDown, Peer: "2"})); !slices.Contains(got, "save") {
		t.Fatalf("it is alone: %q, want a claim", got)
	}
	if got := kinds(m.Step(start, Event{Kind: PeerUp, Peer: "2"})); len(got) > 0 {
		t.Errorf("it finds its contest vain while its claim is saved: %q, want nothing", got)
	}
	if got := kinds(m.Step(start, Event{Kind: Saved})); !slices.Contains(got, "elect") {
		t.Errorf("its claim is on disk: %q, want that it leads", got)
	}
}
