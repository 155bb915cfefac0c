package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// operand is a part of a line after the verb.
type operand struct {
	form  string // as the documentation shows it
	read  func(*parser, *Step)
	write func(*Step) string // empty: it is left out
}

// duration reads the step's For; what names it in errors.
func duration(what string, lowest time.Duration) *operand {
	return &operand{"D",
		func(p *parser, s *Step) { s.For = p.duration(what, lowest) },
		func(s *Step) string { return s.For.String() }}
}

// members reads ids up to the end of the line, or up to any of stop.
func members(stop ...string) *operand {
	return &operand{"ID…",
		func(p *parser, s *Step) { s.Members = p.members(stop...) },
		func(s *Step) string { return JoinIDs(s.Members, " ") }}
}

// text reads a name or a text; what describes it in errors.
func text(form, what string) *operand {
	return &operand{form,
		func(p *parser, s *Step) {
			w, _ := p.next(what)
			s.Word = w.text
		},
		func(s *Step) string { return s.Word }}
}

var (
	named  = text("NAME", "the name of an election")
	timer  = text("TIMER", "a timer's name, such as answer")
	saying = text("WORD", "a word, or - for nothing") // the metadata of a member
)

var member = &operand{"ID",
	func(p *parser, s *Step) { s.Members = []election.ID{p.member()} },
	func(s *Step) string { return JoinIDs(s.Members, " ") }}

var pair = &operand{"ID ID",
	func(p *parser, s *Step) { s.Members = []election.ID{p.member(), p.member()} },
	func(s *Step) string { return JoinIDs(s.Members, " ") }}

// candidacy is how a member is a candidate of a named election.
var candidacy = &operand{"[weight N] [seats N] [prefer]",
	func(p *parser, s *Step) {
		if p.maybe("weight") != "" {
			s.Weight = int(p.number("a weight", 1, 1<<20))
		}
		if p.maybe("seats") != "" {
			s.Seats = int(p.number("how many lead at once", 1, 64))
		}
		s.Prefer = p.maybe("prefer") != ""
	},
	func(s *Step) string {
		var words []string
		if s.Weight > 0 {
			words = append(words, "weight", strconv.Itoa(s.Weight))
		}
		if s.Seats > 0 {
			words = append(words, "seats", strconv.Itoa(s.Seats))
		}
		if s.Prefer {
			words = append(words, "prefer")
		}
		return strings.Join(words, " ")
	}}

// optional reads any of texts, or nothing.
func optional(texts ...string) *operand {
	return &operand{"[" + strings.Join(texts, "|") + "]",
		func(p *parser, s *Step) {
			for _, text := range texts {
				s.Word += p.maybe(text)
			}
		},
		func(s *Step) string { return s.Word }}
}

// choice reads an operand of a fixed set.
func choice(words ...string) *operand {
	return &operand{strings.Join(words, "|"),
		func(p *parser, s *Step) { s.Word = p.oneOf(words...) },
		func(s *Step) string { return s.Word }}
}

// links reads at least so many links; last leaves the line's last operand unread.
func links(least int, last bool) *operand {
	form := "LINK…"
	if least == 0 {
		form = "[LINK…]"
	}
	read := func(p *parser, s *Step) {
		if s.Links = p.links(last); len(s.Links) < least {
			p.fault(p.end, "expected a link, such as 1-3 for both ways or 1>3 for one")
		}
	}
	return &operand{form, read, writeLinks}
}

func writeLinks(s *Step) string {
	words := make([]string, len(s.Links))
	for i, l := range s.Links {
		words[i] = l.String()
	}
	return strings.Join(words, " ")
}

var oneWay = &operand{"A>B", readOneWay, writeLinks}

func readOneWay(p *parser, s *Step) {
	w, ok := p.next("a link, such as 1>3")
	if !ok {
		return
	}
	l := p.link(w)
	if l.Both {
		p.fault(w.col, "expected one direction, such as 1>3, found %q", w.text)
	}
	s.Links = []Link{l}
}

