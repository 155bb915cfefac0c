// Package scenario is the lab's language: a cluster, what happens to it, and what must come of
// it. [Parse] reads a script, [Scenario.String] prints it so that Parse reads back the same, and
// [Preconditions] checks which step may follow. Package sim plays scenarios. docs/scenarios.md
// describes the language to its users.
package scenario
