package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/batuta-dev/batuta/election"
)

// expectForm is what may follow "expect".
type expectForm struct {
	what  string
	form  string
	does  string
	read  func(*parser, *Expectation)
	write func(*Expectation) string
}

var expectations = []expectForm{
	{"leader", "ID", "so they see it", readOf, writeOf},
	{"undefined", "", "they know no leader", nil, nil},
	{"epoch", "N", "of the leadership that they see",
		func(p *parser, e *Expectation) { e.N = p.number("an epoch", 1, election.MaxEpoch) },
		func(e *Expectation) string { return strconv.FormatInt(e.N, 10) }},
	{"state", "ID up|unreachable|down", "as they see that member",
		func(p *parser, e *Expectation) {
			readOf(p, e)
			e.State = election.MemberState(p.oneOf("up", "unreachable", "down"))
		},
		func(e *Expectation) string { return e.Of + " " + string(e.State) }},
	{"told", "ID WORD", "the word that the member publishes, `-`: nothing",
		func(p *parser, e *Expectation) {
			readOf(p, e)
			w, _ := p.next("a word, or - for nothing")
			e.Said = w.text
		},
		func(e *Expectation) string { return e.Of + " " + e.Said }},
	{"refused", "ID", "a second process with that id was refused", readOf, writeOf},
	{"halted", "ID", "the member has ended by itself, because it was removed", readOf, writeOf},
	{"members", "ID,…", "those and no others are on the list", readMemberList, writeOf},
	{"changes", "OP N", "leaderships that began; OP is one of = < <= > >=", readComparison, writeComparison},
	{"lost", "ID OP N", "how often that member reported the end of a leadership",
		func(p *parser, e *Expectation) {
			readOf(p, e)
			readComparison(p, e)
		},
		func(e *Expectation) string { return e.Of + " " + writeComparison(e) }},
	{"messages", "KIND OP N", "of a kind such as election",
		func(p *parser, e *Expectation) {
			w, _ := p.next("a kind of message, such as election")
			e.Of = w.text
			readComparison(p, e)
		},
		func(e *Expectation) string { return e.Of + " " + writeComparison(e) }},
}

// perMember reports whether "on" may narrow the expectation down to some members.
func (f *expectForm) perMember() bool {
	return slices.Contains([]string{"leader", "undefined", "epoch", "state", "members", "told"}, f.what)
}

func (f *expectForm) usage() string {
	text := strings.TrimSpace("expect " + f.what + " " + f.form)
	if f.perMember() {
		text += " [on ID,…]"
	}
	return text
}

func readOf(p *parser, e *Expectation) { e.Of = string(p.member()) }

func writeOf(e *Expectation) string { return e.Of }

func readMemberList(p *parser, e *Expectation) {
	w, _ := p.next("the members on the list, such as 1,2")
	ids := p.list(w)
	slices.SortStableFunc(ids, election.ID.Compare)
	e.Of = JoinIDs(ids, ",")
}

func readComparison(p *parser, e *Expectation) {
	e.Op = p.oneOf("=", "<", "<=", ">", ">=")
	e.N = p.number("a number", 0, 1<<62)
}

func writeComparison(e *Expectation) string { return e.Op + " " + strconv.FormatInt(e.N, 10) }

func (p *parser) expect(e *Expectation) {
	var words []string
	for i := range expectations {
		words = append(words, expectations[i].what)
	}
	e.What = p.oneOf(words...)
	if i := slices.Index(words, e.What); i >= 0 && expectations[i].read != nil {
		expectations[i].read(p, e)
	}
	if p.maybe("on") != "" {
		w, _ := p.next("members, such as 1,2")
		e.On = p.list(w)
	}
}

// CheckKinds reports an expectation of messages of a kind that no member with a sends.
func (s *Scenario) CheckKinds(a election.Algorithm) error {
	kinds := election.Kinds(a)
	for _, step := range s.Steps {
		if e := step.Expect; e.What == "messages" && !slices.Contains(kinds, election.MessageKind(e.Of)) {
			slices.Sort(kinds)
			var names []string
			for _, k := range kinds {
				names = append(names, string(k))
			}
			return &ParseError{s.Name, step.Line, 1, fmt.Sprintf("expected a kind of message (%s), found %q", strings.Join(names, ", "), e.Of)}
		}
	}
	return nil
}

// String returns what follows "expect" in a script.
func (e Expectation) String() string {
	words := []string{e.What}
	i := slices.IndexFunc(expectations, func(f expectForm) bool { return f.what == e.What })
	if i >= 0 && expectations[i].write != nil {
		words = append(words, expectations[i].write(&e))
	}
	if len(e.On) > 0 {
		words = append(words, "on", JoinIDs(e.On, ","))
	}
	return strings.Join(words, " ")
}