var through = &operand{"via ID…",
	func(p *parser, s *Step) {
		p.oneOf("via")
		s.Via = p.members()
	},
	func(s *Step) string { return "via " + JoinIDs(s.Via, " ") }}

// perhapsThrough is through, but may be left out.
var perhapsThrough = &operand{"[via ID…]",
	func(p *parser, s *Step) {
		if len(p.words) > 0 {
			through.read(p, s)
		}
	},
	func(s *Step) string {
		if len(s.Via) == 0 {
			return ""
		}
		return through.write(s)
	}}

// via reads a second member after a preposition.
func via(how string) *operand {
	return &operand{how + " ID",
		func(p *parser, s *Step) {
			p.oneOf(how)
			s.Via = []election.ID{p.member()}
		},
		func(s *Step) string { return how + " " + JoinIDs(s.Via, " ") }}
}

var place, toMember = via("at"), via("to")

var priority = &operand{"[priority N]",
	func(p *parser, s *Step) {
		if p.maybe("priority") != "" {
			s.Ranked, s.Priority = true, int(p.number("a priority", -1<<31, 1<<31))
		}
	},
	func(s *Step) string {
		if !s.Ranked {
			return ""
		}
		return "priority " + strconv.Itoa(s.Priority)
	}}

var diskState = &operand{"slow D|hang|fail|full|ok",
	func(p *parser, s *Step) {
		if s.Word = p.oneOf("slow", "hang", "fail", "full", "ok"); s.Word == "slow" {
			s.For = p.duration("how much longer a write takes", 1)
		}
	},
	func(s *Step) string {
		if s.Word == "slow" {
			return "slow " + s.For.String()
		}
		return s.Word
	}}

var clockChange = &operand{"drift PPM|jump D",
	func(p *parser, s *Step) {
		switch s.Word = p.oneOf("drift", "jump"); s.Word {
		case "drift":
			s.PPM = p.number("parts per million", -100_000, 100_000)
		case "jump":
			s.For = p.duration("how far", -1<<62)
		}
	},
	func(s *Step) string {
		if s.Word == "drift" {
			return "drift " + strconv.FormatInt(s.PPM, 10)
		}
		return "jump " + s.For.String()
	}}

// times are the t_max and t_process that a process starts with.
var times = &operand{"D D",
	func(p *parser, s *Step) {
		s.For, s.Process = p.duration("t_max", time.Millisecond), p.duration("t_process", time.Millisecond)
	},
	func(s *Step) string { return s.For.String() + " " + s.Process.String() }}

var within = &operand{"[within D]",
	func(p *parser, s *Step) {
		if p.maybe("within") != "" {
			s.For = p.duration("a time", 1)
		}
	},
	func(s *Step) string {
		if s.For == 0 {
			return ""
		}
		return "within " + s.For.String()
	}}

var but = &operand{"[but cuts|disks]",
	func(p *parser, s *Step) {
		if p.maybe("but") != "" {
			s.Word = "but " + p.oneOf("cuts", "disks")
		}
	},
	func(s *Step) string { return s.Word }}

var sides = &operand{"1,2 | 3,4",
	readSides,
	func(s *Step) string {
		words := make([]string, len(s.Sides))
		for i, side := range s.Sides {
			words[i] = JoinIDs(side, ",")
		}
		return strings.Join(words, " | ")
	}}

func readSides(p *parser, s *Step) {
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
	for _, id := range slices.Concat(s.Sides...) {
		if seen[id] {
			p.fault(s.Col, "expected each member on one side, found %s on two", id)
		}
		seen[id] = true
	}
}

var expectation = &operand{"WHAT … [on ID,…]",
	func(p *parser, s *Step) { p.expect(&s.Expect) },
	func(s *Step) string { return s.Expect.String() }}
