package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/command/run"
	"github.com/batuta-dev/batuta/internal/command/schedule"
)

// TicksKey is the metadata key of the last ticks that a member has learned of, for many jobs: the
// mark and the tick of each, in nine characters.
const TicksKey = "batuta.ticks"

// ticks are the ticks of all jobs of a member.
type ticks struct {
	meta map[string]string // the rest of the member's metadata

	mu      sync.Mutex
	node    run.Teller           // nil: it has not begun
	own     map[string]time.Time // by mark
	runs    map[string]record    // by mark
	orders  map[string]order     // by mark
	version int                  // counts their changes

	telling sync.Mutex
	told    int // the version that was published last
}

// checkTicks reports whether a member's metadata has room for that many jobs.
func checkTicks(meta map[string]string, jobs int) error {
	return election.CheckMeta(with(meta, strings.Repeat("A", entrySize*jobs)))
}

func with(meta map[string]string, value string) map[string]string {
	all := map[string]string{TicksKey: value}
	maps.Copy(all, meta)
	return all
}

// keep removes all jobs except those.
func (t *ticks) keep(names []string) {
	marks := map[string]bool{}
	for _, name := range names {
		marks[markOf(name)] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	keepOnly(t.own, marks)
	keepOnly(t.runs, marks)
	keepOnly(t.orders, marks)
}

func keepOnly[V any](of map[string]V, marks map[string]bool) {
	maps.DeleteFunc(of, func(mark string, _ V) bool { return !marks[mark] })
}

// tickLog is the part of ticks for a single job.
type tickLog struct {
	*ticks
	mark string
}

// Known implements [run.TickLog].
func (l tickLog) Known() time.Time {
	l.mu.Lock()
	node, last := l.node, l.own[l.mark]
	l.mu.Unlock()
	status, _ := node.Status(context.Background())
	for _, m := range status.Members {
		last = schedule.LaterTick(last, toldTick(m.Meta[TicksKey], l.mark))
	}
	return last
}

// Publish implements [run.TickLog]. Ticks that fall due together are published together.
func (l tickLog) Publish(ctx context.Context, tick time.Time) error {
	return l.publish(ctx, func() { l.own[l.mark] = tick })
}

// publish changes what the member publishes, and publishes it.
func (t *ticks) publish(ctx context.Context, change func()) error {
	t.mu.Lock()
	change()
	t.version++
	version := t.version
	t.mu.Unlock()
	return t.send(ctx, version)
}

// send publishes the metadata unless that version is published already.
func (t *ticks) send(ctx context.Context, version int) error {
	t.telling.Lock()
	defer t.telling.Unlock()
	if t.told >= version {
		return nil
	}
	t.mu.Lock()
	node, version, pairs := t.node, t.version, t.pairs()
	t.mu.Unlock()
	err := node.SetMeta(ctx, pairs)
	if err == nil {
		t.told = version
	}
	return err
}

// pairs returns all metadata: the ticks, and as many orders, then records, as there is room for.
func (t *ticks) pairs() map[string]string {
	all := map[string]string{}
	maps.Copy(all, t.meta)
	if len(t.own) > 0 {
		all[TicksKey] = t.value()
	}
	fill(all, OrdersKey, orderSize, slices.Sorted(maps.Keys(t.orders)), func(mark string) string { return t.orders[mark].text(mark) })
	recent := slices.SortedFunc(maps.Keys(t.runs), func(a, b string) int { return cmp.Compare(t.runs[b].began, t.runs[a].began) })
	fill(all, RunsKey, recordSize, recent, func(mark string) string { return t.runs[mark].text(mark) })
	return all
}

// fill adds the first of those marks, as many as all has room for.
func fill(all map[string]string, key string, size int, marks []string, text func(mark string) string) {
	left := election.MaxMetaBytes - len(key)
	for key, value := range all {
		left -= len(key) + len(value)
	}
	var b strings.Builder
	for _, mark := range marks[:max(min(len(marks), left/size), 0)] {
		b.WriteString(text(mark))
	}
	if b.Len() > 0 && len(all) < election.MaxMetaPairs {
		all[key] = b.String()
	}
}

// value returns the value of [TicksKey].
func (t *ticks) value() string {
	var b strings.Builder
	for _, mark := range slices.Sorted(maps.Keys(t.own)) {
		b.WriteString(mark)
		b.WriteString(encode(uint32(t.own[mark].Unix()/60)&(1<<30-1), tickSize))
	}
	return b.String()
}

// Show prints a list of jobs for a user, as of now.
func Show(to io.Writer, list []joblist.Job, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "JOB\tLEADER\tNEXT\tLAST\tBY\tRESULT\tEXIT\tTOOK\tMISSED")
	for _, j := range list {
		next := "-"
		switch {
		case j.Paused:
			next = "paused"
		case j.Next != nil:
			next = "in " + round(j.Next.Sub(now))
		}
		last, result := "-", text(j.Result)
		if j.Last != nil {
			last = round(now.Sub(*j.Last)) + " ago"
		}
		if j.Tries > 1 {
			result += fmt.Sprintf(" (try %d)", j.Tries)
		}
		exit, took := "-", "-"
		if j.Exit != nil {
			exit = fmt.Sprint(*j.Exit)
		}
		if j.Took != nil {
			took = round(time.Duration(*j.Took * float64(time.Second)))
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", j.Name, text(j.Leader), next, last, text(j.By), result, exit, took, j.Missed)
	}
	return out.Flush()
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return cmp.Or(*s, "-")
}

// round returns a duration for a user.
func round(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
