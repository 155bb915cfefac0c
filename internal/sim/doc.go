// Package sim is the lab: it runs the very [machine.Machine] that production
// runs, under virtual time, on a network, disks and clocks that fail on purpose,
// all from one seed. The same seed gives the same trace, byte for byte, on every
// machine.
//
// [Play] plays a [scenario.Scenario], [Soak] plays random ones, [Shrink] makes one
// that fails short, and [Count] counts an algorithm's messages under the textbooks'
// conventions. Package scenario is the language, explore tries every order of events
// of a small cluster, and trace draws what happened.
//
// Rules are checked at every step; a broken one is an [invariant.Violation].
package sim
