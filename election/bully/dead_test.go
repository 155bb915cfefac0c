package bully_test

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// asks steps a Machine and gives whom it sends ELECTION, and whether it leads.
func asks(m *machine.Machine, at time.Time, ev election.Event) (asked []election.ID, leads bool) {
	actions := slices.Clone(m.Step(at, ev))
	for i := 0; i < len(actions); i++ {
		switch a := actions[i]; {
		case a.Kind == election.Send && a.Message.Kind == election.Election:
			asked = append(asked, a.To)
		case a.Kind == election.Save:
			actions = append(actions, m.Step(at, election.Event{Kind: election.Saved})...)
		case a.Kind == election.NotifyElected:
			leads = true
		}
	}
	return asked, leads
}

// The example of docs/sources.md, "Scrapper": 3 asks the dead 5, then 4; 4 asks the dead 5 and leads.
func TestTheDeadAreAskedToo(t *testing.T) {
	for _, c := range []struct {
		self  election.ID
		asked []election.ID // one after the other, as each turns out to be dead
	}{
		{"3", []election.ID{"5", "4"}},
		{"4", []election.ID{"5"}},
	} {
		m, err := machine.New(machine.Config{
			Self: election.Rank{ID: c.self}, Algorithm: bully.New(bully.WithDead()), NoDetector: true,
			Members: []election.Member{{Rank: election.Rank{ID: "3"}}, {Rank: election.Rank{ID: "4"}}, {Rank: election.Rank{ID: "5"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		down := func(id election.ID) ([]election.ID, bool) {
			return asks(m, now, election.Event{Kind: election.PeerDown, Peer: id})
		}
		asks(m, now, election.Event{Kind: election.Started})
		asked, leads := []election.ID(nil), false
		for _, id := range []election.ID{"3", "4", "5"} { // the discovery ends: nobody is there
			if id != c.self {
				asked, leads = down(id)
			}
		}
		for i, want := range c.asked {
			if leads || !slices.Equal(asked, []election.ID{want}) {
				t.Fatalf("%s has asked %v where it should ask %s; leads: %v", c.self, asked, want, leads)
			}
			asks(m, now, election.Event{Kind: election.PeerUp, Peer: want})
			asked, leads = down(want)
			if last := i == len(c.asked)-1; last && (!leads || len(asked) > 0) {
				t.Errorf("%s asks %v and leads: %v, after the last was dead too", c.self, asked, leads)
			}
		}
	}
}
