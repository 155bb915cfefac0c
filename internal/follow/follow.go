// Package follow lets a reader of events go on after it has fallen too far behind.
package follow

import (
	"context"
	"errors"
	"iter"
)

// On yields what watch yields, until ctx ends. When watch ends with an error that is behind, On yields
// the error, calls watch again, and goes on with that, which begins with the state at that time.
// It ends with any other error, or when watch ends.
func On[E any](ctx context.Context, behind error, watch func(context.Context) iter.Seq2[E, error]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for again := true; again; {
			again = false
			for e, err := range watch(ctx) {
				if !yield(e, err) {
					return
				}
				if again = errors.Is(err, behind); err != nil {
					break
				}
			}
		}
	}
}

// From returns a watch for [On] that has its place already: the first call yields taken, and each
// later call what watch yields. It is for a single reader.
func From[E any](taken iter.Seq2[E, error], watch func(context.Context) iter.Seq2[E, error]) func(context.Context) iter.Seq2[E, error] {
	return func(ctx context.Context) iter.Seq2[E, error] {
		if now := taken; now != nil {
			taken = nil
			return now
		}
		return watch(ctx)
	}
}
