package machine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// refused gives member 3, which has begun a round as its leader 5 has refused a connection.
func refused(t *testing.T) (m *Machine, now time.Time) {
	t.Helper()
	m = newMachine(t, "3", func(c *Config) { c.Algorithm, c.Following = ring.NewChangRoberts(), token(3, rank("5")) })
	m.Step(start, Event{Kind: Started})
	for _, id := range []ID{"5", "1"} {
		m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
	}
	m.Step(start, from("5", Message{Kind: Beat, Token: token(3, rank("5"))}))
	m.Step(start, Event{Kind: DialFailed, Peer: "4", Refused: true})
	if got := kinds(crashed(m, start, "5")); !slices.Contains(got, "lose:crashed") || !slices.Contains(got, "election>1") {
		t.Fatalf("its leader refuses it: %q, want its loss and a round", got)
	}
	return m, start.Add(time.Millisecond)
}

// follows is the report of a follower that has received 5 before it refused member 3.
var follows = Message{Kind: ProbeReply, Token: token(3, rank("5")), Follows: true, Age: 50 * time.Millisecond}

// home steps m as when its message has come home past members that follow 5.
func home(m *Machine, now time.Time) []string {
	return kinds(m.Step(now, from("1", Message{Kind: Election, Round: Round{Number: 1, Initiator: "3"}, Hops: MaxMembers - 3, Ring: []Rank{rank("3")}})))
}

// A member that its leader has refused dials that leader a second time when a follower of it reports. It
// claims nothing before the dial has ended.
func TestAClaimWaitsForADisputedRefusal(t *testing.T) {
	m, now := refused(t)
	did := kinds(m.Step(now, from("1", follows)))
	if !slices.Contains(did, "dial>5") {
		t.Fatalf("a follower of the refused leader reports: %q, want a dial", did)
	}
	if got := home(m, now); slices.Contains(got, "save") {
		t.Fatalf("it has won while it dials: %q, want no claim", got)
	}
	if got := kinds(m.Step(now, Event{Kind: DialFailed, Peer: "5", Refused: true})); !slices.Contains(got, "election>1") {
		t.Errorf("it is refused a second time: %q, want another round", got)
	}
}

// A member that receives a process which has refused it, and led, claims nothing before the first report
// of that process, whether another member disputed the refusal or not.
func TestAClaimWaitsForTheReportOfARefutedLeader(t *testing.T) {
	for _, disputed := range []bool{true, false} {
		m, now := refused(t)
		if disputed {
			m.Step(now, from("1", follows))
		}
		if got := kinds(m.Step(now, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})); !slices.Contains(got, "query>5") {
			t.Errorf("disputed %v: its leader lives: %q, want it asked", disputed, got)
		}
		if got := home(m, now); slices.Contains(got, "save") {
			t.Fatalf("disputed %v: it has won, and its leader lives: %q, want no claim", disputed, got)
		}
		got := kinds(m.Step(now, from("5", Message{Kind: ProbeReply, Token: token(3, rank("5")), Ended: true, Age: -1})))
		if !slices.Contains(got, "election>5") {
			t.Errorf("disputed %v: its former leader leads no more: %q, want a round past it", disputed, got)
		}
	}
}

// The reports of further followers cause no further dials: a firewall that refuses in the leader's name
// is not dialed for each of them.
func TestARefusalIsDisputedOnce(t *testing.T) {
	m, now := refused(t)
	m.Step(now, from("1", follows))
	m.Step(now, Event{Kind: DialFailed, Peer: "5", Refused: true})
	if got := kinds(m.Step(now, from("1", follows))); slices.Contains(got, "dial>5") {
		t.Errorf("a second report: %q, want no dial", got)
	}
	for ; now.Before(start.Add(time.Second)); now = now.Add(time.Millisecond) { // until it dials for another reason
		if slices.Contains(kinds(m.Step(now, Event{Kind: Woke})), "dial>5") {
			if got := home(m, now); !slices.Contains(got, "save") {
				t.Errorf("it has won while it dials a second time: %q, want a claim", got)
			}
			return
		}
	}
	t.Error("it dials its former leader no more")
}

// A claim waits for a process that is received and never reports until its link ends, not for each link
// to it.
func TestAClaimWaitsForOneLinkOfARefutedLeader(t *testing.T) {
	for _, end := range []string{"this member hangs up", "the link ends"} {
		m, now := refused(t)
		m.Step(now, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
		if end == "the link ends" {
			m.Step(now, Event{Kind: LinkDown, Peer: "5"})
		}
		for hungUp := end == "the link ends"; !hungUp; {
			if now = now.Add(DefaultHeartbeat); now.After(start.Add(10 * time.Second)) {
				t.Fatal("it does not hang up")
			}
			did := kinds(m.Step(now, from("1", Message{Kind: Pong})))
			did = append(did, kinds(m.Step(now, Event{Kind: Woke}))...)
			hungUp = slices.Contains(did, "hangup>5")
		}
		m.Step(now, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
		claims := false
		for number := range uint64(20) {
			won := Message{Kind: Election, Round: Round{Number: number, Initiator: "3"}, Hops: MaxMembers - 3, Ring: []Rank{rank("3")}}
			claims = claims || slices.Contains(kinds(m.Step(now, from("1", won))), "save")
		}
		if !claims {
			t.Errorf("%s, and another is made: it has won, want a claim", end)
		}
	}
}

// A member of a large ring that is connected to as many members as it may dial dials a disputed leader
// all the same.
func TestADisputedLeaderIsDialedBesideAWave(t *testing.T) {
	var ids []ID
	for i := range 40 {
		ids = append(ids, ID(fmt.Sprint(i+1)))
	}
	m := newMachine(t, "39", func(c *Config) {
		c.Members, c.Algorithm, c.Following = members(ids...), ring.NewChangRoberts(), token(3, rank("5"))
	})
	m.Step(start, Event{Kind: Started})
	for _, id := range ids[:38] {
		m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
	}
	m.Step(start, from("5", Message{Kind: Beat, Token: token(3, rank("5"))}))
	crashed(m, start, "5")
	if got := kinds(m.Step(start.Add(time.Millisecond), from("1", follows))); !slices.Contains(got, "dial>5") {
		t.Errorf("a follower of the refused leader reports: %q, want a dial", got)
	}
}

// A follower's report that is the last answer before a claim disputes the refusal first.
func TestTheLastAnswerDisputesARefusal(t *testing.T) {
	m := follow(t, "4")
	m.Step(start, Event{Kind: LinkUp, Rank: rank("1"), Incarnation: 1})
	m.Step(start, Event{Kind: Health, On: false})
	crashed(m, start, "5")
	now := start.Add(time.Millisecond)
	m.Step(now, Event{Kind: Health, On: true})
	for _, id := range []ID{"2", "3", "5"} {
		m.Step(now, Event{Kind: DialFailed, Peer: id, Refused: true})
	}
	if got := kinds(m.Step(now, from("1", follows))); slices.Contains(got, "save") || !slices.Contains(got, "dial>5") {
		t.Errorf("1 follows the refused leader: %q, want a dial and no claim", got)
	}
}
