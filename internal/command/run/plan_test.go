package run

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/internal/command/schedule"
)

// runs is what members have run, and for which tick.
type runs struct {
	mu   sync.Mutex
	list []string
}

// follow has a member note what it would run, and when.
func (r *runs) follow(t *testing.T, node *batuta.Node, spec string) {
	ticks, err := schedule.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	runner := &Runner{cfg: Config{Plan: &Plan{Schedule: ticks}, Logger: slog.New(slog.DiscardHandler)}}
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
			r.follow(t, c.Node(id), "* * * * *")
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
	s := lead(t, f, func(c *Config) { c.Plan = &Plan{Schedule: schedule.Of(often{})} }, f.argv("exit=1")...)
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
	got := lastTick([]batuta.MemberStatus{told(now.Format(time.RFC3339)), told(now.Add(2 * time.Hour).Format(time.RFC3339)), told("x"), {}})
	if !got.Equal(now) {
		t.Errorf("got %s, want %s", got, now)
	}
}
