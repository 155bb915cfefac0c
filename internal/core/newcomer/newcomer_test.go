package newcomer_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/newcomer"
)

func members(id ID) []Member { return []Member{{Rank: Rank{ID: id}}} }

// What a round of asking brings: the lists of all who admit, the highest leadership of
// theirs, and only what a person can mend ends a member that no other knows.
func TestWhatARoundOfAskingBrings(t *testing.T) {
	full := errors.New("the list is full")
	low := &Admission{List: members("1"), Token: Token{Epoch: 2, Leader: Rank{ID: "1"}}, Age: 2}
	high := &Admission{List: members("2"), Token: Token{Epoch: 3, Leader: Rank{ID: "2"}}, Age: 3}
	for name, c := range map[string]struct {
		in       []*Admission
		refusals []error
		met      bool
		list     int
		token    Token
		fatal    error
	}{
		"nobody answers":                   {in: []*Admission{nil}, refusals: []error{nil}},
		"the higher leadership counts":     {in: []*Admission{low, high}, refusals: []error{nil, nil}, list: 2, token: high.Token},
		"whoever tells it first":           {in: []*Admission{high, low}, refusals: []error{nil, nil}, list: 2, token: high.Token},
		"refused by one, admitted by one":  {in: []*Admission{nil, low}, refusals: []error{full, nil}, list: 1, token: low.Token},
		"refused":                          {in: []*Admission{nil}, refusals: []error{full}, fatal: full},
		"refused, and known without that":  {in: []*Admission{nil}, refusals: []error{full}, met: true},
		"an earlier process is remembered": {in: []*Admission{nil}, refusals: []error{ErrSameID}},
	} {
		t.Run(name, func(t *testing.T) {
			var n Newcomer
			n.BeginRound()
			for i, in := range c.in {
				if in != nil {
					again := *in
					in = &again
				}
				heard := n.Answered(in, c.refusals[i])
				if want := in != nil || c.refusals[i] == full; heard != want {
					t.Errorf("answer %d need not be asked for again: %v, want %v", i, heard, want)
				}
			}
			ev, tell, fatal := n.RoundOver(c.met)
			if !errors.Is(fatal, c.fatal) {
				t.Fatalf("fatal: %v, want %v", fatal, c.fatal)
			}
			if tell == (c.fatal != nil) || tell && ev.Kind != Started || len(ev.List) != c.list || ev.Token != c.token {
				t.Errorf("the Machine is told %v: %+v, want %d members and %v", tell, ev, c.list, c.token)
			}
			if c.fatal != nil {
				return
			}
			n.BeginRound()
			if ev, tell, _ := n.RoundOver(c.met); tell {
				t.Errorf("a second round that brings nothing is told: %+v", ev)
			}
			n.BeginRound()
			n.Answered(&Admission{List: members("1")}, nil)
			if ev, tell, _ := n.RoundOver(c.met); !tell || ev.Kind != JoinAccepted {
				t.Errorf("a later round that brings something is told %v: %+v, want a welcome", tell, ev)
			}
		})
	}
}

// The pauses between rounds double, and begin anew when the Machine has to join again.
func TestThePausesOfANewcomer(t *testing.T) {
	var n Newcomer
	ms := func(d int) time.Duration { return time.Duration(d) * time.Millisecond }
	for i, want := range []time.Duration{ms(300), ms(600), ms(1000), ms(1000)} {
		if got := n.Pause(Timing{Heartbeat: ms(300)}); got != want {
			t.Errorf("pause %d: %v, want %v", i, got, want)
		}
	}
	n.Again()
	if got := n.Pause(Timing{Heartbeat: ms(300)}); got != ms(300) {
		t.Errorf("asked to join again: %v, want %v", got, ms(300))
	}
}
