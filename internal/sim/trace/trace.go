// Package trace records a run of the lab: an [Entry] for each thing that happened, a [Log]
// of entries as text, and a [Story], which draws them.
package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Entry is a line of a trace.
type Entry struct {
	At      time.Duration
	Member  election.ID
	Named   string // the named election that it is about; "": none
	What    string // an action of a Machine, see [election.Record], or a fault: "crashes", "freezes", …
	Peer    election.ID
	Token   election.Token
	Message *election.Message // of "sends", "receives" and "drops"
	Flight  uint64            // the same for a message's "sends" and its "receives"
	Why     string
	Fault   bool // done to the member, not by it
}

// String formats the entry as a line of a trace:
//
//	[1.402s] 1 suspects 3 epoch=1 (silent for 601ms)
//	[2.000s] * 3 crashes
//	[2.100s] 1 assigns 2 epoch=16777216 election=b (it is new)
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
	if e.Named != "" {
		b.WriteString(" election=" + e.Named)
	}
	if e.Why != "" {
		b.WriteString(" (" + e.Why + ")")
	}
	return b.String()
}

// Log collects the lines of a scenario's golden text: what was done and why and, if
// Messages is set, the messages of elections.
type Log struct {
	Messages bool
	Lines    []string
}

// Add appends an entry; pass it to sim.Play. It leaves out heartbeats and their acknowledgements.
func (t *Log) Add(e Entry) {
	if m := e.Message; m == nil || t.Messages && e.What != "receives" && m.Kind != election.Beat && m.Kind != election.Ack {
		t.Lines = append(t.Lines, e.String())
	}
}

// Text returns the whole trace, one entry per line.
func (t *Log) Text() string {
	if len(t.Lines) == 0 {
		return ""
	}
	return strings.Join(t.Lines, "\n") + "\n"
}

// Differs describes the first difference between got and want in a sentence, or returns "".
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
