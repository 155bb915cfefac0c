package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/batuta-dev/batuta/internal/api"
)

// A stream whose reader is too far behind tells it so, and goes on with what is so now.
func TestStreamGoesOnAfterItsReaderWasBehind(t *testing.T) {
	resp, err := http.Get("http://" + serve(t, &fakeNode{events: story, view: viewOf("3", 8), late: &sync.Map{}}) + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	want := []string{storyLines[0], `"event":"behind","id":"3"`}
	for _, line := range append(want, storyLines...) {
		for !strings.HasPrefix(in.Text(), "data: ") && in.Scan() {
		}
		if !strings.Contains(in.Text(), strings.TrimPrefix(line, "data: ")) {
			t.Fatalf("got %q, want %s", in.Text(), line)
		}
		in.Scan()
	}
}

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
		f := api.NewFeed(t.Context(), slog.New(slog.DiscardHandler))
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
			defer f.End()
			api.Pour(f, behind, watch, func(e any, late bool) (string, any) {
				if late {
					return "behind", 0
				}
				return fmt.Sprint(e), e
			})
		}()
		var got strings.Builder
		for e := range f.Events() {
			io.WriteString(&got, e.Name+" ")
		}
		if got.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got.String(), tt.want)
		}
	}
}
