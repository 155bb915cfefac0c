package newcomer_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/newcomer"
)

func members(id ID) []Member { return []Member{{Rank: Rank{ID: id}}} }

// What a round of asking brings: the lists of all members that admit, and the highest leadership of
// theirs. Only what a person can fix ends a member that no other has on its list.
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
		"no member answers":                {in: []*Admission{nil}, refusals: []error{nil}},
		"the higher leadership counts":     {in: []*Admission{low, high}, refusals: []error{nil, nil}, list: 2, token: high.Token},
		"whichever comes first":            {in: []*Admission{high, low}, refusals: []error{nil, nil}, list: 2, token: high.Token},
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
				done := n.Answered(in, c.refusals[i])
				if want := in != nil || c.refusals[i] == full; done != want {
					t.Errorf("answer %d need not be asked for again: %v, want %v", i, done, want)
				}
			}
			ev, step, fatal := n.RoundOver(c.met)
			if !errors.Is(fatal, c.fatal) {
				t.Fatalf("fatal: %v, want %v", fatal, c.fatal)
			}
			if step == (c.fatal != nil) || step && ev.Kind != Started || len(ev.List) != c.list || ev.Token != c.token {
				t.Errorf("the Machine is stepped %v: %+v, want %d members and %v", step, ev, c.list, c.token)
			}
			if c.fatal != nil {
				return
			}
			n.BeginRound()
			if ev, step, _ := n.RoundOver(c.met); step {
				t.Errorf("a second round that brings nothing is passed on: %+v", ev)
			}
			n.BeginRound()
			n.Answered(&Admission{List: members("1")}, nil)
			if ev, step, _ := n.RoundOver(c.met); !step || ev.Kind != JoinAccepted {
				t.Errorf("a later round that brings something is passed on %v: %+v, want an admission", step, ev)
			}
		})
	}
}

// The pauses between rounds double, and begin again when the Machine has to join again.
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
