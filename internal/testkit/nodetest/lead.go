package nodetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// Fence checks that a leadership has a fence where the algorithm has one, whichever way it is led.
func Fence(t *testing.T, algorithm Maker, want bool) {
	over := errors.New("it is seen")
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 1, func(cfg *batuta.Config) { cfg.Algorithm = algorithm() })
		n := c.Start("1")
		named := n.Election("report")
		type work = func(context.Context, batuta.Leadership) error
		for _, way := range []struct { // the cluster's own election last: without its leader no member assigns the named ones
			name string
			lead func(context.Context, work) error
		}{
			{"Election.Lead", named.Lead},
			{"LeadEach", func(ctx context.Context, fn work) error {
				return n.LeadEach(ctx, []*batuta.Election{named}, fn)
			}},
			{"Node.Lead", n.Lead},
		} {
			err := way.lead(t.Context(), func(_ context.Context, l batuta.Leadership) error {
				epoch, fences := l.Fence()
				if fences != want || fences && epoch != l.Token.Epoch || !fences && epoch != 0 {
					t.Errorf("%s under %s: its fence is %d, %v", way.name, l.Token, epoch, fences)
				}
				return over
			})
			if err != over {
				t.Errorf("%s: %v", way.name, err)
			}
		}
	})
}

// Lease checks the guarantee and the lease of a node that leads: only a quorum has it.
func Lease(t *testing.T, algorithm Maker, guarantee string, has bool) {
	synctest.Test(t, func(t *testing.T) {
		n := batutatest.New(t, 1, func(cfg *batuta.Config) { cfg.Algorithm = algorithm() }).Start("1")
		if l, err := n.Lease(t.Context()); l.Left > 0 && !n.IsLeader() || err != nil {
			t.Errorf("%v left before it leads, %v", l.Left, err)
		}
		watched(t, n, func(v batuta.View) bool { return v.Token.Leader.ID == "1" })
		if g := status(t, n).Guarantee; g != guarantee {
			t.Errorf("it promises %q", g)
		}
		l, err := n.Lease(t.Context())
		if (l.Whole > 0) != has || l.Left > l.Whole || err != nil || l.Whole > 600*time.Millisecond { // T by default
			t.Errorf("%v of %v left, %v", l.Left, l.Whole, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := n.Lease(t.Context()); err != batuta.ErrClosed {
			t.Errorf("closed, it gives %v", err)
		}
	})
}

// leadOnce runs Lead on n until it leads and its work has failed.
func leadOnce(t *testing.T, n *batuta.Node) {
	t.Helper()
	failed := errors.New("failed")
	if err := n.Lead(t.Context(), func(context.Context, batuta.Leadership) error { return failed }); err != failed {
		t.Fatalf("Lead: %v", err)
	}
}

// NoWork checks that a member does not lead without work once its Lead has returned, nor prevents the rest
// from leading. It is a candidate again when Lead is called again.
func NoWork(t *testing.T, algorithm Maker) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Algorithm = algorithm() })
		c.StartAll()
		c.Agree("3")
		leadOnce(t, c.Node("3"))
		c.Agree("2")
		if s := status(t, c.Node("3")); s.Standing != batuta.StandingResigned || !strings.Contains(s.StandingWhy, "Lead has returned") {
			t.Errorf("%s: %s", s.Standing, s.StandingWhy)
		}
		time.Sleep(5 * time.Second)                             // a shorter leadership than 2·T would not count
		if err := c.Node("2").Resign(t.Context()); err != nil { // after which a member that has only resigned is a candidate again
			t.Fatal(err)
		}
		c.Agree("1")
		time.Sleep(20 * time.Second)
		if v := c.Node("1").Leader(); v.Token.Leader.ID == "3" {
			t.Error("3 leads again, with no work")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Node("3").Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
				<-ctx.Done()
				return nil
			})
		}()
		c.Agree("3")
		cancel()
		<-ended
	})
}

// Pause checks a pause that is asked for while leadership moves, or while its leader dies. It begins
// before long, and the next leader keeps leadership.
func Pause(t *testing.T, algorithm Maker) {
	for name, end := range map[string]ending{
		"transfer": {func(_ *batutatest.Cluster, leader *batuta.Node) { go leader.Transfer(context.Background(), "2") }, 100 * time.Millisecond},
		"resign":   {func(_ *batutatest.Cluster, leader *batuta.Node) { go leader.Resign(context.Background()) }, 100 * time.Millisecond},
		"kill":     {func(c *batutatest.Cluster, leader *batuta.Node) { c.Kill(leader.ID()) }, 0},
	} {
		for _, after := range []time.Duration{0, 1, 30} {
			t.Run(fmt.Sprintf("%s/%d", name, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { pauseWhile(t, algorithm, end, after*time.Millisecond) })
			})
		}
	}
}

// ending is how a leadership ends, and how long its work goes on after that.
type ending struct {
	begin func(c *batutatest.Cluster, leader *batuta.Node)
	work  time.Duration
}

func pauseWhile(t *testing.T, algorithm Maker, end ending, after time.Duration) {
	dir := t.TempDir()
	c := batutatest.New(t, 3, func(cfg *batuta.Config) {
		cfg.NoPreempt, cfg.Algorithm, cfg.DataDir = true, algorithm(), filepath.Join(dir, string(cfg.ID))
	})
	c.StartAll()
	three := c.Node("3")
	for three.Leader().Token.Leader.ID != "3" {
		_ = three.Campaign(t.Context())
		time.Sleep(time.Second)
	}
	led := make(chan struct{}, 2)
	go three.Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error {
		led <- struct{}{}
		<-ctx.Done()
		time.Sleep(end.work)
		return nil
	})
	<-led
	end.begin(c, three)
	time.Sleep(after)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if err := c.Node("1").Pause(ctx, time.Hour); err != nil && !errors.Is(err, batuta.ErrNotLeading) || time.Since(began) > time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	} else if err != nil {
		return // it asked between two leaders
	}
	time.Sleep(2 * time.Second)
	for _, id := range []batuta.ID{"1", "2", "3"} {
		n := c.Node(id)
		select {
		case <-n.Done():
			continue // it was killed
		default:
		}
		st, err := n.Status(t.Context())
		if err != nil || st.PausedWith != n.Leader().Token.Leader.ID || !n.Leader().Defined() {
			t.Errorf("at %s %q leads, paused with %q: %v", id, n.Leader().Token, st.PausedWith, err)
		}
	}
}
