package batutacron_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutacron"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/election/bully"
)

// call is what Do was called with.
type call struct {
	by   batuta.ID
	tick time.Time
}

// member starts a member with a job.
func member(t *testing.T, c *batutatest.Cluster, id batuta.ID, job batutacron.Job, calls chan<- call) {
	node := c.Start(id)
	job.Name, job.Schedule = "report", "*/5 * * * *"
	do := job.Do
	job.Do = func(ctx context.Context, l batuta.Leadership, tick time.Time) {
		if l.Token.Leader.ID != id || !node.IsLeader() {
			t.Errorf("member %s is called under %v", id, l.Token)
		}
		calls <- call{id, tick}
		if do != nil {
			do(ctx, l, tick)
		}
	}
	go func() {
		if err := batutacron.Run(t.Context(), node, job); !errors.Is(err, context.Canceled) && !errors.Is(err, batuta.ErrClosed) {
			t.Errorf("member %s: %v", id, err)
		}
	}()
}

// Each time is called for once, by the leader that there is; of what was missed the last is made up for, or nothing.
func TestEachTimeIsCalledForOnce(t *testing.T) {
	for name, skip := range map[string]bool{"made up for": false, "skipped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := make(chan call, 100)
				c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Meta = map[string]string{"url": "http://" + string(cfg.ID)} })
				for _, id := range []batuta.ID{"1", "2", "3"} {
					member(t, c, id, batutacron.Job{SkipMissed: skip}, calls)
				}
				c.Agree("3")
				begin := time.Now()
				at := func(minutes int) time.Time {
					return begin.Truncate(time.Hour).Add(time.Duration(minutes) * time.Minute)
				}
				next := func(by batuta.ID, minutes int) {
					t.Helper()
					if got := <-calls; got.by != by || !got.tick.Equal(at(minutes)) {
						t.Fatalf("%s is called for %v, want %s for %v", got.by, got.tick, by, at(minutes))
					}
				}
				next("3", 5)
				next("3", 10)
				time.Sleep(time.Second) // until the others have received that it was called for
				c.Kill("3")
				next("2", 15)
				if url := c.Node("2").Leader().Meta["url"]; url != "http://2" {
					t.Errorf("the rest of its metadata is %q", url)
				}
				member(t, c, "3", batutacron.Job{SkipMissed: skip}, calls) // it knows no time, and takes over
				c.Agree("3")
				next("3", 20)
			})
		})
	}
}

// A time that falls due while there is no leader is made up for by the next, which knows the last from the members that live.
func TestTheNextLeaderMakesUpForATime(t *testing.T) {
	for name, skip := range map[string]bool{"made up for": false, "skipped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := make(chan call, 100)
				c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.MinMembers = 2 })
				for _, id := range []batuta.ID{"1", "2", "3"} {
					member(t, c, id, batutacron.Job{SkipMissed: skip}, calls)
				}
				c.Agree("3")
				first := <-calls
				time.Sleep(time.Second) // until the others have received that
				c.Kill("3")
				c.Kill("2") // 1 alone does not lead
				time.Sleep(12 * time.Minute)
				member(t, c, "2", batutacron.Job{SkipMissed: skip}, calls)
				c.Agree("2")
				want := first.tick.Add(10 * time.Minute)
				if skip {
					want = first.tick.Add(15 * time.Minute)
				}
				if got := <-calls; !got.tick.Equal(want) {
					t.Errorf("%s is called for %v, want %v", got.by, got.tick, want)
				}
				if synctest.Wait(); len(calls) != 0 {
					t.Errorf("and again for %v", <-calls)
				}
			})
		})
	}
}

// The context of a call ends with the leadership, and the next call waits for the end of this one.
func TestACallEndsWithTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, causes := make(chan call, 100), make(chan error, 100)
		c := batutatest.New(t, 1)
		member(t, c, "1", batutacron.Job{Do: func(ctx context.Context, _ batuta.Leadership, _ time.Time) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}}, calls)
		<-calls
		time.Sleep(time.Hour)
		if len(calls) != 0 {
			t.Errorf("it is called %d times while a call lasts", len(calls))
		}
		c.Stop("1")
		if lost := (*batuta.LostError)(nil); !errors.As(<-causes, &lost) {
			t.Error("the cause is no loss")
		}
	})
}

// Two jobs of a name would take each other's times as their own.
func TestTwoJobsOfAName(t *testing.T) {
	c := batutatest.New(t, 1)
	node := c.Start("1")
	job := batutacron.Job{Name: "report", Schedule: "@daily", Do: func(context.Context, batuta.Leadership, time.Time) {}}
	for range 2 { // the name is free when Run has returned
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- batutacron.Run(ctx, node, job) }()
		}
		if err := <-ended; !errors.Is(err, batuta.ErrConfig) || !strings.Contains(err.Error(), "job report runs already") {
			t.Errorf("the second job: %v", err)
		}
		stop()
		<-ended
	}
}

func TestWhatIsWrongWithAJob(t *testing.T) {
	c := batutatest.New(t, 1)
	node := c.Start("1")
	do := func(context.Context, batuta.Leadership, time.Time) {}
	for want, job := range map[string]batutacron.Job{
		"job \"a\" has no Do":      {Name: "a", Schedule: "@daily"},
		"job name \"\"":            {Schedule: "@daily", Do: do},
		"job name \"a b\"":         {Name: "a b", Schedule: "@daily", Do: do},
		"job name \"aaaaaaaaaaaaa": {Name: strings.Repeat("a", 49), Schedule: "@daily", Do: do},
		"job a: ":                  {Name: "a", Schedule: "99 * * * *", Do: do},
	} {
		if err := batutacron.Run(t.Context(), node, job); !errors.Is(err, batuta.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", job, err, want)
		}
	}
}

func ExampleRun() {
	node, err := batuta.Start(context.Background(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	report := func(ctx context.Context, l batuta.Leadership, tick time.Time) {
		fmt.Println("the report of", tick.Format(time.DateOnly), "by member", node.ID())
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Millisecond) // a service runs until it is stopped
	defer stop()
	err = batutacron.Run(ctx, node, batutacron.Job{Name: "report", Schedule: "30 4 * * *", Do: report})
	fmt.Println(err)
	// Output: context deadline exceeded
}
