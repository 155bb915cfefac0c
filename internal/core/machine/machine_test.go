package machine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

var start = time.Unix(1000, 0)

func members(ids ...ID) (list []Member) {
	for _, id := range ids {
		list = append(list, Member{Rank: Rank{ID: id}})
	}
	return list
}

func rank(id ID) Rank { return Rank{ID: id} }

func token(epoch uint64, leader Rank) Token { return Token{Epoch: epoch, Leader: leader} }

// newMachine is member self of 1…5 running Bully, not yet started.
func newMachine(t testing.TB, self ID, change func(*Config)) *Machine {
	t.Helper()
	c := Config{Self: rank(self), Members: members("1", "2", "3", "4", "5"), Algorithm: bully.New(), Incarnation: 7}
	if change != nil {
		change(&c)
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// follow gives a follower of 5 under epoch 3 that has a link to it.
func follow(t testing.TB, self ID) *Machine {
	t.Helper()
	m := newMachine(t, self, nil)
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	m.Step(start, from("5", Message{Kind: Coordinator, Token: token(3, rank("5"))}))
	m.Step(start, Event{Kind: Saved})
	if m.View() != (token(3, rank("5"))) {
		t.Fatalf("follows %v, want 3:5", m.View())
	}
	return m
}

// crashed steps m as when the process of id ends, and returns what m does then.
func crashed(m *Machine, now time.Time, id ID) []Action {
	m.Step(now, Event{Kind: LinkDown, Peer: id})
	return m.Step(now, Event{Kind: DialFailed, Peer: id, Refused: true})
}

func from(id ID, msg Message) Event {
	msg.From, msg.Election = id, "default"
	return Event{Kind: Received, Message: &msg}
}

func kinds(actions []Action) (list []string) {
	for _, a := range actions {
		switch a.Kind {
		case NotifyElected:
			list = append(list, "elect")
		case NotifyLost:
			list = append(list, "lose:"+string(a.Cause))
		case Save:
			list = append(list, "save")
		case Send:
			list = append(list, string(a.Message.Kind)+">"+string(a.To))
		case Dial:
			list = append(list, "dial>"+string(a.To))
		case Hangup:
			list = append(list, "hangup>"+string(a.To))
		}
	}
	return list
}

func TestAnEpochIsOnDiskBeforeAnyoneHearsOfIt(t *testing.T) {
	m := follow(t, "4")
	got := kinds(crashed(m, start, "5"))
	if want := []string{"lose:crashed", "save"}; !slices.Equal(got, want) {
		t.Fatalf("the leader crashes: %q, want %q: stop at once, then save, and tell nobody", got, want)
	}
	got = kinds(m.Step(start, Event{Kind: Saved}))
	if got[0] != "elect" || !slices.Contains(got, "coordinator>1") {
		t.Errorf("saved: %q, want elect first, then coordinator", got)
	}
}

// A process that is about to end claims nothing any more, whatever it hears or is asked.
func TestWhoClosesStandsNoMore(t *testing.T) {
	m := follow(t, "4")
	m.Step(start, Event{Kind: Closing})
	if why := m.Standing(); why != IneligibleClosing {
		t.Errorf("it closes, and does not stand because of %q, want %q", why, IneligibleClosing)
	}
	got := kinds(crashed(m, start, "5"))
	got = append(got, kinds(m.Step(start, Event{Kind: Health, On: true}))...)
	got = append(got, kinds(m.Step(start, Event{Kind: Campaign}))...)
	for at := start; at.Before(start.Add(time.Minute)); at = at.Add(100 * time.Millisecond) {
		got = append(got, kinds(m.Step(at, Event{Kind: Woke}))...)
	}
	if slices.Contains(got, "save") || slices.Contains(got, "elect") {
		t.Errorf("it closes, and the leader crashes: %q, want no claim", got)
	}
}

func TestWhoCannotSaveDoesNotClaimButFollows(t *testing.T) {
	m := follow(t, "4")
	crashed(m, start, "5")
	got := kinds(m.Step(start, Event{Kind: Saved, Err: errors.New("no space")}))
	if slices.Contains(got, "elect") || m.View().Defined() {
		t.Fatalf("the disk is full: %q and view %v, want no claim", got, m.View())
	}
	m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1})
	m.Step(start, from("3", Message{Kind: Coordinator, Token: token(9, rank("3"))}))
	m.Step(start, Event{Kind: Saved, Err: errors.New("no space")})
	if m.View() != (token(9, rank("3"))) {
		t.Errorf("view %v, want 9:3: it follows unsaved", m.View())
	}
}

