package scenario

import (
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
)

// stepWords reads what follows each verb.
var stepWords = map[Verb]func(*parser, *Step){
	Run:       func(p *parser, s *Step) { s.For = p.duration("a time", 0) },
	Start:     func(p *parser, s *Step) { s.Members = p.members() },
	Crash:     func(p *parser, s *Step) { s.Members = p.members("torn"); s.Word = p.maybe("torn") },
	PowerOff:  func(p *parser, s *Step) { s.Members = p.members() },
	Restart:   func(p *parser, s *Step) { s.Members = p.members("rollback"); s.Word = p.maybe("rollback") },
	Freeze:    func(p *parser, s *Step) { s.Members = p.members() },
	Thaw:      func(p *parser, s *Step) { s.Members = p.members() },
	Cut:       func(p *parser, s *Step) { s.Links = p.someLinks(false) },
	Heal:      func(p *parser, s *Step) { s.Links = p.links(false) },
	Partition: (*parser).sides,
	Reset:     func(p *parser, s *Step) { s.Links = p.someLinks(false) },
	Delay:     func(p *parser, s *Step) { s.Links = p.someLinks(true); s.For = p.duration("a delay", 1) },
	Disk:      (*parser).disk,
	Clock:     (*parser).clock,
	Campaign:  func(p *parser, s *Step) { s.Members = p.members() },
	Resign:    func(p *parser, s *Step) { s.Members = p.members() },
	Health: func(p *parser, s *Step) {
		s.Members, s.Word = []election.ID{p.member()}, p.oneOf("healthy", "unhealthy")
	},
	Suspect:   func(p *parser, s *Step) { s.Members = []election.ID{p.member(), p.member()} },
	Trust:     func(p *parser, s *Step) { s.Members = []election.ID{p.member(), p.member()} },
	Join:      (*parser).join,
	Leave:     func(p *parser, s *Step) { s.Members = p.members() },
	Add:       (*parser).listChange,
	Remove:    (*parser).listChange,
	Duplicate: func(p *parser, s *Step) { s.Members = []election.ID{p.member()} },
	Mark:      func(p *parser, s *Step) {},
	Agree:     (*parser).agree,
	Settle:    (*parser).settle,
	Expect:    (*parser).expect,
	Deliver:   func(p *parser, s *Step) { s.Links = p.oneLink() },
	Beat:      func(p *parser, s *Step) { s.Links = p.oneLink() },
	Fire:      (*parser).fire,
}

func (p *parser) stepLine(first word) {
	p.acting = true
	if first.text == string(At) {
		p.add(Step{Do: At, For: p.duration("a time since the start", 0), Line: p.line, Col: first.col})
		if len(p.words) == 0 || p.stop {
			return
		}
		first, _ = p.next("a step")
	}
	switch first.text {
	case "repeat":
		p.loops = append(p.loops, loop{len(p.s.Steps), int(p.number("how often", 1, 10_000)), p.line})
		return
	case "end":
		p.unroll(first)
		return
	}
	read, ok := stepWords[Verb(first.text)]
	if !ok {
		p.fault(first.col, "expected a step (%s) or a setting (%s), found %q", verbList(), settingList(), first.text)
		return
	}
	s := Step{Do: Verb(first.text), Line: p.line, Col: first.col}
	read(p, &s)
	p.add(s)
}

func (p *parser) add(s Step) {
	if len(p.s.Steps) >= maxSteps {
		p.fault(1, "expected at most %d steps", maxSteps)
		return
	}
	p.s.Steps = append(p.s.Steps, s)
}

// unroll ends a loop.
func (p *parser) unroll(w word) {
	if len(p.loops) == 0 {
		p.fault(w.col, "expected a \"repeat\" before this \"end\", found none")
		return
	}
	l := p.loops[len(p.loops)-1]
	p.loops = p.loops[:len(p.loops)-1]
	body := slices.Clone(p.s.Steps[l.from:])
	for range l.times - 1 {
		for _, s := range body {
			p.add(s)
		}
	}
}

