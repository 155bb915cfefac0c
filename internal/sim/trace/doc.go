// Package trace is what a run of the lab tells: an [Entry] for each thing that
// happened, a [Log] of them as text, and a [Story], which draws them.
package trace
