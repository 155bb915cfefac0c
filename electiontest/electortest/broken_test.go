package electortest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/electiontest/electortest"
)

// broken are candidates that break a promise each, and what the kit has to say.
var broken = []struct {
	name, says string
	wrap       func(node) electortest.Candidate
}{
	{"does not wait for the work", "while that of", func(n node) electortest.Candidate { return hasty{n} }},
	{"does not tell that a leadership is lost", "was not told lost", func(n node) electortest.Candidate { return silent{n} }},
	{"leads on after it is closed", "it is closed, and leads", func(n node) electortest.Candidate { return &proud{node: n} }},
	{"forgets what the work has returned", "Lead returned <nil>", func(n node) electortest.Candidate { return deaf{n} }},
}

type hasty struct{ node }

func (h hasty) Lead(ctx context.Context, fn func(context.Context, batuta.Leadership) error) error {
	return h.node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		returned := make(chan error, 1)
		go func() { returned <- fn(ctx, l) }()
		select {
		case err := <-returned:
			return err
		case <-ctx.Done():
			return nil
		}
	})
}

type silent struct{ node }

func (s silent) Watch(ctx context.Context) iter.Seq2[batuta.View, error] {
	views := s.node.Watch(ctx)
	return func(yield func(batuta.View, error) bool) {
		for v, err := range views {
			if v.Defined() && !yield(v, err) {
				return
			}
		}
	}
}

type proud struct {
	node
	closed bool
}

func (p *proud) Shutdown(ctx context.Context) error {
	p.closed = true
	return p.node.Shutdown(ctx)
}

func (p *proud) IsLeader() bool { return p.closed || p.node.IsLeader() }

type deaf struct{ node }

func (d deaf) Lead(ctx context.Context, fn func(context.Context, batuta.Leadership) error) error {
	err := d.node.Lead(ctx, fn)
	if errors.Is(err, batuta.ErrClosed) || ctx.Err() != nil {
		return err
	}
	return nil
}

// brokenVariable has this test binary try the candidates of that name.
const brokenVariable = "ELECTORTEST_BROKEN"

// The kit finds what is broken: tried in a process of its own, which has to fail.
func TestTheKitCanFail(t *testing.T) {
	if name := os.Getenv(brokenVariable); name != "" {
		try(t, name)
		return
	}
	for _, b := range broken {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTheKitCanFail$", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), brokenVariable+"="+b.name)
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(said), b.says) {
			t.Errorf("one that %s is said to fail by %q: %v\n%s", b.name, b.says, err, said)
		}
	}
}

func try(t *testing.T, name string) {
	for _, b := range broken {
		if b.name != name {
			continue
		}
		electortest.RunIn(t, synctest.Test, func(t *testing.T) electortest.Candidates {
			c := batutatest.New(t, 3)
			return electortest.Candidates{Start: func(id batuta.ID) electortest.Candidate { return b.wrap(node{c.Start(id), c, id}) }}
		})
	}
}
