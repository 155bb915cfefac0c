package ring_test

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// stepped is one member of 1…4, stepped by hand, which follows 4.
type stepped struct{ *machine.Machine }

func newStepped(t *testing.T, algorithm string, self election.ID) stepped {
	t.Helper()
	fresh, err := maker(algorithm, "")
	if err != nil {
		t.Fatal(err)
	}
	c := machine.Config{Self: election.Rank{ID: self}, Algorithm: fresh(), NoDetector: true,
		Following: election.Token{Epoch: 1, Leader: election.Rank{ID: "4"}}}
	for _, id := range ascending(4) {
		c.Members = append(c.Members, election.Member{Rank: election.Rank{ID: id}})
	}
	m, err := machine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := stepped{m}
	s.step(election.Event{Kind: election.Started})
	return s
}

// step gives what it sends, and whether it saves, which it does to claim.
func (s stepped) step(ev election.Event) (sent []*election.Message, saves bool) {
	for _, a := range s.Step(time.Unix(1, 0), ev) {
		switch a.Kind {
		case election.Send:
			sent = append(sent, a.Message)
		case election.Save:
			saves = true
		}
	}
	return sent, saves
}

func (s stepped) down(id election.ID) ([]*election.Message, bool) {
	return s.step(election.Event{Kind: election.PeerDown, Peer: id})
}

func (s stepped) hears(from election.ID, m election.Message) ([]*election.Message, bool) {
	m.From, m.Election = from, "default"
	return s.step(election.Event{Kind: election.Received, Message: &m})
}

func ranks(ids ...election.ID) (list []election.Rank) {
	for _, id := range ids {
		list = append(list, election.Rank{ID: id})
	}
	return list
}

// A member that died after the list had passed it is not named the winner.
func TestTheDeadDoNotWin(t *testing.T) {
	m := newStepped(t, "ring", "1")
	sent, _ := m.down("4")
	if len(sent) != 1 || sent[0].Kind != election.Election {
		t.Fatalf("the leader is gone, and it sends %v, want an ELECTION", sent)
	}
	m.down("3")
	sent, _ = m.hears("2", election.Message{Kind: election.Election, Round: sent[0].Round, Hops: election.MaxMembers - 1, Ring: ranks("1", "2", "3")})
	if len(sent) != 1 || sent[0].Kind != election.Coordinator || !slices.Equal(sent[0].Ring, ranks("1", "2")) {
		t.Errorf("the list comes home and 3 is dead: it sends %+v, want a COORDINATOR with the ring 1, 2", sent)
	}
}

// A member that counted as down before the round, and is on its list, has added itself since. It
// wins, though the link between it and the initiator is down.
func TestAMemberOnTheListIsNotDead(t *testing.T) {
	m := newStepped(t, "ring", "1")
	m.down("3")
	sent, _ := m.down("4")
	if len(sent) != 1 || sent[0].Kind != election.Election {
		t.Fatalf("its leader is down, and it sends %v, want an ELECTION", sent)
	}
	list := ranks("1", "2", "3")
	sent, _ = m.hears("2", election.Message{Kind: election.Election, Round: sent[0].Round, Hops: election.MaxMembers - 2, Ring: list})
	if len(sent) != 1 || sent[0].Kind != election.Coordinator || !slices.Equal(sent[0].Ring, list) {
		t.Errorf("3 counted as down before the round and is on the list: 1 sends %+v, want a COORDINATOR with the ring 1, 2, 3", sent)
	}
}

// No single message raises the rounds beyond all use.
func TestAbsurdRoundsAreNotBelieved(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, number := range []uint64{0, 1 << 33, 1<<64 - 1} {
			m := newStepped(t, algorithm, "1")
			for _, kind := range []election.MessageKind{election.Election, election.Coordinator, election.Elected} {
				m.hears("2", election.Message{Kind: kind, Round: election.Round{Number: number, Initiator: "2"}, Hops: election.MaxMembers - 1, Ring: ranks("2"),
					Token: election.Token{Epoch: 1, Leader: election.Rank{ID: "4"}}})
			}
			sent, _ := m.down("4")
			if len(sent) != 1 || sent[0].Round.Number != 1 {
				t.Errorf("%s: after a message of round %d it begins with %+v, want round 1", algorithm, number, sent)
			}
		}
	}
}

// A process that starts again may meet its own message from an earlier life: that is no
// proof that it has won.
func TestAMessageOfAnEarlierLifeDoesNotWin(t *testing.T) {
	m := newStepped(t, "chang-roberts", "3")
	own := election.Message{Kind: election.Election, Round: election.Round{Number: 5, Initiator: "3"}, Hops: election.MaxMembers - 1, Ring: ranks("3")}
	if sent, saves := m.hears("2", own); saves || len(sent) > 0 {
		t.Errorf("it takes no part and its own candidacy comes home: it saves %v and sends %+v, want neither", saves, sent)
	}
	sent, _ := m.down("4")
	own.Round = sent[0].Round
	if _, saves := m.hears("2", own); !saves {
		t.Error("its candidacy of this round comes home, and it does not claim")
	}
}