func verbList() string {
	words := []string{"at", "repeat"}
	for v := range stepWords {
		words = append(words, string(v))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func settingList() string {
	var words []string
	for v := range setupWords {
		words = append(words, v)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (p *parser) maybe(text string) string {
	if len(p.words) > 0 && p.words[0].text == text {
		p.words = p.words[1:]
		return text
	}
	return ""
}

func (p *parser) someLinks(last bool) []Link {
	links := p.links(last)
	if len(links) == 0 {
		p.fault(p.end, "expected a link, such as 1-3 for both ways or 1>3 for one")
	}
	return links
}

func (p *parser) oneLink() []Link {
	w, ok := p.next("a link, such as 1>3")
	if !ok {
		return nil
	}
	l := p.link(w)
	if l.Both {
		p.fault(w.col, "expected one direction, such as 1>3, found %q", w.text)
	}
	return []Link{l}
}

func (p *parser) fire(s *Step) {
	s.Members = []election.ID{p.member()}
	w, _ := p.next("a timer's name, such as answer")
	s.Word = w.text
}

func (p *parser) sides(s *Step) {
	for {
		w, ok := p.next("the members of a side, such as 1,2")
		if !ok {
			return
		}
		s.Sides = append(s.Sides, p.list(w))
		if len(p.words) == 0 {
			break
		}
		p.oneOf("|")
	}
	if len(s.Sides) < 2 {
		p.fault(p.end, "expected \"|\" and another side, as in 1,2 | 3,4,5")
	}
	seen := map[election.ID]bool{}
	for _, side := range s.Sides {
		for _, id := range side {
			if seen[id] {
				p.fault(s.Col, "expected each member on one side, found %s on two", id)
			}
			seen[id] = true
		}
	}
}

func (p *parser) join(s *Step) {
	s.Members = []election.ID{p.member()}
	p.oneOf("via")
	s.Via = p.members()
}

func (p *parser) listChange(s *Step) {
	s.Members = []election.ID{p.member()}
	p.oneOf("at")
	s.Via = []election.ID{p.member()}
	if s.Do == Add && p.maybe("priority") != "" {
		s.Ranked, s.Priority = true, int(p.number("a priority", -1<<31, 1<<31))
	}
}

func (p *parser) disk(s *Step) {
	s.Members = []election.ID{p.member()}
	if s.Word = p.oneOf("slow", "hang", "fail", "ok"); s.Word == "slow" {
		s.For = p.duration("how much longer a write takes", 1)
	}
}

func (p *parser) clock(s *Step) {
	s.Members = []election.ID{p.member()}
	switch s.Word = p.oneOf("drift", "jump"); s.Word {
	case "drift":
		s.PPM = p.number("parts per million", -100_000, 100_000)
	case "jump":
		s.For = p.duration("how far", -1<<62)
	}
}

func (p *parser) agree(s *Step) {
	if p.maybe("within") != "" {
		s.For = p.duration("a time", 1)
	}
}

func (p *parser) settle(s *Step) {
	if p.maybe("but") != "" {
		s.Word = "but " + p.oneOf("cuts", "disks")
	}
}

func (p *parser) expect(s *Step) {
	e := &s.Expect
	switch e.What = p.oneOf("leader", "undefined", "epoch", "state", "refused", "halted", "members", "changes", "lost", "messages"); e.What {
	case "leader", "refused", "halted":
		e.Of = string(p.member())
	case "members":
		w, _ := p.next("the members on the list, such as 1,2")
		ids := p.list(w)
		slices.SortFunc(ids, election.ID.Compare)
		e.Of = JoinIDs(ids, ",")
	case "epoch":
		e.N = p.number("an epoch", 1, election.MaxEpoch)
	case "state":
		e.Of = string(p.member())
		e.State = election.MemberState(p.oneOf("up", "unreachable", "down"))
	case "lost":
		e.Of = string(p.member())
		p.compares(e)
	case "messages":
		w, _ := p.next("a kind of message, such as election")
		e.Of = w.text
		p.compares(e)
	case "changes":
		p.compares(e)
	}
	if p.maybe("on") != "" {
		w, _ := p.next("members, such as 1,2")
		e.On = p.list(w)
	}
}

func (p *parser) compares(e *Expectation) {
	e.Op = p.oneOf("=", "<", "<=", ">", ">=")
	e.N = p.number("a number", 0, 1<<62)
}
