package peeragent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"testing"
)

// A feed ends with any other error, and when it cannot write a line.
func TestFeedEnds(t *testing.T) {
	behind, broken := errors.New("behind"), errors.New("broken")
	for _, tt := range []struct {
		what string
		list []any
		want string
	}{
		{"by an error", []any{1, behind, 2, broken, 3}, "1 behind 2 "},
		{"by itself", []any{1, 2}, "1 2 "},
		{"by a line that is none", []any{1, func() {}, 2}, "1 "},
	} {
		f := newFeed(t.Context(), slog.New(slog.DiscardHandler))
		next := 0
		watch := func(context.Context) iter.Seq2[any, error] {
			return func(yield func(any, error) bool) {
				for next < len(tt.list) {
					e := tt.list[next]
					next++
					if err, bad := e.(error); bad {
						yield(nil, err)
						return
					}
					if !yield(e, nil) {
						return
					}
				}
			}
		}
		go func() {
			defer f.end()
			pour(f, behind, watch, func(e any, late bool) (string, any) {
				if late {
					return "behind", 0
				}
				return fmt.Sprint(e), e
			})
		}()
		var got strings.Builder
		for e := range f.all() {
			io.WriteString(&got, e.Name+" ")
		}
		if got.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got.String(), tt.want)
		}
	}
}
