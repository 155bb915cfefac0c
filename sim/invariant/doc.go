// Package invariant is what must never happen in the lab, or come in the end: the
// rules, each a sentence, and the [Violation] that a broken one is.
package invariant