func TestALeadershipKnownToHaveEndedIsNotTakenBack(t *testing.T) {
	m := follow(t, "2")
	ended := token(3, rank("5"))
	m.Step(start, from("5", Message{Kind: Resign, Token: ended, Eligibility: IneligibleResigned}))
	m.Step(start, from("5", Message{Kind: Coordinator, Token: ended, Eligibility: IneligibleResigned})) // it had come late
	m.Step(start, Event{Kind: Saved})
	if m.View() == ended {
		t.Error("it follows a leader that has resigned")
	}
}

func TestAStoppedFollowerVouchesForWhatItHasHeardAlone(t *testing.T) {
	m := follow(t, "4")
	heard, T := start, Timing{Heartbeat: DefaultHeartbeat, TMax: DefaultTMax, TProcess: DefaultTProcess}.T()
	woke := start.Add(5 * T)
	m.Step(woke, Event{Kind: Woke})
	m.Step(woke, Event{Kind: LinkUp, Rank: rank("2"), Incarnation: 1})
	for _, a := range m.Step(woke, from("2", Message{Kind: Probe})) {
		if a.Kind == Send && a.Message.Kind == ProbeReply && a.Message.Age >= 0 && a.Message.Age < woke.Sub(heard) {
			t.Errorf("it says that it heard the leader %v ago, and that was %v ago", a.Message.Age, woke.Sub(heard))
		}
	}
}

func TestASlowDiskDoesNotStopTheAcknowledgements(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, from("5", Message{Kind: Coordinator, Token: token(4, rank("5"))})) // the Save is outstanding
	now, T := start, Timing{Heartbeat: DefaultHeartbeat, TMax: DefaultTMax, TProcess: DefaultTProcess}.T()
	for range 50 {
		now = now.Add(DefaultHeartbeat)
		got := kinds(m.Step(now, from("5", Message{Kind: Beat, Token: token(4, rank("5")), Stamp: 1})))
		if !slices.Contains(got, "ack>5") {
			t.Fatalf("a beat while saving gives %q, want an acknowledgement", got)
		}
		if waited := now.Sub(start); m.View().Defined() != (waited >= T) {
			t.Fatalf("view %v when the disk has not answered for %v: it follows unsaved after T", m.View(), waited)
		}
	}
}

func TestAdmit(t *testing.T) {
	m := follow(t, "2")
	for _, c := range []struct {
		peer ID
		inc  uint64
		at   time.Duration
		want error
	}{
		{"5", 1, 0, nil},
		{"5", 2, 0, ErrSameID},
		{"5", 2, time.Hour, ErrSameID}, // this process was stopped: its link to the other is open
		{"5", 0, 0, ErrOldIncarnation},
		{"5", 0, time.Hour, ErrOldIncarnation},
		{"2", 9, 0, ErrSameID},
		{"8", 1, 0, ErrNotMember},
		{"4", 1, 0, nil},
	} {
		if got := m.Admit(start.Add(c.at), rank(c.peer), c.inc); got != c.want {
			t.Errorf("%s of incarnation %d after %v: %v, want %v", c.peer, c.inc, c.at, got, c.want)
		}
	}
	for inc, want := range []error{ErrOldIncarnation, nil, nil} {
		if got := m.AdmitAnswer(start, rank("5"), uint64(inc)); got != want {
			t.Errorf("5 of incarnation %d, where we dialed 5: %v, want %v", inc, got, want)
		}
	}
}

// Who has heard nothing for T, and was not stopped, takes another process for the member: the
// newer one is gone, the older one is there.
func TestAdmitWhenSilent(t *testing.T) {
	m, at := follow(t, "2"), start
	for ; at.Before(start.Add(time.Second)); at = at.Add(50 * time.Millisecond) {
		m.Step(at, Event{Kind: Woke})
	}
	for _, inc := range []uint64{0, 2} {
		if got := m.Admit(at, rank("5"), inc); got != nil {
			t.Errorf("incarnation %d: %v", inc, got)
		}
	}
}

func TestAbsurdMessagesMoveNothing(t *testing.T) {
	m := follow(t, "2")
	huge := token(1<<64-1, rank("5"))
	for name, msg := range map[string]Message{
		"epoch near 2^64":          {Kind: Coordinator, Token: huge},
		"highest near 2^64":        {Kind: Ack, Highest: 1<<64 - 2},
		"leap":                     {Kind: Coordinator, Token: token(1<<40, rank("5"))},
		"somebody else's token":    {Kind: Beat, Token: token(9, rank("1"))},
		"our own token, not ours":  {Kind: Coordinator, Token: token(9, rank("2"))},
		"no token":                 {Kind: Coordinator},
		"resignation of another":   {Kind: Resign, Token: token(3, rank("5")), Election: "x"},
		"unknown kind":             {Kind: "dance", Token: token(9, rank("5"))},
		"late coordinator":         {Kind: Coordinator, Token: token(2, rank("5"))},
		"answer nobody asked for":  {Kind: Answer, Round: Round{Number: 99, Initiator: "2"}},
		"report of the far future": {Kind: ProbeReply, Token: token(1<<50, rank("4"))},
	} {
		sender := ID("5")
		if strings.HasPrefix(name, "resignation") {
			sender = "4"
		}
		for _, a := range m.Step(start, from(sender, msg)) {
			if a.Kind == NotifyElected || a.Kind == NotifyLost || a.Kind == Save {
				t.Errorf("%s gives %q", name, kinds([]Action{a}))
			}
		}
	}
	if m.View() != (token(3, rank("5"))) || m.Highest() > 9 {
		t.Errorf("view %v, highest %d", m.View(), m.Highest())
	}
}

