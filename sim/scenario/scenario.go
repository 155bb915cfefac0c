package scenario

import (
	"fmt"
	"strconv"
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

// The verbs. Each names what follows it in a script.
const (
	Run       Verb = "run"       // D: let time pass
	At        Verb = "at"        // D: let time pass until D after the start
	Start     Verb = "start"     // an absent member's process starts for the first time
	Crash     Verb = "crash"     // its process dies; its kernel ends its connections. "torn": what it sent last is lost
	PowerOff  Verb = "poweroff"  // its host vanishes, nobody is told
	Restart   Verb = "restart"   // a dead process starts again. "rollback": its file has lost its last write
	Freeze    Verb = "freeze"    // as SIGSTOP
	Thaw      Verb = "thaw"      // as SIGCONT
	Cut       Verb = "cut"       // links: 1-3 both ways, 1>3 one way
	Heal      Verb = "heal"      // links, or all without any: ends cuts and delays
	Partition Verb = "partition" // 1,2 | 3,4,5: cuts every link between the sides
	Reset     Verb = "reset"     // links: ends their connections; what is on its way is lost
	Delay     Verb = "delay"     // links, D: what leaves from now on takes D longer
	Disk      Verb = "disk"      // member, then slow D, hang, fail or ok
	Clock     Verb = "clock"     // member, then drift PPM or jump D
	Campaign  Verb = "campaign"  // the user asks for a contest
	Resign    Verb = "resign"    // the user asks the leader to step down
	Health    Verb = "health"    // member, then healthy or unhealthy: what its own check finds
	Suspect   Verb = "suspect"   // A B: A's detector says that B is down ("detector off" alone)
	Trust     Verb = "trust"     // A B: and that it is up again
	Join      Verb = "join"      // member, "via", members: its process starts, knows its own file, and asks these to let it in
	Leave     Verb = "leave"     // its process gives up its membership and goes
	Add       Verb = "add"       // member, "at", member: the user puts it on the list there. "priority", number: with that
	Remove    Verb = "remove"    // member, "at", member: the user strikes it off there
	Duplicate Verb = "duplicate" // a second process claims this id
	Mark      Verb = "mark"      // count changes, losses and messages from here
	Agree     Verb = "agree"     // within D (default: the bound): every group agrees, for a while
	Settle    Verb = "settle"    // every fault but death ends ("but cuts", "but disks": and but those), then as agree
	Expect    Verb = "expect"    // see [Expectation]

	// Of manual scripts alone, in which nothing happens by itself.
	Deliver Verb = "deliver" // A>B: the oldest message on its way arrives
	Fire    Verb = "fire"    // member TIMER: it runs out
	Beat    Verb = "beat"    // A>B: A, who leads, beats
)

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
	Via     []election.ID   // Join: whom it asks; Add, Remove: at whom
	Word    string          // torn, rollback; slow, hang, fail, ok; drift, jump; but cuts, but disks
	For     time.Duration   // Run, At, Delay, Disk slow, Clock jump, Agree
	PPM     int64           // Clock drift

	Ranked   bool // Add: the user says the priority
	Priority int

	Expect Expectation

	Line, Col int // where in a script, from 1; 0: it was not read from one
}

// Expectation is what "expect" looks at, of all live members or those listed:
//
//	leader ID · undefined · epoch N · state ID STATE · refused ID
//	members LIST: that and no other is on the list · halted ID: it has ended by itself
//	changes, lost ID, messages KIND: = < <= > >= N, counted since mark
type Expectation struct {
	What  string
	Of    string // leader's id, state's member, lost's member, message kind, list
	State election.MemberState
	Op    string
	N     int64
	On    []election.ID // empty: all live members
}

// String is the line of a script that does it.
func (s Step) String() string {
	words := []string{string(s.Do)}
	for _, id := range s.Members {
		words = append(words, string(id))
	}
	for _, l := range s.Links {
		words = append(words, l.String())
	}
	switch s.Do {
	case Join:
		words = append(words, "via", JoinIDs(s.Via, " "))
	case Add, Remove:
		words = append(words, "at", JoinIDs(s.Via, " "))
		if s.Ranked {
			words = append(words, "priority", strconv.Itoa(s.Priority))
		}
	case Partition:
		var sides []string
		for _, side := range s.Sides {
			sides = append(sides, JoinIDs(side, ","))
		}
		words = append(words, strings.Join(sides, " | "))
	case Expect:
		words = append(words, s.Expect.String())
	}
	if s.Word != "" {
		words = append(words, s.Word)
	}
	if s.For != 0 {
		if s.Do == Agree {
			words = append(words, "within")
		}
		words = append(words, s.For.String())
	}
	if s.Do == Clock && s.Word == "drift" {
		words = append(words, strconv.FormatInt(s.PPM, 10))
	}
	return strings.Join(words, " ")
}

// String is what stands behind "expect" in a script.
func (e Expectation) String() string {
	words := []string{e.What}
	if e.Of != "" {
		words = append(words, e.Of)
	}
	switch {
	case e.State != "":
		words = append(words, string(e.State))
	case e.Op != "":
		words = append(words, e.Op, strconv.FormatInt(e.N, 10))
	case e.What == "epoch":
		words = append(words, strconv.FormatInt(e.N, 10))
	}
	if len(e.On) > 0 {
		words = append(words, "on", JoinIDs(e.On, ","))
	}
	return strings.Join(words, " ")
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
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	c, d := s.Setup, Setup{}.Filled()
	ids := make([]election.ID, len(c.Members))
	for i, r := range c.Members {
		ids[i] = r.ID
	}
	line("members %s", JoinIDs(ids, " "))
	for _, r := range c.Members {
		if r.Priority != 0 {
			line("priority %s %d", r.ID, r.Priority)
		}
	}
	line("algorithm %s", c.Algorithm)
	if c.Probe != "" {
		line("probe %s", c.Probe)
	}
	if c.NoPreempt {
		line("preempt off")
	}
	if c.NoDetector {
		line("detector off")
	}
	line("seed %d", c.Seed)
	f := c.Filled()
	if f.Timing != d.Timing {
		line("heartbeat %v\nt_max %v\nt_process %v", f.Timing.Heartbeat, f.Timing.TMax, f.Timing.TProcess)
	}
	if f.Latency != d.Latency {
		line("latency %v %v", f.Latency.Min, f.Latency.Max)
	}
	for _, l := range c.Links {
		line("latency %v %v %v", l.Link, l.Min, l.Max)
	}
	if c.NoDisk {
		line("fsync none")
	} else if f.Fsync != d.Fsync {
		line("fsync %v %v", f.Fsync.Min, f.Fsync.Max)
	}
	if c.Work {
		line("work %v", c.Drain)
	}
	if len(c.Absent) > 0 {
		line("absent %s", JoinIDs(c.Absent, " "))
	}
	if len(c.Newcomers) > 0 {
		line("newcomers %s", JoinIDs(c.Newcomers, " "))
	}
	if len(c.Observers) > 0 {
		line("observers %s", JoinIDs(c.Observers, " "))
	}
	if c.LeadUnhealthy {
		line("lead_unhealthy on")
	}
	if c.Settled {
		line("settled")
	}
	if c.Manual {
		line("manual")
	}
	if s.Messages {
		line("trace messages")
	}
	for _, step := range s.Steps {
		line("%s", step)
	}
	return b.String()
}
