// Package sim is the lab. It runs the same [machine.Machine] as production under virtual time,
// on a network, disks and clocks that fail on purpose, all from a single seed. The same seed
// gives the same trace, byte for byte, on every machine.
//
// [Play] plays a [scenario.Scenario], [Soak] plays random scenarios, and [Shrink] shortens a
// failing scenario. [Count] counts an algorithm's messages under the conventions of textbooks.
// Package scenario is the language, explore tries every order of events of a small cluster, and
// trace draws what happened.
//
// Rules are checked at every step; a broken rule is an [invariant.Violation].
package sim