// What the driver reports late moves nothing: of a process that a newer one has replaced, or of a
// member that is off the list by now.
func TestALateReportOfTheDriverMovesNothing(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 9})
	for name, ev := range map[string]Event{
		"a link of an earlier process": {Kind: LinkUp, Peer: "4", Rank: rank("4"), Incarnation: 3},
		"a link of no member":          {Kind: LinkUp, Peer: "9", Rank: rank("9"), Incarnation: 3},
		"the end of such a link":       {Kind: LinkDown, Peer: "9"},
		"a dial of no member":          {Kind: DialFailed, Peer: "9", Refused: true},
		"a message of no member":       from("9", Message{Kind: Coordinator, Token: token(4, rank("9"))}),
	} {
		if got := m.Step(start, ev); len(got) != 0 {
			t.Errorf("%s gives %q, want nothing", name, kinds(got))
		}
	}
	for _, v := range m.Members() {
		if v.ID == "4" && v.Incarnation != 9 {
			t.Errorf("4 counts as process %d, want 9", v.Incarnation)
		}
	}
}

// A member that lies raises the epoch again and again, each time as far as one message
// may.
func TestALiarCannotUseUpTheEpochs(t *testing.T) {
	m := follow(t, "2")
	at, lie := start, uint64(3)
	for range 1000 {
		at = at.Add(time.Second)
		lie += 1<<32 - 1
		m.Step(at, from("5", Message{Kind: Ack, Highest: lie}))
		if m.Highest() < lie {
			lie = m.Highest()
		}
	}
	if got := m.Highest(); got > 1<<32+9 {
		t.Errorf("within an hour it believes epoch %d", got)
	}
	at = at.Add(time.Hour)
	if m.Step(at, from("5", Message{Kind: Ack, Highest: lie + 7})); m.Highest() != lie+7 {
		t.Errorf("an hour later it believes %d, want %d", m.Highest(), lie+7)
	}
}

