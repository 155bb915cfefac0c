package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// done is a line of a leader's work: its token, and when it knew that it led.
type done struct {
	epoch uint64
	id    string
	at    int64
}

// workOf reads what the leaders of each election have written, in its order.
func workOf(t *testing.T, dir string, names int) map[string][]done {
	t.Helper()
	all := map[string][]done{}
	for i := range names {
		name := fmt.Sprintf("shard-%d", i)
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var d done
			if _, err := fmt.Sscanf(line, "%d %s %d\n", &d.epoch, &d.id, &d.at); err != nil {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
			all[name] = append(all[name], d)
		}
	}
	return all
}

// workEvery is how often a leader writes.
func workEvery() time.Duration { return fulltest.Size(250*time.Millisecond, 5*time.Second) }

// awaitWork is workOf as soon as the lines of every election are as wanted, or after a time.
func awaitWork(t *testing.T, dir string, names int, within time.Duration, wanted func([]done) bool) (all map[string][]done, ok bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(workEvery() / 5) {
		all = workOf(t, dir, names)
		ok = !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(lines []done) bool { return !wanted(lines) })
		if ok || time.Since(began) >= within {
			return all, ok
		}
	}
}

// lastWork is workOf once every leader has had the time to write after all was calm: one that
// had to give way may have had the last word until then.
func lastWork(t *testing.T, dir string, names int) map[string][]done {
	t.Helper()
	all, _ := awaitWork(t, dir, names, 3*workEvery(), func(lines []done) bool { return !overtaken(lines) })
	return all
}

// presentWork is workOf once every leader has written since: what was written before may be an earlier leader's.
func presentWork(t *testing.T, dir string, names int) map[string][]done {
	t.Helper()
	since, within := time.Now().UnixNano(), agreeWithin+workEvery()
	written := func(lines []done) bool {
		return slices.ContainsFunc(lines, func(d done) bool { return d.at > since })
	}
	all, ok := awaitWork(t, dir, names, within, written)
	if !ok {
		maps.DeleteFunc(all, func(_ string, lines []done) bool { return written(lines) })
		for name, lines := range all {
			t.Logf("%s: no leader has written within %v; the last lines: %+v", name, within, lines[max(0, len(lines)-3):])
		}
		t.Fatalf("of %d leaders %d have not written within %v", names, len(all), within)
	}
	return all
}

// overtaken reports whether the last to write had a lower token than another.
func overtaken(lines []done) bool {
	latest := slices.MaxFunc(lines, func(a, b done) int { return cmp.Compare(a.at, b.at) })
	return slices.ContainsFunc(lines, func(d done) bool { return d.epoch > latest.epoch })
}

// checkWork looks at one election's file. alone: its leaderships never overlap.
func checkWork(t *testing.T, name string, lines []done, alone bool) {
	t.Helper()
	byTime := slices.SortedFunc(slices.Values(lines), func(a, b done) int { return cmp.Compare(a.at, b.at) })
	own := map[string]uint64{}
	top := lines[0]
	for _, d := range byTime {
		if d.epoch < own[d.id] {
			t.Errorf("%s: %s leads under %d after %d", name, d.id, d.epoch, own[d.id])
		}
		own[d.id] = d.epoch
		if alone && (d.epoch < top.epoch || d.epoch == top.epoch && d.id != top.id) {
			t.Errorf("%s: %s leads under %d after %s has under %d", name, d.id, d.epoch, top.id, top.epoch)
		}
		if d.epoch > top.epoch {
			top = d
		}
	}
	if last := byTime[len(byTime)-1]; last.epoch != top.epoch {
		t.Errorf("%s: in the end %s leads under %d, and %s has led under %d", name, last.id, last.epoch, top.id, top.epoch)
	}
}

