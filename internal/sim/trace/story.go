package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Story keeps the entries of a run, to draw them.
type Story struct{ Entries []Entry }

// Add appends an entry; pass it to sim.Play.
func (s *Story) Add(e Entry) { s.Entries = append(s.Entries, e) }

// bounds returns the time worth drawing, with a margin. It starts at the first fault or
// request after the start, if there is one, and ends at the last change.
func (s *Story) bounds() (from, to time.Duration) {
	first, last, strike := time.Duration(-1), time.Duration(0), time.Duration(-1)
	for _, e := range s.Entries {
		if first < 0 {
			first = e.At
		}
		if strike < 0 && e.At > 0 && (e.Fault || e.What == "resigns" || e.What == "campaigns") {
			strike = e.At
		}
		if e.Message == nil || ofElection(e.Message.Kind) {
			last = e.At
		}
	}
	first = max(first, strike)
	margin := max((last-first)/20, time.Millisecond)
	return max(first-margin, 0), last + margin
}

// drawn reports whether a picture shows the message. Heartbeats and pings would hide the
// rest.
func drawn(e *Entry) bool { return e.Message != nil && !ofDetector(e.Message.Kind) }

// ofDetector reports whether a message only shows that its sender is alive.
func ofDetector(k election.MessageKind) bool {
	return k == election.Beat || k == election.Ack || k == election.Ping || k == election.Pong
}

// ofElection reports whether a message belongs to an algorithm. An election goes on while
// such a message is on its way, even if it changes nothing at its receiver, as on a ring.
func ofElection(k election.MessageKind) bool {
	return k == election.Election || k == election.Answer || k == election.Coordinator || k == election.Elected
}

// Mermaid returns the elections as a Mermaid sequence diagram.
func (s *Story) Mermaid(of *scenario.Scenario) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, r := range of.Setup.Members {
		fmt.Fprintf(&b, "    participant %s\n", mermaidName(r.ID))
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		switch {
		case e.What == "receives" && drawn(e):
			fmt.Fprintf(&b, "    %s->>%s: %s\n", mermaidName(e.Peer), mermaidName(e.Member), label(e))
		case e.What == "drops" && drawn(e):
			fmt.Fprintf(&b, "    %s--x%s: %s\n", mermaidName(e.Peer), mermaidName(e.Member), label(e))
		case e.Message == nil && slices.ContainsFunc(of.Setup.Members, func(r election.Rank) bool { return r.ID == e.Member }):
			fmt.Fprintf(&b, "    Note over %s: %s\n", mermaidName(e.Member), noteText(e))
		}
	}
	return b.String()
}

func mermaidName(id election.ID) string {
	return "m" + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, string(id))
}

func label(e *Entry) string {
	text := strings.ToUpper(string(e.Message.Kind))
	if e.Message.Token.Defined() {
		text += " " + e.Message.Token.String()
	}
	return text
}

func noteText(e *Entry) string {
	text := scenario.Stamp(e.At) + " " + e.What
	if e.Peer != election.None && e.Peer != e.Member {
		text += " " + string(e.Peer)
	}
	if e.Token.Epoch > 0 {
		text += fmt.Sprintf(" (epoch %d)", e.Token.Epoch)
	}
	return strings.NewReplacer(":", " ", ";", ",", "#", "").Replace(text)
}

// ShiViz returns a log for the ShiViz visualizer, which parses it with
//
//	(?<host>\S*) (?<clock>{.*})\n(?<event>.*)
func (s *Story) ShiViz(of *scenario.Scenario) string {
	var b strings.Builder
	b.WriteString("(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n\n")
	clocks := map[election.ID]map[election.ID]int{}
	for _, r := range of.Setup.Members {
		clocks[r.ID] = map[election.ID]int{}
	}
	sent := map[uint64]map[election.ID]int{}
	for i := range s.Entries {
		e := &s.Entries[i]
		clock := clocks[e.Member]
		if clock == nil || e.Message != nil && (!drawn(e) || e.What == "drops") {
			continue
		}
		clock[e.Member]++
		text := noteText(e)
		if e.Message != nil {
			text = scenario.Stamp(e.At) + " " + e.What + " " + label(e)
			for id, n := range sent[e.Flight] {
				if e.What == "receives" {
					clock[id] = max(clock[id], n)
				}
			}
		}
		if e.What == "sends" {
			sent[e.Flight] = maps.Clone(clock)
		}
		now, _ := json.Marshal(clock) // its keys come out sorted
		fmt.Fprintf(&b, "%s %s\n%s\n", e.Member, now, text)
	}
	return b.String()
}
