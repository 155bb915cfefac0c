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

// ParseError is an error in a script: where it is, and what was expected there.
type ParseError struct {
	File      string
	Line, Col int // from 1
	What      string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.What)
}

// goldenMark separates a script from its trace.
const goldenMark = "----"

// maxSteps is how many steps a script may have once every "repeat" is unrolled.
const maxSteps = 100_000

// MaxMembers is how many members a cluster may have.
const MaxMembers = 10_000

// Parse reads a script. Its error joins every [ParseError], each of which begins with name. The
// algorithm is not looked up yet.
func Parse(name, text string) (*Scenario, error) {
	text = strings.TrimPrefix(text, "\ufeff") // as editors on Windows write it
	script, golden, _ := strings.Cut("\n"+text, "\n"+goldenMark+"\n")
	p := &parser{s: &Scenario{Name: name, Golden: golden, Setup: Setup{Algorithm: "bully"}}, seen: map[string]spot{}}
	for i, line := range strings.Split(strings.TrimPrefix(script, "\n"), "\n") {
		p.parseLine(i+1, line)
	}
	p.finish()
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	return p.s, nil
}

// blanks separate what a line consists of.
const blanks = " \t\r"

type word struct {
	text string
	col  int
}

// spot is a line and a column.
type spot struct{ line, col int }

type parser struct {
	s      *Scenario
	seen   map[string]spot // settings that were read already
	acting bool            // the steps have begun
	line   int
	words  []word // of the line, still to be read
	end    int    // the column after the line
	faults []error
	loops  []loop
	stop   bool // this line has an error already
}

type loop struct{ from, times, line int }

func (p *parser) parseLine(n int, line string) {
	text, _, _ := strings.Cut(line, "#")
	p.line, p.words, p.end, p.stop = n, split(text), len(strings.TrimRight(text, blanks))+1, false
	if len(p.words) == 0 {
		return
	}
	first := p.words[0]
	p.words = p.words[1:]
	if f := p.setting(first.text); f != nil {
		p.setupLine(first, f)
	} else {
		p.stepLine(first)
	}
	if len(p.words) > 0 && !p.stop {
		p.fault(p.words[0].col, "expected the end of the line, found %q", p.words[0].text)
	}
}

func split(line string) (words []word) {
	at := 0
	for text := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(blanks, r) }) {
		at += strings.Index(line[at:], text)
		words = append(words, word{text, at + 1})
		at += len(text)
	}
	return words
}

func (p *parser) fault(col int, format string, args ...any) {
	if !p.stop { // the first error of a line causes the rest
		p.faults = append(p.faults, &ParseError{p.s.Name, p.line, col, fmt.Sprintf(format, args...)})
	}
	p.stop = true
}

