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

	"github.com/batuta-dev/batuta/internal/follow"
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
		var got strings.Builder
		for e := range feed(slog.New(slog.DiscardHandler), behind, follow.On(t.Context(), behind, watch), func(e any, late bool) (string, any) {
			if late {
				return "behind", 0
			}
			return fmt.Sprint(e), e
		}) {
			io.WriteString(&got, e.Name+" ")
		}
		if got.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got.String(), tt.want)
		}
	}
}
