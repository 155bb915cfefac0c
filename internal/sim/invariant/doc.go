// Package invariant is what must never happen in the lab, or come in the end: the
// rules, each a sentence with its reason and the mutant that shows that its check can
// fail, in groups of a file each, and the [Violation] that a broken one is.
package invariant
