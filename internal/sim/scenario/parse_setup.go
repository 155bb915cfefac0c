package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

func (p *parser) setupLine(first word, f *setting) {
	_, seen := p.seen[first.text]
	switch {
	case p.acting:
		p.fault(first.col, "expected a step: %q belongs before the first one", first.text)
	case seen && !f.again:
		p.fault(first.col, "expected one line of %q, found a second", first.text)
	default:
		f.read(p)
	}
	if !f.again && !seen {
		p.seen[first.text] = spot{p.line, first.col}
	}
}

// setting returns the setting of that name, or nil if a step begins with it.
func (p *parser) setting(word string) (found *setting) {
	if word == "probe" {
		word = "option" // its name when only Bully had an option
	}
	ofLink := len(p.words) > 1 && strings.ContainsAny(p.words[0].text, "->")
	for i := range settings {
		if f := &settings[i]; f.word == word && (!f.ofLink || ofLink) {
			found = f
		}
	}
	return found
}

func (p *parser) setLinkLatency() {
	w, _ := p.next("a link")
	p.s.Setup.Links = append(p.s.Setup.Links, LinkLatency{p.link(w), p.span()})
}

// setMembers reads ids, or a range of integers such as "1..50".
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
	slices.SortStableFunc(p.s.Setup.Members, election.Rank.Compare)
}

func (p *parser) addRange(w word, from, to string) {
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	switch {
	case errA != nil || errB != nil || a < 0 || b-a >= MaxMembers:
		p.fault(w.col, "expected a range of at most %d integers, such as 1..50, found %q", MaxMembers, w.text)
		return
	case b < a:
		p.fault(w.col, "expected a range from a lower integer to a higher one, such as 1..50, found %q", w.text)
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
		slices.SortStableFunc(p.s.Setup.Members, election.Rank.Compare)
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

func (p *parser) setFounding() {
	if len(p.words) > 0 && p.words[0].text == "told" {
		p.words = p.words[1:]
		p.s.Setup.Newcomer = true
		return
	}
	p.s.Setup.Expect = int(p.number("how many members found a cluster, or \"told\"", 1, election.MaxMembers))
}

func writeFounding(s *Scenario) []string {
	if s.Setup.Expect > 0 {
		return []string{strconv.Itoa(s.Setup.Expect)}
	}
	return lineIf(s.Setup.Newcomer, "told")
}

func (p *parser) setLists() {
	id := p.member()
	p.s.Setup.Lists = append(p.s.Setup.Lists, Listed{id, p.members()})
}

func writeLists(s *Scenario) (lines []string) {
	for _, l := range s.Setup.Lists {
		lines = append(lines, string(l.At)+" "+JoinIDs(l.Members, " "))
	}
	return lines
}
