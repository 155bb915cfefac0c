package scenario

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// Drop removes a member from s, with every setting and step that names it. Of what s shares with
// further scenarios, only its Members and Steps change.
func (s *Scenario) Drop(id election.ID) {
	s.Setup.Members = slices.DeleteFunc(s.Setup.Members, func(r election.Rank) bool { return r.ID == id })
	for _, of := range []*[]election.ID{&s.Setup.Absent, &s.Setup.Newcomers, &s.Setup.Observers} {
		*of = slices.DeleteFunc(slices.Clone(*of), func(n election.ID) bool { return n == id })
	}
	s.Setup.Links = slices.DeleteFunc(slices.Clone(s.Setup.Links), func(l LinkLatency) bool { return l.A == id || l.B == id })
	var lists []Listed
	for _, l := range s.Setup.Lists {
		if l.At != id {
			lists = append(lists, Listed{l.At, slices.DeleteFunc(slices.Clone(l.Members), func(n election.ID) bool { return n == id })})
		}
	}
	s.Setup.Lists = lists
	s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { return step.names(id) })
}

// names reports whether a step concerns a member.
func (s *Step) names(id election.ID) bool {
	isID := func(n election.ID) bool { return n == id }
	return slices.ContainsFunc(slices.Concat(s.Members, s.Via, slices.Concat(s.Sides...), s.Expect.On), isID) ||
		slices.ContainsFunc(s.Links, func(l Link) bool { return l.A == id || l.B == id }) ||
		s.Do == Expect && s.Expect.Of == string(id)
}

// Simpler returns changes to a setup that shrinking tries in turn.
func Simpler() (all []func(*Setup)) {
	for i := range settings {
		all = append(all, settings[i].simpler...)
	}
	return all
}