// next takes the line's next operand; what names the expected operand in errors.
func (p *parser) next(what string) (word, bool) {
	if p.stop {
		return word{}, false
	}
	if len(p.words) == 0 {
		p.fault(p.end, "expected %s, found the end of the line", what)
		return word{}, false
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w, true
}

func (p *parser) oneOf(choices ...string) string {
	w, ok := p.next(strings.Join(choices, " or "))
	if ok && !slices.Contains(choices, w.text) {
		p.fault(w.col, "expected %s, found %q", strings.Join(choices, " or "), w.text)
		return ""
	}
	return w.text
}

// maxTime is how long a scenario may last, and so each of its times: a day of five members
// takes half a minute of a processor.
const maxTime = 24 * time.Hour

// duration reads a time from lowest to [maxTime]. If lowest is negative, it is from lowest to
// -lowest.
func (p *parser) duration(what string, lowest time.Duration) time.Duration {
	w, ok := p.next(what + ", such as 150ms")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(w.text)
	if err != nil {
		p.fault(w.col, "expected %s, such as 150ms, found %q", what, w.text)
	} else if d < 0 && lowest >= 0 {
		p.fault(w.col, "expected %s of at least %v, found %v: time does not run backwards", what, lowest, d)
	} else if d < lowest && lowest == 1 {
		p.fault(w.col, "expected %s above 0, found %v", what, d)
	} else if d < lowest {
		p.fault(w.col, "expected %s of at least %v, found %v", what, lowest, d)
	} else if highest := max(maxTime, -lowest); d > highest {
		p.fault(w.col, "expected %s of at most %v, found %v", what, highest, d)
	}
	return d
}

func (p *parser) number(what string, low, high int64) int64 {
	w, ok := p.next(what)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(w.text, 10, 64)
	if err != nil || n < low || n > high {
		p.fault(w.col, "expected %s from %d to %d, found %q", what, low, high, w.text)
		return low
	}
	return n
}

func (p *parser) member() election.ID {
	w, ok := p.next("a member")
	if !ok {
		return election.None
	}
	return p.known(w)
}

func (p *parser) known(w word) election.ID {
	if p.rank(election.ID(w.text)) < 0 {
		p.fault(w.col, "expected a member (%s), found %q", p.memberList(), w.text)
	}
	return election.ID(w.text)
}

func (p *parser) rank(id election.ID) int {
	return slices.IndexFunc(p.s.Setup.Members, func(r election.Rank) bool { return r.ID == id })
}

func (p *parser) memberList() string {
	m := p.s.Setup.Members
	if len(m) == 0 {
		return "none is declared yet: write \"members 1 2 3\" first"
	}
	if len(m) > 8 {
		return string(m[0].ID) + ".." + string(m[len(m)-1].ID)
	}
	var ids []election.ID
	for _, r := range m {
		ids = append(ids, r.ID)
	}
	return JoinIDs(ids, ", ")
}

// members reads ids up to the end of the line, or up to any of stop.
func (p *parser) members(stop ...string) (ids []election.ID) {
	ids = append(ids, p.member())
	for len(p.words) > 0 && !p.stop && !slices.Contains(stop, p.words[0].text) {
		ids = append(ids, p.member())
	}
	return ids
}

// list reads "1,2,3".
func (p *parser) list(w word) (ids []election.ID) {
	col := w.col
	for _, part := range strings.Split(w.text, ",") {
		ids = append(ids, p.known(word{part, col}))
		col += len(part) + 1
	}
	return ids
}

func (p *parser) link(w word) Link {
	for i := 1; i < len(w.text); i++ {
		if w.text[i] != '-' && w.text[i] != '>' {
			continue
		}
		a, b := election.ID(w.text[:i]), election.ID(w.text[i+1:])
		if p.rank(a) >= 0 && p.rank(b) >= 0 && a != b { // ids may contain '-'
			return Link{a, b, w.text[i] == '-'}
		}
	}
	p.fault(w.col, "expected a link between two of the members (%s), such as 1-3 for both ways or 1>3 for one, found %q", p.memberList(), w.text)
	return Link{}
}

func (p *parser) links(last bool) (links []Link) {
	for len(p.words) > 0 && !p.stop && !(last && len(p.words) == 1) {
		w, _ := p.next("a link")
		links = append(links, p.link(w))
	}
	return links
}

// settingOf returns the spot of the setting with which a fault of the whole setup begins, or of a time
// on which that depends.
func (p *parser) settingOf(fault error) spot {
	first, _, _ := strings.Cut(fault.Error(), " ")
	for _, name := range []string{strings.TrimSuffix(first, ","), "t_max", "t_process", "members"} {
		if at, given := p.seen[name]; given {
			return at
		}
	}
	return spot{1, 1}
}

func (p *parser) finish() {
	p.words, p.end, p.stop = nil, 1, false
	if len(p.s.Setup.Members) == 0 && len(p.faults) == 0 {
		p.fault(1, "expected a line such as \"members 1 2 3\", found none")
	}
	for _, l := range p.loops {
		p.line = l.line
		p.fault(1, "expected an \"end\" for this repeat, found none")
	}
	if len(p.faults) > 0 {
		return
	}
	if err := p.s.Setup.Validate(); err != nil {
		at := p.settingOf(err)
		p.line = at.line
		p.fault(at.col, "%v", err)
	}
	if step, err := p.s.Check(); err != nil {
		p.line = step.Line
		p.fault(step.Col, "%v", err)
	}
}
