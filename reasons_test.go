package batuta

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Reasons are what the trace has beyond messages, from a moment on, in order, also once
// the oldest records have made room.
func TestReasonsAreWhatIsNewWithoutMessages(t *testing.T) {
	n := &Node{ground: ground{cfg: Config{Logger: slog.New(slog.DiscardHandler)}}}
	for i := range traceSize + traceSize/2 {
		r := Record{What: fmt.Sprint(i)}
		if i%2 == 0 {
			r.Message = &election.Message{}
		}
		n.record(r)
		trace := n.Trace()
		for _, back := range []int{0, 1, 5, len(trace) - 1} {
			var after time.Time
			var want []string
			if back < len(trace) {
				after = trace[len(trace)-1-back].At
			}
			for _, r := range trace {
				if r.Message == nil && r.At.After(after) {
					want = append(want, r.What)
				}
			}
			var got []string
			for _, r := range n.Reasons(after) {
				got = append(got, r.What)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after record %d, of what came after the last but %d: %v, want %v", i, back, got, want)
			}
		}
	}
	if got := len(n.Reasons(time.Time{})); got != traceSize/2 {
		t.Errorf("of all there are %d, want %d", got, traceSize/2)
	}
}
