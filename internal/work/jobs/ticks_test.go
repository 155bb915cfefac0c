package jobs

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

func TestTicksAreToldAsTheyAre(t *testing.T) {
	at := time.Date(2026, 11, 22, 5, 17, 0, 0, time.UTC)
	k := &ticks{own: map[string]time.Time{}}
	for i, name := range []string{"a", "b", "shard-17", "é"} {
		k.own[markOf(name)] = at.Add(time.Duration(i) * 31 * 24 * time.Hour)
	}
	value := k.value()
	for name, tick := range map[string]time.Time{"a": at, "shard-17": at.Add(62 * 24 * time.Hour), "c": {}} {
		if got := toldTick(value, markOf(name)); !got.Equal(tick) {
			t.Errorf("%s: %v, want %v", name, got, tick)
		}
	}
	k.keep([]string{"b"})
	if got := slices.Collect(maps.Keys(k.own)); !slices.Equal(got, []string{markOf("b")}) {
		t.Errorf("%q are kept", got)
	}
	for _, strange := range []string{"", "x", value[:len(value)-1], "????????" + value} { // of whoever tells what
		toldTick(strange, markOf("é"))
	}
	if got := toldTick(markOf("a")+"=*=*=", markOf("a")); !got.IsZero() {
		t.Errorf("what is no tick is %v", got)
	}
}

// runs is what members have run, for which tick.
type runs struct {
	mu   sync.Mutex
	list map[string][]string // by job
}

// minutely has a tick every minute.
type minutely struct{}

// Next implements [schedule.Ticks].
func (minutely) Next(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

// follow has a member note what it would run of a job each minute.
func (r *runs) follow(t *testing.T, k *ticks, node *batuta.Node, job string) {
	log := tickLog{k, markOf(job)}
	ticker := &schedule.Ticker{Schedule: schedule.Schedule{Ticks: minutely{}}, Known: log.Known, Publish: func(ctx context.Context, tick time.Time) { log.Publish(ctx, tick) }}
	go node.Election(job).Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error {
		for {
			tick, err := ticker.Await(ctx)
			if err != nil {
				return nil
			}
			r.mu.Lock()
			r.list[job] = append(r.list[job], tick.Format("15:04"))
			r.mu.Unlock()
			time.Sleep(time.Second)
		}
	})
}

// Each tick of each job runs once, whoever leads it: also one that falls due while its leader
// has vanished and nobody has noticed yet.
func TestEachTickOfEachJobRunsOnceAcrossFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Now()
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		r := runs{list: map[string][]string{}}
		want := map[string][]string{}
		for _, id := range []batuta.ID{"1", "2", "3"} {
			k := &ticks{node: c.Node(id), own: map[string]time.Time{}}
			for _, job := range []string{"a", "b", "c", "d", "e", "f"} {
				r.follow(t, k, c.Node(id), job)
				want[job] = []string{"00:01", "00:02", "00:03", "00:04"}
			}
		}
		until := func(d time.Duration) { time.Sleep(time.Until(midnight.Add(d))) }
		until(90 * time.Second)
		c.Kill("3") // seen at once
		until(3*time.Minute - 100*time.Millisecond)
		c.PowerOff("2") // what it led misses the tick at 00:03
		until(4*time.Minute + 30*time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !maps.EqualFunc(r.list, want, slices.Equal) {
			t.Errorf("%q, want %q", r.list, want)
		}
	})
}
