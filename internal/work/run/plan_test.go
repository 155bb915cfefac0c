package run

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// runs is what members have run, and for which tick.
type runs struct {
	mu   sync.Mutex
	list []string
}

// minutely has a tick every minute.
type minutely struct{}

func (minutely) Next(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

// follow has a member note what it would run each minute, and when.
func (r *runs) follow(t *testing.T, node *batuta.Node) {
	runner := &Runner{cfg: Config{Plan: &Plan{Schedule: schedule.Schedule{Ticks: minutely{}}}, Logger: slog.New(slog.DiscardHandler)}}
	go node.Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error {
		for {
			tick, err := runner.ticker(node).Await(ctx)
			if err != nil {
				return err
			}
			r.mu.Lock()
			r.list = append(r.list, tick.Format("15:04")+" on "+string(node.ID()))
			r.mu.Unlock()
			time.Sleep(time.Second)
		}
	})
}

// Each tick runs once, on whoever leads: also one that falls due while the leader has
// vanished and nobody has noticed yet.
func TestEachTickRunsOnceAcrossFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Now()
		until := func(clock string) {
			d, err := time.ParseDuration(clock)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(midnight.Add(d)))
		}
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		var r runs
		for _, id := range []batuta.ID{"1", "2", "3"} {
			r.follow(t, c.Node(id))
		}
		until("1m30s")
		c.Kill("3") // seen at once
		until("2m59.9s")
		c.PowerOff("2") // missed for T and more
		until("4m30s")
		r.mu.Lock()
		defer r.mu.Unlock()
		if want := []string{"00:01 on 3", "00:02 on 2", "00:03 on 1", "00:04 on 1"}; !slices.Equal(r.list, want) {
			t.Errorf("%q, want %q", r.list, want)
		}
	})
}

// often has a tick every 20 ms.
type often struct{}

func (often) Next(t time.Time) time.Time {
	return t.Truncate(20 * time.Millisecond).Add(20 * time.Millisecond)
}

// A run that fails is followed by the next, under the same lead; runs are one at a time.
func TestAScheduledCommandRunsAtEachTick(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	s := lead(t, f, func(c *Config) { c.Plan = &Plan{Schedule: schedule.Schedule{Ticks: often{}}} }, f.argv("exit=1")...)
	first := f.Next()
	for range 3 {
		if next := f.Next(); next.Token != first.Token || next.Alone != first.Alone {
			t.Errorf("token %s after %s: the lead was given away", next.Token, first.Token)
		}
	}
	s.cancel(nil)
	if err := s.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// diary is the journal of a job that is run once, by hand.
type diary struct {
	asked atomic.Bool
	list  chan string
}

func (*diary) Known() time.Time                         { return time.Now() }
func (*diary) Publish(context.Context, time.Time) error { return nil }
func (*diary) Missed(int)                               {}
func (*diary) Paused() bool                             { return false }
func (*diary) Changed() <-chan struct{}                 { return nil }
func (d *diary) Asked(context.Context) bool {
	again := d.asked.Swap(true)
	if again {
		d.list <- "waits"
	}
	return !again
}
func (d *diary) Began(try int) { d.list <- fmt.Sprintf("try %d", try) }
func (d *diary) Ended(e Ending) {
	d.list <- fmt.Sprintf("code %d signal %d timeout %v stopped %v started %v", e.Code, e.Signal, e.TimedOut, e.Stopped, e.Unstarted == nil)
}

// yearly is a schedule whose next tick is far away.
type yearly struct{}

func (yearly) Next(t time.Time) time.Time { return t.AddDate(1, 0, 0).Truncate(time.Minute) }

// write has a command run under that plan, and looks at what is written of it.
func (d *diary) write(t *testing.T, plan Plan, words string, want ...string) {
	t.Helper()
	d.list = make(chan string, 100)
	plan.Schedule, plan.Log = schedule.Schedule{Ticks: yearly{}}, d
	f := newFactory(t)
	s := lead(t, f, func(c *Config) { c.Plan = &plan }, f.argv(words)...)
	for _, w := range append(want, "waits") {
		select {
		case got := <-d.list:
			if got != w {
				t.Errorf("%q, want %q", got, w)
			}
		case <-time.After(long):
			t.Fatalf("no %q", w)
		}
	}
	s.cancel(nil)
	if err := s.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	for close(d.list); ; {
		got, more := <-d.list
		if !more {
			return
		}
		t.Errorf("then %q", got)
	}
}

// A run that fails is begun again as often as the plan says, and then no more.
func TestARunIsRetried(t *testing.T) {
	t.Parallel()
	const failed = "code 3 signal 0 timeout false stopped false started true"
	new(diary).write(t, Plan{Retries: 2}, "exit=3", "try 1", failed, "try 2", failed, "try 3", failed)
}

func TestARunThatEndsWellIsNotRetried(t *testing.T) {
	t.Parallel()
	new(diary).write(t, Plan{Retries: 2}, "exit=0", "try 1", "code 0 signal 0 timeout false stopped false started true")
}

// A run that lasts too long is stopped, and has failed, whatever its exit code.
func TestARunEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	const late = "code 0 signal 0 timeout true stopped false started true"
	new(diary).write(t, Plan{Retries: 1, Timeout: 3 * lease}, "", "try 1", late, "try 2", late)
}

func TestAPlanNeedsRoomToTellOfItsTicks(t *testing.T) {
	meta := map[string]string{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"} {
		meta[key] = ""
	}
	if err := (&Plan{Meta: meta}).Check(); err == nil {
		t.Error("16 pairs, and a tick beside them")
	}
	delete(meta, "p")
	if err := (&Plan{Meta: meta}).Check(); err != nil || len(meta) != 15 {
		t.Errorf("15 pairs: %v; %d are left", err, len(meta))
	}
}

func TestATickFarAheadIsNotBelieved(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	told := func(tick string) batuta.MemberStatus {
		return batuta.MemberStatus{Meta: map[string]string{TickKey: tick}}
	}
	got := schedule.LastTick([]batuta.MemberStatus{told(now.Format(time.RFC3339)), told(now.Add(2 * time.Hour).Format(time.RFC3339)), told("x"), {}}, TickKey)
	if !got.Equal(now) {
		t.Errorf("got %s, want %s", got, now)
	}
}
