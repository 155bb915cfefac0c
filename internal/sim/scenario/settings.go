package scenario

import (
	"fmt"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// setting is a line before the steps: its name, its operands, its meaning and its default.
// Reading, printing, shrinking, the help and the page of the documentation use this table.
type setting struct {
	word   string
	form   string // the operands
	does   string
	normal string // the default, for people

	again  bool // it may occur more than once
	ofLink bool // it is this setting if a link follows

	read    func(*parser)
	write   func(*Scenario) []string // the operands of each such line
	simpler []func(*Setup)           // simplifications that shrinking may try
}

// settings are all lines before the steps, in the order in which they are printed.
var settings = []setting{
	{word: "members", form: "ID…", does: "the ids; `1..50` for a range of integers",
		read: (*parser).setMembers, write: writeMembers},
	{word: "priority", form: "ID N", does: "ranks before the id; may occur again for another member", normal: "0", again: true,
		read: (*parser).setPriority, write: writePriorities},
	{word: "algorithm", form: "NAME", does: "`bully`, `ring`, `chang-roberts`, `quorum`", normal: "`bully`",
		read:  func(p *parser) { w, _ := p.next("an algorithm's name"); p.s.Setup.Algorithm = w.text },
		write: func(s *Scenario) []string { return []string{s.Setup.Algorithm} }},
	{word: "option", form: "WORD", does: "the algorithm's own: how Bully asks, `descending` or `all`; what a quorum waits for before it takes over, `attested`, `lease` or `refused`; in earlier files `probe`", normal: "the algorithm's own",
		read:    func(p *parser) { w, _ := p.next("an option of the algorithm"); p.s.Setup.Option = w.text },
		write:   func(s *Scenario) []string { return lineIf(s.Setup.Option != "", s.Setup.Option) },
		simpler: edits(func(s *Setup) { s.Option = "" })},
	{word: "preempt", form: "on|off", does: "whether a higher rank that returns takes over", normal: "`on`",
		read:    func(p *parser) { p.s.Setup.NoPreempt = p.oneOf("on", "off") == "off" },
		write:   func(s *Scenario) []string { return lineIf(s.Setup.NoPreempt, "off") },
		simpler: edits(func(s *Setup) { s.NoPreempt = false })},
	{word: "detector", form: "on|off", does: "`off`: suspicion comes only from the file (`suspect`, `trust`)", normal: "`on`",
		read:  func(p *parser) { p.s.Setup.NoDetector = p.oneOf("on", "off") == "off" },
		write: func(s *Scenario) []string { return lineIf(s.Setup.NoDetector, "off") }},
	{word: "seed", form: "N", does: "of every random draw", normal: "0",
		read:  (*parser).setSeed,
		write: func(s *Scenario) []string { return []string{strconv.FormatUint(s.Setup.Seed, 10)} }},
	timing("heartbeat", "time between two heartbeats of a leader", election.DefaultHeartbeat, func(t *election.Timing) *time.Duration { return &t.Heartbeat }),
	timing("t_max", "the longest that a message is thought to take", election.DefaultTMax, func(t *election.Timing) *time.Duration { return &t.TMax }),
	timing("t_process", "the longest that handling one is thought to take", election.DefaultTProcess, func(t *election.Timing) *time.Duration { return &t.TProcess }),
	{word: "silence", form: "D", does: "how long a member may be silent before it is suspected", normal: "`T`",
		read: func(p *parser) { p.s.Setup.Timing.Silence = p.duration("a time", 1) },
		write: func(s *Scenario) []string {
			return lineIf(s.Setup.Timing.Silence != 0, s.Setup.Timing.Silence.String())
		},
		simpler: edits(func(s *Setup) { s.Timing.Silence = 0 })},
	{word: "tls", form: "on|off", does: "whether a connection begins with TLS, which takes two messages more", normal: "`off`",
		read:    func(p *parser) { p.s.Setup.Timing.Secured = p.oneOf("on", "off") == "on" },
		write:   func(s *Scenario) []string { return lineIf(s.Setup.Timing.Secured, "on") },
		simpler: edits(func(s *Setup) { s.Timing.Secured = false })},
	{word: "latency", form: "D [D]", does: "of a message, one way: from, to", normal: "1 ms to 5 ms",
		read: func(p *parser) { p.s.Setup.Latency = p.span() },
		write: func(s *Scenario) []string {
			l := s.Setup.Filled().Latency
			return lineIf(l != defaultLatency, l.String())
		},
		simpler: edits(func(s *Setup) { s.Latency = Span{} })},
	{word: "latency", form: "LINK D [D]", does: "of a message on that link only; may occur again for another", normal: "as of all", again: true, ofLink: true,
		read: (*parser).setLinkLatency, write: writeLinkLatencies,
		simpler: edits(func(s *Setup) { s.Links = nil })},
	{word: "fsync", form: "D [D]|none", does: "of a disk; `none`: a process that ends forgets all", normal: "1 ms to 4 ms",
		read: (*parser).setFsync, write: writeFsync,
		simpler: edits(func(s *Setup) { s.Fsync = Span{} }, func(s *Setup) { s.NoDisk = false })},
	{word: "compact", form: "N", does: "with a quorum: a member compacts its log after so many records", normal: "256",
		read: func(p *parser) { p.s.Setup.CompactAfter = int(p.number("how many records", 1, 1<<16)) },
		write: func(s *Scenario) []string {
			return lineIf(s.Setup.CompactAfter > 0, strconv.Itoa(s.Setup.CompactAfter))
		},
		simpler: edits(func(s *Setup) { s.CompactAfter = 0 })},
	{word: "late_writes", form: "on|off", does: "whether a write that a disk refused may be there after a crash", normal: "`off`",
		read:    func(p *parser) { p.s.Setup.LateWrites = p.oneOf("on", "off") == "on" },
		write:   func(s *Scenario) []string { return lineIf(s.Setup.LateWrites, "on") },
		simpler: edits(func(s *Setup) { s.LateWrites = false })},
	{word: "work", form: "D", does: "leaders work, and their work takes this long to stop", normal: "no work",
		read: func(p *parser) {
			p.s.Setup.Work, p.s.Setup.Drain = true, p.duration("the time that a leader's work takes to stop", 0)
		},
		write:   func(s *Scenario) []string { return lineIf(s.Setup.Work, s.Setup.Drain.String()) },
		simpler: edits(func(s *Setup) { s.Work, s.Drain = false, 0 }, func(s *Setup) { s.Drain = 0 })},
	list("absent", "on the list, not started at first", func(s *Setup) *[]election.ID { return &s.Absent }),
	list("newcomers", "on no list, not started at first: they `join`", func(s *Setup) *[]election.ID { return &s.Newcomers }),
	list("observers", "they follow and never lead", func(s *Setup) *[]election.ID { return &s.Observers },
		func(s *Setup) { s.Observers = nil }),
	{word: "lists", form: "ID ID…", does: "the configuration of the first has these members only, and itself; may occur again for another", normal: "every member", again: true,
		read: (*parser).setLists, write: writeLists,
		simpler: edits(func(s *Setup) { s.Lists = nil })},
	{word: "founding", form: "N|told", does: "which member leads first: one of `N` that have reached each other; `told`: no member that joins, before it has learned of a leader", normal: "any member",
		read: (*parser).setFounding, write: writeFounding,
		simpler: edits(func(s *Setup) { s.Newcomer, s.Expect = false, 0 })},
	{word: "min_members", form: "N", does: "a member leads only while it receives `N` members, itself included", normal: "no such rule",
		read: func(p *parser) {
			p.s.Setup.MinMembers = int(p.number("how many members a leader needs", 1, election.MaxMembers))
		},
		write:   func(s *Scenario) []string { return lineIf(s.Setup.MinMembers > 0, strconv.Itoa(s.Setup.MinMembers)) },
		simpler: edits(func(s *Setup) { s.MinMembers = 0 })},
	{word: "reap_after", form: "D", does: "a leader removes a member that has been away for so long", normal: "no member",
		read:    func(p *parser) { p.s.Setup.ReapAfter = p.duration("a time", 1) },
		write:   func(s *Scenario) []string { return lineIf(s.Setup.ReapAfter != 0, s.Setup.ReapAfter.String()) },
		simpler: edits(func(s *Setup) { s.ReapAfter = 0 })},
	{word: "lead_unhealthy", form: "on|off", does: "whether an unhealthy member leads when no other member does", normal: "`off`",
		read:    func(p *parser) { p.s.Setup.LeadUnhealthy = p.oneOf("on", "off") == "on" },
		write:   func(s *Scenario) []string { return lineIf(s.Setup.LeadUnhealthy, "on") },
		simpler: edits(func(s *Setup) { s.LeadUnhealthy = false })},
	{word: "settled", does: "all begin as followers of the highest, as if elected before", normal: "all start without a leader",
		read:  func(p *parser) { p.s.Setup.Settled = true },
		write: func(s *Scenario) []string { return lineIf(s.Setup.Settled, "") }},
	{word: "manual", does: "nothing happens by itself: each delivery and each timer is a step",
		read:  func(p *parser) { p.s.Setup.Manual = true },
		write: func(s *Scenario) []string { return lineIf(s.Setup.Manual, "") }},
	{word: "trace", form: "messages", does: "the trace shows the messages of elections, too",
		read:  func(p *parser) { p.s.Messages = p.oneOf("messages") == "messages" },
		write: func(s *Scenario) []string { return lineIf(s.Messages, "messages") }},
}

func edits(list ...func(*Setup)) []func(*Setup) { return list }

// lineIf returns line if stands is true, else nothing.
func lineIf(stands bool, line string) []string {
	if !stands {
		return nil
	}
	return []string{line}
}

// timing is a setting of the three times. If any differs from its default, all are printed.
func timing(word, does string, normal time.Duration, of func(*election.Timing) *time.Duration) setting {
	return setting{word: word, form: "D", does: does, normal: normal.String(),
		read: func(p *parser) { *of(&p.s.Setup.Timing) = p.duration("a time", 1) },
		write: func(s *Scenario) []string {
			t := s.Setup.Filled().Timing
			t.Secured = false // it has its own line
			return lineIf(t != Setup{}.Filled().Timing, of(&t).String())
		},
		simpler: edits(func(s *Setup) { s.Timing = election.Timing{} })}
}

func list(word, does string, of func(*Setup) *[]election.ID, simpler ...func(*Setup)) setting {
	return setting{word: word, form: "ID…", does: does, normal: "none", simpler: simpler,
		read: func(p *parser) { *of(&p.s.Setup) = p.members() },
		write: func(s *Scenario) []string {
			ids := *of(&s.Setup)
			return lineIf(len(ids) > 0, JoinIDs(ids, " "))
		}}
}

func writeMembers(s *Scenario) []string {
	ids := make([]election.ID, len(s.Setup.Members))
	for i, r := range s.Setup.Members {
		ids[i] = r.ID
	}
	return []string{JoinIDs(ids, " ")}
}

func writePriorities(s *Scenario) (lines []string) {
	for _, r := range s.Setup.Members {
		if r.Priority != 0 {
			lines = append(lines, fmt.Sprintf("%s %d", r.ID, r.Priority))
		}
	}
	return lines
}

func writeLinkLatencies(s *Scenario) (lines []string) {
	for _, l := range s.Setup.Links {
		lines = append(lines, l.Link.String()+" "+l.Span.String())
	}
	return lines
}

func writeFsync(s *Scenario) []string {
	f := s.Setup.Filled().Fsync
	if s.Setup.NoDisk {
		return []string{"none"}
	}
	return lineIf(f != defaultFsync, f.String())
}

// String returns both ends.
func (s Span) String() string { return s.Min.String() + " " + s.Max.String() }
