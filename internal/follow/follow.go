// Package follow keeps a reader of events going that has been too far behind.
package follow

import (
	"context"
	"errors"
	"iter"
)

// On has what watch gives until ctx ends. Where that ends with an error that is behind, it yields the error,
// once, and goes on with what another call of watch gives, which begins with what is so then.
// It ends with any other error, or when watch gives no more.
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

// From has what was taken up before, and from then on what watch gives: a watch for [On] whose
// place is taken already. It is for one reader.
func From[E any](taken iter.Seq2[E, error], watch func(context.Context) iter.Seq2[E, error]) func(context.Context) iter.Seq2[E, error] {
	return func(ctx context.Context) iter.Seq2[E, error] {
		if now := taken; now != nil {
			taken = nil
			return now
		}
		return watch(ctx)
	}
}
