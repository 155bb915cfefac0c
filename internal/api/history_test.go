package api

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
)

// Among leaderships alone a leader says of its own why it ended: on whose wish, if it
// resigned. Of another's it has not to say.
func TestALeaderSaysWhyItsOwnEnded(t *testing.T) {
	loses := Record{What: "loses", Why: "resigned: it hands over to 3"}
	of := func(leader string, records ...Record) Reason {
		return Reason{Line{Event: "lost", ID: "2", Leader: leader, Cause: "resigned"}, records}
	}
	asked := of("2", Record{What: "loses", Why: "resigned: it is no candidate: resigned"})
	standing := Reason{Line{Event: "standing", ID: "2"}, []Record{{What: "resigns", Why: "it was asked to"}}}
	strange := of("2", Record{What: "loses", Why: "resigned: \u202e"})
	got := History{Events: []Reason{of("2", loses), standing, asked, of("3", loses), strange}}.leaderships()
	for i, want := range []string{"it hands over to 3", "it was asked to", "", ""} {
		if e := got.Events[i]; e.Why != want || len(e.Records) != 0 {
			t.Errorf("of event %d it says %q, with %v; want %q", i, e.Why, e.Records, want)
		}
	}
}

// Each event has what the member did since the one before, once; the history is bounded.
func TestHistoryKeepsReasons(t *testing.T) {
	at := func(ms int) time.Time {
		return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	lost := batuta.Event{Time: at(3), Kind: batuta.EventLost, View: batuta.View{Lost: batuta.Token{Epoch: 1, Leader: batuta.Rank{ID: "5"}}, Cause: batuta.CauseCrashed}}
	trace := []batuta.Record{
		{At: at(2), Member: "3", What: "finds down", Peer: "5"},
		{At: at(3), Member: "3", What: "loses", Peer: "5", Why: "crashed: it refuses the connection"},
	}
	h := newHistory(at(0))
	h.add(EventLine("3", lost), trace)
	if e := h.events[0]; e.Event != "lost" || e.Cause != "crashed" || len(e.Records) != 2 || e.Records[1].What != "loses" {
		t.Errorf("the loss is kept as %+v", e)
	}
	if !h.seen.Equal(at(3)) {
		t.Errorf("it has seen what was until %v", h.seen)
	}
	trace = []batuta.Record{{At: at(4), Member: "3", What: "follows", Peer: "4"}}
	h.add(EventLine("3", batuta.Event{Time: at(4), Kind: batuta.EventLeader, View: batuta.View{Token: batuta.Token{Epoch: 2, Leader: batuta.Rank{ID: "4"}}}}), trace)
	if e := h.events[1]; e.Leader != "4" || len(e.Records) != 1 || e.Records[0].What != "follows" {
		t.Errorf("the next leader is kept as %+v", e)
	}
	for i := range 2 * maxHistory {
		h.add(Line{Event: "member", Member: string(rune('a' + i%20))}, nil)
	}
	if len(h.events) != maxHistory {
		t.Errorf("%d events are kept, %d are the bound", len(h.events), maxHistory)
	}
}

// An event that is recorded late leaves to the next ones what led to them.
func TestALateEventLeavesTheReasonsOfTheNext(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first, second := batuta.Token{Epoch: 1, Leader: batuta.Rank{ID: "5"}}, batuta.Token{Epoch: 2, Leader: batuta.Rank{ID: "3"}}
	var trace []batuta.Record
	for i, r := range []batuta.Record{
		{What: "adopts", Peer: "5", Token: first}, {What: "follows", Peer: "5", Token: first},
		{What: "finds down", Peer: "5"}, {What: "loses", Peer: "5", Token: first},
		{What: "claims", Peer: "3", Token: second}, {What: "leads", Peer: "3", Token: second},
	} {
		r.At = began.Add(time.Duration(i+1) * time.Microsecond)
		trace = append(trace, r)
	}
	h := newHistory(began)
	for _, ev := range []batuta.Event{
		{Kind: batuta.EventLeader, View: batuta.View{Token: first}},
		{Kind: batuta.EventMember, Member: "5"},
		{Kind: batuta.EventLost, View: batuta.View{Lost: first, Cause: batuta.CauseCrashed}},
		{Kind: batuta.EventLeader, View: batuta.View{Token: second}},
	} {
		var news []batuta.Record
		for _, r := range trace {
			if r.At.After(h.seen) {
				news = append(news, r)
			}
		}
		h.add(EventLine("3", ev), news)
	}
	for i, want := range []string{"follows", "finds down", "loses", "leads"} {
		if all := h.events[i].Records; len(all) == 0 || all[len(all)-1].What != want {
			t.Errorf("event %d has the records %v, want them to end with %q", i, all, want)
		}
	}
}
