package boss

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// message is an [election.Message] between batuta members. Times are in nanoseconds. Its sender
// is in the frame, or that of the connection.
type message struct {
	Kind     election.MessageKind `json:"kind"`
	Election string               `json:"election,omitempty"`
	From     election.ID          `json:"from"`
	To       election.ID          `json:"to,omitempty"`
	Token    token                `json:"token,omitzero"`
	Highest  uint64               `json:"highest,omitempty"`
	Aside    election.Eligibility `json:"aside,omitempty"`
	Digest   uint32               `json:"digest,omitempty"`
	Round    round                `json:"round,omitzero"`
	Ended    bool                 `json:"ended,omitempty"`
	Age      time.Duration        `json:"age,omitempty"`
	Stamp    int64                `json:"stamp,omitempty"`
	Draining bool                 `json:"draining,omitempty"`
	Side     int                  `json:"side,omitempty"`
	Young    bool                 `json:"young,omitempty"`
	Renews   uint64               `json:"renews,omitempty"`
	Version  uint64               `json:"version,omitempty"`
	List     []entry              `json:"list,omitempty"`
	States   []state              `json:"states,omitempty"`
}

// token is a leadership. On this wire members rank only by address.
type token struct {
	Epoch  uint64      `json:"epoch"`
	Leader election.ID `json:"leader"`
}

type round struct {
	Number    uint64      `json:"number"`
	Initiator election.ID `json:"initiator"`
}

type entry struct {
	ID       election.ID        `json:"id"`
	Address  string             `json:"address,omitempty"`
	Observer bool               `json:"observer,omitempty"`
	Version  uint64             `json:"version,omitempty"`
	Gone     election.Departure `json:"gone,omitempty"`
}

type state struct {
	ID    election.ID          `json:"id"`
	State election.MemberState `json:"state,omitempty"`
	Epoch uint64               `json:"epoch,omitempty"`
	Aside election.Eligibility `json:"aside,omitempty"`
}

func outward(m *election.Message) *message {
	w := &message{
		Kind: m.Kind, Election: m.Election, From: m.From, To: m.To,
		Token: token{m.Token.Epoch, m.Token.Leader.ID}, Highest: m.Highest, Aside: m.Eligibility, Digest: m.Digest,
		Round: round{m.Round.Number, m.Round.Initiator},
		Ended: m.Ended, Age: m.Age, Stamp: m.Stamp, Draining: m.Draining, Version: m.Version,
		Side: m.Side, Young: m.Young, Renews: m.Renews,
	}
	for _, e := range m.List {
		w.List = append(w.List, entry{e.ID, e.Address, e.Observer, e.Version, e.Departure})
	}
	for _, s := range m.States {
		w.States = append(w.States, state{s.ID, s.State, s.Epoch, s.Eligibility})
	}
	return w
}

func (w *message) inward() *election.Message {
	m := &election.Message{
		Kind: w.Kind, Election: w.Election, From: w.From, To: w.To,
		Token: election.Token{Epoch: w.Token.Epoch, Leader: election.Rank{ID: w.Token.Leader}}, Highest: w.Highest, Eligibility: w.Aside, Digest: w.Digest,
		Round: election.Round{Number: w.Round.Number, Initiator: w.Round.Initiator},
		Ended: w.Ended, Age: w.Age, Stamp: w.Stamp, Draining: w.Draining, Version: w.Version,
		Side: w.Side, Young: w.Young, Renews: w.Renews,
	}
	for _, e := range w.List {
		m.List = append(m.List, election.Member{Rank: election.Rank{ID: e.ID}, Address: e.Address, Observer: e.Observer, Version: e.Version, Departure: e.Gone})
	}
	for _, s := range w.States {
		m.States = append(m.States, election.MemberReport{ID: s.ID, State: s.State, Epoch: s.Epoch, Eligibility: s.Aside})
	}
	return m
}