// Members with many elections and work that leaves its traces are killed, frozen and drained,
// and their coordinator too. Tokens rise; under a quorum no two leaders work for a name at a
// time; and where the coordinator dies the others' work goes on.
func TestWorkOfManyElections(t *testing.T) {
	fulltest.Parallel(t)
	for _, algorithm := range fulltest.Size([]string{"bully"}, []string{"bully", "quorum"}) {
		t.Run(algorithm, func(t *testing.T) {
			names, dir, dataDir := fulltest.Size(100, 10000), stalltest.Dir(t), ""
			if algorithm == "quorum" {
				dataDir = filepath.Join(stalltest.Dir(t), "data")
			}
			c := prepareCluster(t, dataDir, 5, "--algorithm", algorithm, "--names", fmt.Sprint(names), "--work", dir, "--work-every", workEvery().String())
			c.command = []string{"bench", "member"}
			b := &electionsBench{benchCluster: benchCluster{nodes: 5, algorithm: algorithm, cluster: c}, elections: names, breath: 300 * time.Millisecond}
			if err := c.startAll(); err != nil {
				t.Fatal(err)
			}
			calm(t, b)
			first, second, coordinator := c.members[0], c.members[1], c.members[4]
			mustCrash(t, c, first)
			led(t, b, first)
			mustStart(t, c, first)
			watch := stalltest.Start(t)
			calm(t, b)

			began := time.Now().Add(-time.Second) // what a stall takes from a leader it may yet have to notice
			before, epoch := presentWork(t, dir, names), second.epoch
			mustCrash(t, c, coordinator)
			led(t, b, coordinator)
			stall, more := watch.Longest(began, time.Now()), second.epoch-epoch-1
			switch {
			case algorithm != "bully":
			case stall < 100*time.Millisecond && more == 0:
				wentOn(t, before, workOf(t, dir, names), coordinator.id)
			default: // members missed each other, too: nothing can be said of one that dies
				t.Logf("the machine stalled for %v, and %d more coordinators than the next one followed", stall, more)
			}
			mustStart(t, c, coordinator)
			calm(t, b)

			if _, err := c.freeze(second); err != nil {
				t.Fatal(err)
			}
			led(t, b, second)
			if err := c.thaw(second); err != nil {
				t.Fatal(err)
			}
			calm(t, b)
			mustDrain(t, b, first)
			calm(t, b)
			for name, lines := range lastWork(t, dir, names) {
				checkWork(t, name, lines, algorithm == "quorum")
			}
		})
	}
}

// mustDrain drains m. Where a busy machine has the coordinator change meanwhile, who asks is told
// to try again.
func mustDrain(t *testing.T, b *electionsBench, m *member) {
	t.Helper()
	for tries := 3; ; tries-- {
		_, err := b.drained(t.Context(), m)
		switch {
		case err == nil:
			return
		case tries == 1 || !strings.HasSuffix(err.Error(), "try again"):
			t.Fatal(err)
		}
		t.Log(err)
		calm(t, b)
	}
}

func calm(t *testing.T, b *electionsBench) {
	t.Helper()
	if err := b.calm(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func led(t *testing.T, b *electionsBench, not *member) {
	t.Helper()
	if _, err := b.led(t.Context(), time.Time{}, not); err != nil {
		t.Fatal(err)
	}
}

// wentOn checks that a name changes its leadership only if its leader is the member that was lost.
func wentOn(t *testing.T, before, after map[string][]done, gone string) {
	t.Helper()
	var changed []string
	for name, lines := range before {
		was, is := lines[len(lines)-1], after[name][len(after[name])-1]
		if was.id != gone && was.epoch != is.epoch {
			changed = append(changed, fmt.Sprintf("%s: %s led under %d and lives, and %s leads under %d", name, was.id, was.epoch, is.id, is.epoch))
		}
	}
	if len(changed) > 0 {
		t.Errorf("%d names of %d changed their leadership: %q", len(changed), len(before), changed[:min(len(changed), 5)])
	}
}

// Two of five machines are cut off from the others for a while, and join them again. Under a
// quorum the three lead all, and no two leaders ever work for a name at a time; with best effort
// each side does. Once they have met, each name has one leader, under the highest token of all.
func TestWorkOfManyElectionsAcrossAPartition(t *testing.T) {
	fulltest.Parallel(t)
	for _, algorithm := range fulltest.Size([]string{"quorum"}, []string{"bully", "quorum"}) {
		t.Run(algorithm, func(t *testing.T) {
			names, dir := fulltest.Size(100, 10000), stalltest.Dir(t)
			l := newLAN(t, 5)
			l.runs = []string{"bench", "member"}
			flags := append(everyone(5), "--algorithm", algorithm, "--names", fmt.Sprint(names), "--work", dir, "--work-every", workEvery().String())
			for i := 1; i <= 5; i++ {
				l.boot(i, fmt.Sprint(i), flags...)
			}
			b := &electionsBench{benchCluster: benchCluster{nodes: 5, algorithm: algorithm, cluster: l.cluster}, elections: names, breath: 300 * time.Millisecond}
			calm(t, b)
			near, far := l.members[2:], l.members[:2]
			l.part(1, 2)
			among(t, b, near, names)
			among(t, b, far, map[string]int{"bully": names, "quorum": 0}[algorithm])
			l.heal()
			calm(t, b)
			for name, lines := range lastWork(t, dir, names) {
				checkWork(t, name, lines, algorithm == "quorum")
			}
		})
	}
}

// among waits until those members lead that many elections among themselves, as each sees it,
// and work for them; 0: that they see none led and work for none.
func among(t *testing.T, b *electionsBench, ms []*member, names int) {
	t.Helper()
	err := b.until(t.Context(), "is led by one side", func() bool {
		working := 0
		for _, m := range ms {
			led := 0
			for _, other := range ms {
				led += m.spread.By[batuta.ID(other.id)]
			}
			if names > 0 && led != names || m.spread.Led != names {
				return false
			}
			working += m.spread.Working
		}
		return working == names
	})
	if err != nil {
		t.Fatal(err)
	}
}
