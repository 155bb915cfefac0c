package invariant

import "slices"

// Rule is something that must never happen, or must come in the end. Its name is the
// sentence that a [Violation] shows.
type Rule struct {
	Name   string
	Why    string // the harm that the rule prevents
	Where  string // what checks it: random schedules, the search of all orders
	Mutant string // the mutant of the core that breaks it; empty: the tables have none
}

// Rules returns all rules, in the order of the documentation.
func Rules() []Rule {
	return slices.Concat(ofToken, ofTelling, ofLead, ofMembers, ofBounds, ofQuorum, ofNamed, ofEnd)
}
