package scenario

import (
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Scenario is a cluster, what happens to it, and what must come of it.
type Scenario struct {
	Name     string // its file's
	Setup    Setup
	Messages bool // the trace shows the messages of contests too
	Steps    []Step
	Golden   string // the trace that it gave; "" when the file has none
}

// Verb is what one line of a scenario does.
type Verb string

// The verbs. [Help] tells of each what follows it and what it does.
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

	// Of manual scripts alone, in which nothing happens by itself.
	Deliver Verb = "deliver"
	Fire    Verb = "fire"
	Beat    Verb = "beat"
	Pass    Verb = "pass"
)

// Nothing is what a member tells of itself that tells nothing.
const Nothing = "-"

// What "settle" leaves as it is.
const (
	ButCuts  = "but cuts"
	ButDisks = "but disks" // those that take minutes for a write, or for ever
)

// Link is one direction of a pair, or both.
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

// Step is one line of a scenario.
type Step struct {
	Do      Verb
	Members []election.ID
	Links   []Link
	Sides   [][]election.ID // Partition
	Via     []election.ID   // Join, Duplicate: whom it asks; Add, Remove: at whom; Transfer, Give: to whom; Drain, Undrain: at whom
	Word    string          // the name of an election; torn, rollback; slow, hang, fail, ok; drift, jump; but cuts, but disks; Tell: a word, or "-" for nothing
	For     time.Duration   // Run, At, Delay, Disk slow, Clock jump, Agree; Times: t_max
	Process time.Duration   // Times: t_process
	PPM     int64           // Clock drift

	Ranked   bool // Add: the user says the priority
	Priority int

	Weight, Seats int  // Stand: what the election costs its leader, how many lead at once; 0: 1
	Prefer        bool // Stand: this member is to lead if it may

	Expect Expectation

	Line, Col int // where in a script, from 1; 0: it was not read from one
}

// Expectation is what "expect" looks at, of all live members or those listed:
//
//	leader ID · undefined · epoch N · state ID STATE · refused ID · told ID WORD
//	members LIST: that and no other is on the list · halted ID: it has ended by itself
//	changes, lost ID, messages KIND: = < <= > >= N, counted since mark
type Expectation struct {
	What  string
	Of    string // leader's id, state's member, lost's member, message kind, list
	State election.MemberState
	Said  string // told: the word
	Op    string
	N     int64
	On    []election.ID // empty: all live members
}

// JoinIDs writes ids with by between them.
func JoinIDs(ids []election.ID, by string) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(id)
	}
	return strings.Join(words, by)
}

// String is the whole script, without its golden trace. [Parse] reads it back.
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
