package api

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
)

// told is a node of which only the events matter.
type told struct {
	Node
	events []batuta.Event
}

func (n told) Events(context.Context) iter.Seq2[batuta.Event, error] {
	return func(yield func(batuta.Event, error) bool) {
		for _, ev := range n.events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// The first wait for a leader is no failover; the later ones are, from the last sign of the
// leadership before.
func TestLeaderlessTime(t *testing.T) {
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	d := newLeaderlessTime(began)
	d.follow(t.Context(), told{events: []batuta.Event{
		{Kind: batuta.EventLeader, Time: at(3)},
		{Kind: batuta.EventMember, Time: at(4)},
		{Kind: batuta.EventLost, Time: at(10), View: batuta.View{LastSeen: at(9)}},
		{Kind: batuta.EventLeader, Time: at(12)},
		{Kind: batuta.EventLost, Time: at(20)},
	}})
	if got := d.total(at(25)); got != 10*time.Second {
		t.Errorf("%v without a leader, want 10s", got)
	}
	if h := d.families()[0].Samples[0]; h.Count != 1 || h.Value != 3 || h.UpTo[2] != 0 || h.UpTo[5] != 1 || h.UpTo[30] != 1 {
		t.Errorf("failovers: %v, want one of 3 s", h)
	}
}