// A COORDINATOR whose winner has died is not passed on: a new round begins. One of an
// older round, or of none, is late.
func TestACoordinatorOfTheDeadOrOfAnOldRound(t *testing.T) {
	m := newStepped(t, "ring", "1")
	m.down("4")
	sent, _ := m.hears("3", election.Message{Kind: election.Election, Round: election.Round{Number: 7, Initiator: "2"}, Hops: election.MaxMembers - 1, Ring: ranks("2", "3")})
	if len(sent) != 1 || sent[0].Round.Number != 7 {
		t.Fatalf("an ELECTION of round 7 comes by, and it sends %+v, want that passed on", sent)
	}
	named := election.Message{Kind: election.Coordinator, Round: election.Round{Number: 6, Initiator: "2"}, Hops: election.MaxMembers - 1, Ring: ranks("2", "3")}
	if sent, _ := m.hears("3", named); len(sent) > 0 {
		t.Errorf("a COORDINATOR of round 6 is late, and it sends %+v", sent)
	}
	m.down("2")
	named.Round.Number, named.Ring = 8, ranks("2", "1")
	sent, _ = m.hears("3", named)
	if len(sent) != 1 || sent[0].Kind != election.Election || sent[0].Round.Number <= 7 {
		t.Errorf("the winner is dead and has no other home: it sends %+v, want an ELECTION of a new round", sent)
	}
}

// Whoever has sent a message still holds it: what travels on is a copy.
func TestAListThatWasSentDoesNotChange(t *testing.T) {
	m := newStepped(t, "ring", "1")
	m.down("4")
	list := append(make([]election.Rank, 0, 4), ranks("3")...)
	m.hears("3", election.Message{Kind: election.Election, Round: election.Round{Number: 7, Initiator: "3"}, Hops: election.MaxMembers - 1, Ring: list})
	if behind := list[:2][1]; behind != (election.Rank{}) {
		t.Errorf("behind the list that was sent stands %v now", behind)
	}
}

// A candidate that has died does not go round for ever: whoever would pass its home by
// begins anew.
func TestACandidateThatIsGone(t *testing.T) {
	m := newStepped(t, "chang-roberts", "2")
	m.down("4")
	m.down("3")
	sent, _ := m.hears("1", election.Message{Kind: election.Election, Round: election.Round{Number: 9, Initiator: "3"}, Hops: election.MaxMembers - 1, Ring: ranks("3")})
	if len(sent) != 1 || sent[0].Round.Number != 10 || !slices.Equal(sent[0].Ring, ranks("2")) {
		t.Errorf("the candidate 3 is dead and its home is passed: it sends %+v, want its own candidacy in round 10", sent)
	}
}

// A member that becomes a candidate after it began a round begins another when the first comes home without a candidate.
func TestARoundWithoutACandidateMeetsOneAtHome(t *testing.T) {
	for _, algorithm := range []string{"ring", "chang-roberts"} {
		m := newStepped(t, algorithm, "2")
		m.step(election.Event{Kind: election.Health})
		m.down("4")
		m.hears("1", election.Message{Kind: election.Election, Round: election.Round{Number: 5, Initiator: "1"}, Hops: election.MaxMembers - 1})
		sent, _ := m.down("3")
		if len(sent) == 0 || len(sent[len(sent)-1].Ring) > 0 || sent[len(sent)-1].Round.Initiator != "2" {
			t.Fatalf("%s: its successor is down, and it sends %+v, want a round of its own without a candidate", algorithm, sent)
		}
		home := *sent[len(sent)-1]
		m.step(election.Event{Kind: election.Health, On: true})
		sent, _ = m.hears("1", election.Message{Kind: election.Election, Round: home.Round, Stamp: home.Stamp, Hops: home.Hops - 2})
		if len(sent) != 1 || sent[0].Round.Number != home.Round.Number+1 || !slices.Equal(sent[0].Ring, ranks("2")) {
			t.Errorf("%s: its round comes home without a candidate, and it sends %+v, want a round with itself", algorithm, sent)
		}
	}
}

// On its way round the candidate is whoever ranks highest so far.
func TestTheHigherCandidateGoesOn(t *testing.T) {
	for candidate, want := range map[election.ID]election.ID{"1": "2", "3": "3"} {
		m := newStepped(t, "chang-roberts", "2")
		sent, _ := m.hears("1", election.Message{Kind: election.Election, Round: election.Round{Number: 3, Initiator: "1"}, Hops: election.MaxMembers - 1, Ring: ranks(candidate)})
		if len(sent) == 0 || !slices.Equal(sent[len(sent)-1].Ring, ranks(want)) {
			t.Errorf("2 is given the candidate %s and sends %+v, want the candidate %s", candidate, *sent[0], want)
		}
	}
}
