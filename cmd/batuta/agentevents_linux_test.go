package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// slowReader is an output that nobody reads until it is opened.
type slowReader struct {
	opened chan struct{}
	mu     sync.Mutex
	text   strings.Builder
}

func (r *slowReader) Write(p []byte) (int, error) {
	<-r.opened
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// count is how many lines hold a word.
func (r *slowReader) count(word string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), word)
}

// lacks is an error while fewer lines than that hold a word.
func lacks(r *slowReader, word string, n int) error {
	if got := r.count(word); got < n {
		return fmt.Errorf("%d lines have %s, not %d", got, word, n)
	}
	return nil
}

// printing is an agent in this process that prints to a reader, about a node of its own.
func printing(t *testing.T, events string, j *job, out *slowReader) *agentRun {
	t.Helper()
	a := &agentRun{Env: cli.Env{Stdout: out}, flags: &agentFlags{}, job: j, log: slog.New(slog.DiscardHandler)}
	a.flags.output.Events = events
	node, err := batuta.New(batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), Logger: a.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	a.node = node
	a.watch(node)
	go node.Run(context.Background())
	return a
}

// A reader that was too far behind is told so, and goes on with what is so now: of the
// cluster's own election and of the named ones.
func TestEventsGoOnAfterAReaderWasBehind(t *testing.T) {
	out := &slowReader{opened: make(chan struct{})}
	a := printing(t, "json", &job{file: &lineFile{}}, out)
	go a.printEvents(t.Context(), api.Line{Event: "ready"})
	// Each round tells twice of each name, and two of each are allowed beyond the bound.
	const names, rounds = 2500, 2 + batuta.MaxBacklog/2/2500
	var all []*batuta.Election
	for i := range names {
		all = append(all, a.node.Election("shard-"+strconv.Itoa(i)))
	}
	for range rounds {
		leadOnce(t, a.node, all)
	}
	for i := range batuta.MaxBacklog + 2 {
		if err := a.node.SetMeta(t.Context(), map[string]string{"n": strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
	}
	close(out.opened)
	until(t, "it has told both that they were behind", func() error { return lacks(out, `"event":"behind"`, 2) })
	go a.node.Election("last").Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error { <-ctx.Done(); return nil })
	until(t, "named elections go on", func() error { return lacks(out, `"election":"last"`, 1) })
	if err := a.node.SetMeta(t.Context(), map[string]string{"n": "last"}); err != nil {
		t.Fatal(err)
	}
	until(t, "its own goes on", func() error { return lacks(out, `"n":"last"`, 1) })
}

// leadOnce leads all of them, and then none.
func leadOnce(t *testing.T, node *batuta.Node, all []*batuta.Election) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var leads sync.WaitGroup
	var begun sync.Map // by name: a stall of the machine ends a leadership, and another begins
	leads.Add(len(all))
	led, over := make(chan struct{}), make(chan struct{})
	go func() { leads.Wait(); close(led) }()
	go func() {
		defer close(over)
		node.LeadEach(ctx, all, func(ctx context.Context, l batuta.Leadership) error {
			if _, known := begun.LoadOrStore(l.Election, true); !known {
				leads.Done()
			}
			<-ctx.Done()
			return nil
		})
	}()
	ended(t, "every name is led", led)
	stop()
	ended(t, "none is", over)
}

// What is not printed is not kept for a reader.
func TestWhatIsNotPrintedIsNotTakenUp(t *testing.T) {
	out := &slowReader{opened: make(chan struct{})}
	if a := printing(t, "off", &job{file: &lineFile{}}, out); a.told != nil || a.named != nil {
		t.Error("events are kept although they are off")
	}
	if a := printing(t, "json", nil, out); a.told == nil || a.named != nil {
		t.Error("an agent that stands for no named election keeps their events, or not its own")
	}
}

func ended(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(agreeWithin):
		t.Fatalf("%s: not within %v", what, agreeWithin)
	}
}
