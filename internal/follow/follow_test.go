package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
)

func TestFrom(t *testing.T) {
	seq := func(n int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) { yield(n, nil) }
	}
	watch := From(seq(1), func(context.Context) iter.Seq2[int, error] { return seq(2) })
	for _, want := range []int{1, 2, 2} {
		for n := range watch(t.Context()) {
			if n != want {
				t.Errorf("got %d, want %d", n, want)
			}
		}
	}
}

func TestOn(t *testing.T) {
	behind, broken := errors.New("behind"), errors.New("broken")
	runs := [][]any{{1, 2, behind}, {3, fmt.Errorf("so far: %w", behind)}, {}, {4}}
	broke := [][]any{{1, behind}, {2, broken}, {3}}
	for _, tt := range []struct {
		what string
		runs [][]any
		most int
		want string
	}{
		{"until there is no more", runs, 99, "[1 2 behind 3 so far: behind]"},
		{"until nobody reads", runs, 4, "[1 2 behind 3]"},
		{"until nobody reads, just behind", runs, 3, "[1 2 behind]"},
		{"until something else is wrong", broke, 99, "[1 behind 2 broken]"},
	} {
		i := 0
		watch := func(context.Context) iter.Seq2[int, error] {
			run := tt.runs[i]
			i++
			return func(yield func(int, error) bool) {
				for _, x := range run {
					n, _ := x.(int)
					err, _ := x.(error)
					if !yield(n, err) {
						return
					}
				}
			}
		}
		var got []any
		for n, err := range On(t.Context(), behind, watch) {
			if err != nil {
				got = append(got, err)
			} else {
				got = append(got, n)
			}
			if len(got) == tt.most {
				break
			}
		}
		if fmt.Sprint(got) != tt.want || slices.Contains(got, any(4)) {
			t.Errorf("%s: %v, want %s", tt.what, got, tt.want)
		}
	}
}
