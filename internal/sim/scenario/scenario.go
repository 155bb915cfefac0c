// Package scenario is the lab's language: a cluster, what happens to it, and what must come of
// it. [Parse] reads a script, [Scenario.String] prints it so that Parse reads back the same, and
// [Preconditions] checks which step may follow. Package sim plays scenarios. docs/scenarios.md
// describes the language to its users.
package scenario

import (
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Scenario is a cluster, what happens to it, and what must come of it.
type Scenario struct {
	Name     string // that of its file
	Setup    Setup
	Messages bool // the trace has the messages of elections too
	Steps    []Step
	Golden   string // the expected trace; "" when the file has none
}

// Verb is what a line of a scenario does.
type Verb string

// The verbs. [Help] describes each and its operands.
const (
	Run       Verb = "run"
	At        Verb = "at"
	Start     Verb = "start"
	Crash     Verb = "crash"
	PowerOff  Verb = "poweroff"
	Restart   Verb = "restart"
	Freeze    Verb = "freeze"
	Thaw      Verb = "thaw"
	Cut       Verb = "cut"
	Heal      Verb = "heal"
	Partition Verb = "partition"
	Reset     Verb = "reset"
	Reject    Verb = "reject"
	Delay     Verb = "delay"
	Disk      Verb = "disk"
	Clock     Verb = "clock"
	Times     Verb = "times"
	Campaign  Verb = "campaign"
	Resign    Verb = "resign"
	Pause     Verb = "pause"
	Candidacy Verb = "candidacy"
	Transfer  Verb = "transfer"
	Health    Verb = "health"
	Tell      Verb = "tell"
	Suspect   Verb = "suspect"
	Trust     Verb = "trust"
	Join      Verb = "join"
	Leave     Verb = "leave"
	Add       Verb = "add"
	Remove    Verb = "remove"
	Duplicate Verb = "duplicate"

	// Of named elections.
	Stand    Verb = "stand"
	Withdraw Verb = "withdraw"
	Yield    Verb = "yield"
	Give     Verb = "give"
	Drain    Verb = "drain"
	Undrain  Verb = "undrain"

	Mark   Verb = "mark"
	Agree  Verb = "agree"
	Settle Verb = "settle"
	Expect Verb = "expect"

	// Only of manual scripts, in which nothing happens by itself.
	Deliver Verb = "deliver"
	Fire    Verb = "fire"
	Beat    Verb = "beat"
	Pass    Verb = "pass"
)

// Nothing is the operand that clears a member's metadata.
const Nothing = "-"

// What "settle" leaves unchanged.
const (
	ButCuts  = "but cuts"
	ButDisks = "but disks" // disks that hang; with a quorum, full disks too
)

// Link is a pair of members, in the direction from A to B or in both.
type Link struct {
	A, B election.ID
	Both bool
}

func (l Link) String() string {
	if l.Both {
		return string(l.A + "-" + l.B)
	}
	return string(l.A + ">" + l.B)
}

// Step is a line of a scenario.
type Step struct {
	Do      Verb
	Members []election.ID
	Links   []Link
	Sides   [][]election.ID // of Partition
	Via     []election.ID   // Join, Duplicate: the members it asks; Add, Remove, Drain, Undrain: where; Transfer, Give: the targets
	Word    string          // the name of an election; torn, rollback, emptied, moved; slow, hang, fail, full, ok; drift, jump; but cuts, but disks; Tell: metadata, or "-" for none
	For     time.Duration   // Run, At, Delay, Disk slow, Clock jump, Agree; Times: t_max
	Process time.Duration   // Times: t_process
	PPM     int64           // Clock drift

	Ranked   bool // Add: Priority is set
	Priority int

	Weight, Seats int  // Stand: the weight of the election, and how many lead at once; 0: 1
	Prefer        bool // Stand: the member is preferred as leader

	Expect Expectation

	Line, Col int // position in a script, from 1; 0: not from a script
}

// Expectation is what "expect" checks, at all live members or at those listed:
//
//	leader ID · undefined · epoch N · state ID STATE · refused ID · told ID WORD
//	members LIST: exactly these are on the list · halted ID: it has ended by itself
//	changes, lost ID, messages KIND: = < <= > >= N, counted since mark
type Expectation struct {
	What  string
	Of    string // id of the leader, of a state or of a loss; message kind; list
	State election.MemberState
	Said  string // the expected metadata
	Op    string
	N     int64
	On    []election.ID // empty: all live members
}

// JoinIDs joins ids with by between them.
func JoinIDs(ids []election.ID, by string) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(id)
	}
	return strings.Join(words, by)
}

// String returns the whole script without its golden trace. [Parse] reads it back.
func (s *Scenario) String() string {
	var b strings.Builder
	for i := range settings {
		for _, line := range settings[i].write(s) {
			b.WriteString(strings.TrimSpace(settings[i].word+" "+line) + "\n")
		}
	}
	for _, step := range s.Steps {
		b.WriteString(step.String() + "\n")
	}
	return b.String()
}
