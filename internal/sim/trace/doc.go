// Package trace records a run of the lab: an [Entry] for each thing that happened, a [Log]
// of entries as text, and a [Story], which draws them.
package trace
