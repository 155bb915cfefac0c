// Package scenario is the lab's language: a cluster, what happens to it, and what
// must come of it. [Parse] reads a script, [Scenario.String] prints one that reads
// back the same, and [Preconditions] knows which step may follow which. Package sim
// plays them; docs/scenarios.md tells the language to those who write it.
package scenario
