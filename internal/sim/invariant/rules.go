package invariant

import "slices"

// Rule is one thing that must never happen, or must come in the end. Its name is the
// sentence that a [Violation] bears.
type Rule struct {
	Name   string
	Why    string // what harm it keeps out
	Where  string // what checks it: random schedules, the search of all orders
	Mutant string // a mutant of the core that breaks it; empty: the tables have none
}

// Rules are all there are, in the order in which the documentation tells them.
func Rules() []Rule {
	return slices.Concat(ofToken, ofTelling, ofLead, ofMembers, ofBounds, ofQuorum, ofNamed, ofEnd)
}
