package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Validate reports every fault of s at once, or nil. Algorithm and Probe are
// the [Maker]'s to judge.
func (s Setup) Validate() error {
	var faults []error
	if len(s.Members) == 0 || len(s.Members) > MaxMembers {
		faults = append(faults, fmt.Errorf("%d members: give 1 to %d", len(s.Members), MaxMembers))
	}
	s = s.Filled()
	spans := []Span{s.Latency, s.Fsync}
	for _, l := range s.Links {
		spans = append(spans, l.Span)
	}
	for _, span := range spans {
		if span.Min < 0 || span.Max < span.Min {
			faults = append(faults, fmt.Errorf("from %v to %v: give a range that starts at 0 or later and does not run backwards", span.Min, span.Max))
		}
	}
	if s.Settled && s.SettledLeader() == (election.Rank{}) {
		faults = append(faults, errors.New("settled, and every member is a newcomer or an observer: leave one that leads"))
	}
	for _, r := range s.Members {
		c := election.Config{Self: r, Algorithm: nobody{}, Timing: s.Timing}
		for _, m := range s.Members {
			if len(s.Members) <= eachKnowsAll || m == r {
				c.Members = append(c.Members, election.Member{Rank: m})
			}
		}
		if err := c.Validate(); err != nil {
			return errors.Join(append(faults, err)...)
		}
	}
	return errors.Join(faults...)
}

// eachKnowsAll bounds the clusters of which each member's whole Config is judged.
const eachKnowsAll = 64

// nobody is an algorithm that never runs: a Config needs one to be judged.
type nobody struct{}

func (nobody) Name() string                           { return "nobody" }
func (nobody) Step(election.Event, *election.Actions) {}

var setupWords = map[string]func(*parser){
	"members":   (*parser).setMembers,
	"priority":  (*parser).setPriority,
	"algorithm": func(p *parser) { w, _ := p.next("an algorithm's name"); p.s.Setup.Algorithm = w.text },
	"probe":     func(p *parser) { p.s.Setup.Probe = p.oneOf("descending", "all") },
	"preempt":   func(p *parser) { p.s.Setup.NoPreempt = p.oneOf("on", "off") == "off" },
	"detector":  func(p *parser) { p.s.Setup.NoDetector = p.oneOf("on", "off") == "off" },
	"seed":      (*parser).setSeed,
	"heartbeat": func(p *parser) { p.s.Setup.Timing.Heartbeat = p.duration("a time", 1) },
	"t_max":     func(p *parser) { p.s.Setup.Timing.TMax = p.duration("a time", 1) },
	"t_process": func(p *parser) { p.s.Setup.Timing.TProcess = p.duration("a time", 1) },
	"latency":   (*parser).setLatency,
	"fsync":     (*parser).setFsync,
	"work": func(p *parser) {
		p.s.Setup.Work, p.s.Setup.Drain = true, p.duration("the time that a leader's work takes to stop", 0)
	},
	"absent":         func(p *parser) { p.s.Setup.Absent = p.members() },
	"newcomers":      func(p *parser) { p.s.Setup.Newcomers = p.members() },
	"observers":      func(p *parser) { p.s.Setup.Observers = p.members() },
	"lead_unhealthy": func(p *parser) { p.s.Setup.LeadUnhealthy = p.oneOf("on", "off") == "on" },
	"manual":         func(p *parser) { p.s.Setup.Manual = true },
	"settled":        func(p *parser) { p.s.Setup.Settled = true },
	"trace":          func(p *parser) { p.s.Messages = p.oneOf("messages") == "messages" },
}

func (p *parser) setupLine(first word, read func(*parser)) {
	again := first.text == "priority" || p.ofLink(first.text)
	switch {
	case p.acting:
		p.fault(first.col, "expected a step: %q belongs before the first one", first.text)
	case p.seen[first.text] && !again:
		p.fault(first.col, "expected one line of %q, found a second", first.text)
	default:
		read(p)
	}
	p.seen[first.text] = p.seen[first.text] || !again
}

// ofLink says that a line sets the latency of one link.
func (p *parser) ofLink(setting string) bool {
	return setting == "latency" && len(p.words) > 1 && strings.ContainsAny(p.words[0].text, "->")
}

func (p *parser) setLatency() {
	if p.ofLink("latency") {
		w, _ := p.next("a link")
		p.s.Setup.Links = append(p.s.Setup.Links, LinkLatency{p.link(w), p.span()})
		return
	}
	p.s.Setup.Latency = p.span()
}

// setMembers reads ids, or a range "1..50" of integers.
func (p *parser) setMembers() {
	for first := true; first || len(p.words) > 0 && !p.stop; first = false {
		w, ok := p.next("a member's id")
		if !ok {
			return
		}
		if from, to, ok := strings.Cut(w.text, ".."); ok {
			p.addRange(w, from, to)
			continue
		}
		id, err := election.ParseID(w.text)
		if err != nil {
			p.fault(w.col, "expected a member's id: %v", err)
		}
		p.addMember(w, id)
	}
	slices.SortFunc(p.s.Setup.Members, election.Rank.Compare)
}

func (p *parser) addRange(w word, from, to string) {
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if errA != nil || errB != nil || a < 0 || b < a || b-a >= MaxMembers {
		p.fault(w.col, "expected a range of at most %d integers, such as 1..50, found %q", MaxMembers, w.text)
		return
	}
	for i := a; i <= b; i++ {
		p.addMember(w, election.ID(strconv.Itoa(i)))
	}
}

func (p *parser) addMember(w word, id election.ID) {
	members := p.s.Setup.Members
	switch {
	case len(members) > 0 && members[0].ID.Kind() != id.Kind():
		p.fault(w.col, "expected an id of the same kind as %s (%v), found %q (%v)", members[0].ID, members[0].ID.Kind(), id, id.Kind())
	case p.rank(id) >= 0:
		p.fault(w.col, "expected each member once, found %s again", id)
	}
	p.s.Setup.Members = append(members, election.Rank{ID: id})
}

func (p *parser) setPriority() {
	id := p.member()
	n := p.number("a priority", -1<<31, 1<<31)
	if i := p.rank(id); i >= 0 {
		p.s.Setup.Members[i].Priority = int(n)
		slices.SortFunc(p.s.Setup.Members, election.Rank.Compare)
	}
}

func (p *parser) setSeed() {
	w, ok := p.next("a seed")
	n, err := strconv.ParseUint(w.text, 10, 64)
	if ok && err != nil {
		p.fault(w.col, "expected a seed from 0 to 2^64-1, found %q", w.text)
	}
	p.s.Setup.Seed = n
}

func (p *parser) span() Span {
	lowest := p.duration("the shortest time", 0)
	if len(p.words) == 0 {
		return Span{lowest, lowest}
	}
	return Span{lowest, p.duration("the longest time", max(lowest, time.Nanosecond))}
}

func (p *parser) setFsync() {
	if len(p.words) > 0 && p.words[0].text == "none" {
		p.words = p.words[1:]
		p.s.Setup.NoDisk = true
		return
	}
	p.s.Setup.Fsync = p.span()
}