func TestConfigTellsEveryFaultAtOnce(t *testing.T) {
	_, err := New(Config{Self: rank("1"), Members: members("2", "2", "x"), Timing: Timing{Heartbeat: time.Second}})
	for _, want := range []string{"no algorithm", "id 2 is given twice", "id x is a name", "heartbeat 1s is not below T"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// FuzzMachine feeds a Machine any sequence of events, in any order and from
// anyone, and holds it to what must never happen.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("0123456789"))
	f.Add([]byte{1, 4, 9, 3, 0, 1, 4, 2, 2, 8, 7, 7, 200, 1, 9, 13, 14, 90, 11, 3, 2, 1})
	f.Add(slices.Repeat([]byte{1, 4, 2, 9, 6, 3, 250, 0}, 30))
	f.Fuzz(func(t *testing.T, script []byte) {
		m := newMachine(t, "3", func(c *Config) { c.NoPreempt = len(script)%2 == 1 })
		now, held, saving := start, Token{}, false
		m.Step(now, Event{Kind: Started})
		for len(script) >= 4 {
			ev := event(script)
			now = now.Add(time.Duration(script[3]) * 5 * time.Millisecond)
			script = script[4:]
			if ev.Kind == Saved {
				saving = false
			}
			for _, a := range m.Step(now, ev) {
				switch a.Kind {
				case Send, Dial, Hangup:
					if a.To == "3" {
						t.Fatalf("it talks to itself: %q", kinds([]Action{a}))
					}
				case Save:
					if saving {
						t.Fatal("two Saves outstanding")
					}
					saving = true
				case NotifyElected, NotifyLost:
					if !a.Token.Defined() || held.Above(a.Token) {
						t.Fatalf("the token fell from %v to %v", held, a.Token)
					}
					held = a.Token
				}
			}
			if d, ok := m.Deadline(); ok && d.Sub(now) > time.Minute {
				t.Fatalf("nothing to do for %v", d.Sub(now))
			}
		}
	})
}

// event makes an event of four bytes: kind, peer, and two of detail.
func event(b []byte) Event {
	peer := ID(fmt.Sprint(b[1] % 7)) // 0 and 6 are strangers, 3 is the member itself
	token := token(uint64(b[2]%8), rank(ID(fmt.Sprint(b[2]/8%7))))
	ev := Event{Kind: EventKind(b[0]%uint8(Woke)) + 1, Peer: peer, Rank: rank(peer), Incarnation: uint64(b[2] % 4), Refused: b[2]%2 == 0, On: b[2]%3 == 0, Token: token}
	switch ev.Kind {
	case Started:
		ev.Kind = Woke
	case TimerFired:
		ev.Name = []string{"answer", "next", "coordinator", "machine:vouch", "machine:eligible", "none"}[b[2]%6]
	case Saved:
		if b[2]%5 == 0 {
			ev.Err = errors.New("no space")
		}
	case Received:
		all := []MessageKind{Beat, Ack, Probe, ProbeReply, Resign, Handover, Ping, Pong, Election, Answer, Coordinator, Elected, "?"}
		ev.Message = &Message{
			Kind: all[int(b[0]/uint8(Woke))%len(all)], Election: "default", From: peer, Token: token,
			Highest: uint64(b[3]), Age: time.Duration(int8(b[3])) * 10 * time.Millisecond, Ended: b[3]%2 == 0,
			Round: Round{Number: uint64(b[3] % 4), Initiator: peer}, Stamp: int64(b[3]) << 20, Version: uint64(b[3] % 3),
			States: []MemberReport{{ID: peer, State: StateDown}, {ID: "4", State: StateUp}},
		}
		if b[3] == 255 {
			ev.Message.Highest = binary.LittleEndian.Uint64([]byte{255, 255, 255, 255, 255, 255, 255, b[2]})
		}
	}
	return ev
}

// BenchmarkBeat is one beat of a leader and one acknowledgement of each member.
func BenchmarkBeat(b *testing.B) {
	for _, n := range []int{5, 100} {
		b.Run(fmt.Sprintf("leader/members=%d", n), func(b *testing.B) {
			var list []ID
			for i := range n {
				list = append(list, ID(fmt.Sprint(i)))
			}
			self := list[n-1]
			m := newMachine(b, self, func(c *Config) { c.Members, c.Following = members(list...), token(1, rank(self)) })
			m.Step(start, Event{Kind: Started})
			for _, id := range list[:n-1] {
				m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
			}
			now := start
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(DefaultHeartbeat)
				var version uint64
				for _, a := range m.Step(now, Event{Kind: Woke}) {
					if a.Kind == Send {
						version = a.Message.Version
					}
				}
				ack := from(list[0], Message{Kind: Ack, Token: token(1, rank(self)), Stamp: int64(now.Sub(start)), Version: version})
				for _, id := range list[:n-1] {
					ack.Message.From = id
					m.Step(now, ack)
				}
			}
		})
	}
	b.Run("follower", func(b *testing.B) {
		m := follow(b, "2")
		now := start
		beat := from("5", Message{Kind: Beat, Token: token(3, rank("5"))})
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(DefaultHeartbeat)
			m.Step(now, beat)
		}
	})
}

func TestWhatAFailedDialTookIsSaidOnceMore(t *testing.T) {
	m := follow(t, "3")
	got := kinds(crashed(m, start, "5"))
	if !slices.Contains(got, "election>4") {
		t.Fatalf("%q, want 4 asked to stand", got)
	}
	m.Step(start, Event{Kind: DialFailed, Peer: "4"})
	up := Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1}
	if got := kinds(m.Step(start.Add(100*time.Millisecond), up)); !slices.Contains(got, "election>4") {
		t.Errorf("4 is linked at last: %q, want it asked after all", got)
	}
	if got := kinds(m.Step(start.Add(101*time.Millisecond), up)); slices.Contains(got, "election>4") {
		t.Errorf("linked again: %q, want that said once", got)
	}
}

// The first link to a member's new process tells that the old one is gone. What the new
// one sends comes right behind on that link: no member claims in between.
func TestANewProcessIsHeardBeforeAnybodyClaims(t *testing.T) {
	m := newMachine(t, "4", func(c *Config) { c.Following = token(3, rank("3")); c.NoPreempt = true })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("3"), Incarnation: 1})
	m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
	m.Step(start, Event{Kind: LinkDown, Peer: "5"})
	m.Step(start, from("3", Message{Kind: Resign, Token: token(3, rank("3"))}))
	did := kinds(m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 2}))
	if slices.Contains(did, "save") {
		t.Fatal("it claims as the new process answers")
	}
	m.Step(start, from("5", Message{Kind: Coordinator, Token: token(4, rank("5"))}))
	m.Step(start, Event{Kind: Saved})
	if want := (token(4, rank("5"))); m.View() != want {
		t.Errorf("it follows %v, want %v", m.View(), want)
	}
}
