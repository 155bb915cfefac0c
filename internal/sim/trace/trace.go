package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Entry is one line of a trace.
type Entry struct {
	At      time.Duration
	Member  election.ID
	What    string // what a Machine did, see [election.Record], or a fault: "crashes", "freezes", …
	Peer    election.ID
	Token   election.Token
	Message *election.Message // of "sends", "receives" and "drops"
	Flight  uint64            // the same for a message's "sends" and its "receives"
	Why     string
	Fault   bool // done to the member, not by it
}

// String is the entry's line in a trace:
//
//	[1.402s] 1 suspects 3 epoch=1 (silent for 601ms)
//	[2.000s] * 3 crashes
func (e Entry) String() string {
	var b strings.Builder
	b.WriteString("[" + scenario.Stamp(e.At) + "] ")
	if e.Fault {
		b.WriteString("* ")
	}
	b.WriteString(string(e.Member) + " " + e.What)
	if e.Message != nil {
		b.WriteString(" " + string(e.Message.Kind))
		b.WriteString(map[bool]string{true: " to ", false: " from "}[e.What == "sends"])
		b.WriteString(string(e.Peer))
	} else if e.Peer != election.None && e.Peer != e.Member {
		b.WriteString(" " + string(e.Peer))
	}
	if e.Token.Epoch > 0 {
		b.WriteString(" epoch=" + strconv.FormatUint(e.Token.Epoch, 10))
	}
	if e.Why != "" {
		b.WriteString(" (" + e.Why + ")")
	}
	return b.String()
}

// ofContest tells the messages that make up contests and hand-overs from beats.
func ofContest(k election.MessageKind) bool { return k != election.Beat && k != election.Ack }

// Log gathers the lines that the golden text of a scenario holds: what was
// done and why, and, when messages is set, the messages of contests.
type Log struct {
	Messages bool
	Lines    []string
}

// Add takes an entry in; give it to sim.Play.
func (t *Log) Add(e Entry) {
	if e.Message != nil && (!t.Messages || e.What == "receives" || !ofContest(e.Message.Kind)) {
		return
	}
	t.Lines = append(t.Lines, e.String())
}

// Text is the whole trace, a line each.
func (t *Log) Text() string {
	if len(t.Lines) == 0 {
		return ""
	}
	return strings.Join(t.Lines, "\n") + "\n"
}

// Differs tells in one sentence where got leaves want, or "".
func Differs(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; ; i++ {
		switch {
		case i >= len(w) || i >= len(g):
			return fmt.Sprintf("the trace has %d lines, the golden one %d", len(g)-1, len(w)-1)
		case w[i] != g[i]:
			return fmt.Sprintf("line %d of the trace is %q, the golden one is %q", i+1, g[i], w[i])
		}
	}
}
