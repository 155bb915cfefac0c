package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
)

// Each cause has its words, and a loss that none has followed is one, too.
func TestEachCauseIsExplained(t *testing.T) {
	at := api.Stamp{Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}
	for _, tt := range []struct{ by, cause, what, why, want string }{
		{"1", "crashed", "loses", "crashed: its connection closed", "its process ended"},
		{"3", "silent", "loses", "silent: no majority", "too few members acknowledged its heartbeats"},
		{"1", "silent", "suspects", "silent for 600ms", "no heartbeat arrived for 600 ms"},
		{"1", "silent", "loses", "silent", "no heartbeat arrived in time"},
		{"1", "silent", "suspects", "", "no heartbeat arrived in time, or too few members acknowledged its heartbeats"},
		{"1", "silent", "loses", "silent: it announced its end", "it reported that too few members acknowledged its heartbeats"},
		{"3", "resigned", "loses", "resigned: it hands over to 2", "it handed over to 2"},
		{"1", "resigned", "loses", "resigned: it announced its end", "it resigned or handed over"},
		{"1", "resigned", "loses", "resigned: it hands over to 2", "it handed over to 2"},
		{"1", "resigned", "loses", "resigned: it is no candidate: closing", "its process was asked to end"},
		{"3", "resigned", "loses", "resigned: it is no candidate: resigned", "it resigned"},
		{"3", "resigned", "loses", "resigned: it is no candidate: unhealthy", "it is no candidate any more: unhealthy"},
		{"3", "resigned", "steps down", "its disk refuses the log", "its disk refuses the log"},
		{"3", "resigned", "steps down", "it hands over to 2", "it handed over to 2"},
		{"3", "resigned", "steps down", "its work has stopped", "it resigned or handed over"},
		{"1", "superseded", "loses", "superseded: a higher token 9:2", "2 leads under a higher epoch, 9"},
		{"1", "superseded", "loses", "superseded: a higher token 9:3", "a higher epoch began"},
		{"1", "resigned", "loses", "resigned: it asks for the leader", "it reported that its leadership ended"},
		{"3", "stalled", "stalled", "for 1.592s", "the process of 3 stalled for 1.6 s"},
		{"3", "stalled", "loses", "", "the process of 3 stalled for longer than T"},
		{"1", "stalled", "loses", "stalled: it announced its end", "it reported that its process stalled for longer than T"},
		{"1", "removed", "loses", "", "it was removed from the cluster"},
		{"1", "stopped", "loses", "", "the process of 1 was stopped"},
		{"1", "later", "loses", "later: of another version", "of another version"},
		{"1", "", "", "", "the agent reports no cause"},
	} {
		lost := api.Reason{Line: api.Line{Time: at, Event: "lost", ID: tt.by, Leader: "3", Epoch: 8, Cause: tt.cause}, Records: []api.Record{{What: tt.what, Peer: "3", Why: tt.why}}}
		want := "3 lost leadership at 2026-01-02T03:04:05.006Z: " + tt.want + "; no leader is known since"
		if got := Changes([]api.Reason{lost}); len(got) != 1 || got[0].Sentence != want {
			t.Errorf("%s: got %+v, want %q", tt.cause, got, want)
		}
	}
	again := []api.Reason{
		{Line: api.Line{Time: at, Event: "lost", ID: "3", Leader: "3", Epoch: 8, Cause: "stopped"}},
		{Line: api.Line{Time: api.Stamp{Time: at.Add(14 * time.Millisecond)}, Event: "leader", ID: "3", Leader: "3", Epoch: 9}},
	}
	if got := Changes(again); len(got) != 1 || !strings.HasSuffix(got[0].Sentence, "; it leads again 14 ms later, epoch 9") {
		t.Errorf("got %+v", got)
	}
}
