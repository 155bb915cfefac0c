// Package invariant defines the rules that the lab checks: what must never happen, and what
// must come in the end. Each is a sentence with its reason and the mutant that proves that
// its check can fail. A file holds a group of rules. A [Violation] reports a broken rule.
package invariant
