package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/batuta-dev/batuta/election"
)

// savedState is the layout of a state, as a line of JSON.
type savedState struct {
	ID          election.ID `json:"id"`
	Incarnation uint64      `json:"incarnation"`
	Epoch       uint64      `json:"epoch"`
	Leader      election.ID `json:"leader,omitempty"`
	Priority    int         `json:"priority,omitempty"` // of the leader

	Members []savedMember `json:"members,omitempty"`
}

type savedMember struct {
	ID       election.ID        `json:"id"`
	Priority int                `json:"priority,omitempty"`
	Address  string             `json:"address,omitempty"`
	Observer bool               `json:"observer,omitempty"`
	Version  uint64             `json:"version,omitempty"`
	Gone     election.Departure `json:"gone,omitempty"`
	Fixed    bool               `json:"fixed,omitempty"`
	New      bool               `json:"new,omitempty"`
	Pinned   bool               `json:"pinned,omitempty"`
}

func encodeState(s election.State) ([]byte, error) {
	saved := savedState{ID: s.ID, Incarnation: s.Incarnation,
		Epoch: s.Token.Epoch, Leader: s.Token.Leader.ID, Priority: s.Token.Leader.Priority}
	for _, m := range s.Members {
		saved.Members = append(saved.Members, savedMember{m.ID, m.Priority, m.Address, m.Observer, m.Version, m.Departure, m.Fixed, m.New, m.Pinned})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // '<' is a single byte, and six as \u003c
	if err := encoder.Encode(saved); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func decodeState(body []byte) (election.State, error) {
	damaged := func(format string, args ...any) (election.State, error) {
		return election.State{}, fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
	}
	var s savedState
	if err := json.Unmarshal(body, &s); err != nil {
		return damaged("%v", err)
	}
	if err := election.CheckIDs(s.ID, s.Leader); err != nil {
		return damaged("%v", err)
	}
	if s.ID == election.None || s.Epoch > election.MaxEpoch {
		return damaged("member %q with epoch %d", s.ID, s.Epoch)
	}
	state := election.State{ID: s.ID, Incarnation: s.Incarnation,
		Token: election.Token{Epoch: s.Epoch, Leader: election.Rank{Priority: s.Priority, ID: s.Leader}}}
	for _, m := range s.Members {
		e := election.Member{Rank: election.Rank{Priority: m.Priority, ID: m.ID}, Address: m.Address, Observer: m.Observer, Version: m.Version, Departure: m.Gone, Fixed: m.Fixed, New: m.New, Pinned: m.Pinned}
		state.Members = append(state.Members, e)
	}
	var err error
	if state.Members, err = election.CheckList(state.Members); err != nil {
		return damaged("%v", err)
	}
	return state, nil
}
