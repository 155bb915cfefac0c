package jobs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

const (
	markSize  = 4 // base64 characters of 24 bits
	tickSize  = 5 // of 30 bits: minutes since 1970
	entrySize = markSize + tickSize
)

// markOf returns the mark of a job in metadata.
func markOf(name string) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	sum := h.Sum64()
	return encode(uint32(sum^sum>>24^sum>>48)&(1<<24-1), markSize)
}

func encode(n uint32, size int) string {
	bits := uint64(n) << (64 - 6*size)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, bits))[:size]
}

// decode returns the number that encode wrote in the first size characters.
func decode(text string, size int) (n uint32, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString((text[:size] + "AAAAAAAA")[:8])
	if err != nil {
		return 0, false
	}
	return uint32(binary.BigEndian.Uint64(append([]byte{0, 0}, raw...)) >> (48 - 6*size)), true
}

// toldTick returns the tick of a mark in a value of [TicksKey]; zero: it has none.
func toldTick(list, mark string) time.Time {
	for ; len(list) >= entrySize; list = list[entrySize:] {
		if list[:markSize] != mark {
			continue
		}
		if n, ok := decode(list[markSize:entrySize], tickSize); ok {
			return time.Unix(int64(n)*60, 0).UTC()
		}
		break
	}
	return time.Time{}
}

// RunsKey is the metadata key of the last runs that a member has begun, or has taken over from
// the last leader of a job: the latest first, as many as there is room for.
const RunsKey = "batuta.runs"

// record is the last run of a job. It takes 20 characters: the mark of the job, the mark of the
// member, and 72 bits.
type record struct {
	by     string // mark of the member
	began  int64  // Unix seconds; 0: no run has begun
	took   time.Duration
	exit   uint8 // the exit code, or 128 and the signal
	state  state
	tries  int
	late   bool
	byHand bool
	missed int // scheduled times without a run
}

// state is the progress of a run.
type state uint8

const (
	none      state = iota
	running         // it has not ended
	ended           // by itself
	stopped         // its member no longer led the job
	timedOut        // it took too long
	unstarted       // the command could not be started
)

const (
	recordSize = 2*markSize + 12
	maxMissed  = 1<<11 - 1
	maxTries   = 7
)

// newer reports whether r is a later record of the same job.
func (r record) newer(than record) bool {
	return cmp.Or(cmp.Compare(r.began, than.began), cmp.Compare(r.tries, than.tries),
		compareBool(r.state != running, than.state != running), cmp.Compare(r.missed, than.missed)) > 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// text returns the record of a job as members publish it.
func (r record) text(mark string) string {
	flags := uint64(r.state)<<5 | uint64(min(r.tries, maxTries))<<2 | bit(r.late)<<1 | bit(r.byHand)
	all := binary.BigEndian.AppendUint64(nil, uint64(uint32(r.began))<<32|packTime(r.took)<<20|uint64(r.exit)<<12|uint64(min(r.missed, maxMissed)))
	return mark + r.by + base64.RawURLEncoding.EncodeToString(append(all, byte(flags)))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// recordIn returns the record of a job in a value of [RunsKey]. false: it has none.
func recordIn(list, mark string) (r record, ok bool) {
	for ; len(list) >= recordSize; list = list[recordSize:] {
		if list[:markSize] != mark {
			continue
		}
		raw, err := base64.RawURLEncoding.DecodeString(list[2*markSize : recordSize])
		if err != nil {
			return r, false
		}
		n, flags := binary.BigEndian.Uint64(raw), raw[8]
		return record{by: list[markSize : 2*markSize], began: int64(n >> 32), took: unpackTime(n >> 20 & (1<<12 - 1)), exit: uint8(n >> 12), missed: int(n & maxMissed),
			state: state(flags >> 5), tries: int(flags >> 2 & maxTries), late: flags&2 != 0, byHand: flags&1 != 0}, true
	}
	return r, false
}

// packTime encodes up to eight years in 12 bits: milliseconds, exact to a part in 128.
func packTime(d time.Duration) uint64 {
	ms := uint64(max(d.Milliseconds(), 0))
	if ms < 128 {
		return ms
	}
	shift := min(bits.Len64(ms)-8, 30)
	return uint64(shift+1)<<7 | min(ms>>shift, 255)&127
}

func unpackTime(n uint64) time.Duration {
	if n < 128 {
		return time.Duration(n) * time.Millisecond
	}
	return time.Duration((n&127|128)<<(n>>7-1)) * time.Millisecond
}

// lastRecord returns the latest record of a job in the metadata of members, or own.
func lastRecord(members []batuta.MemberStatus, mark string, own record) record {
	for _, m := range members {
		if r, ok := recordIn(m.Meta[RunsKey], mark); ok && r.newer(own) && time.Until(time.Unix(r.began, 0)) < schedule.FarAhead {
			own = r
		}
	}
	return own
}

// OrdersKey is the metadata key of users' requests for jobs. Each member with a job in its file
// publishes the latest order that it has received, so an order is kept as long as such a member
// runs.
const OrdersKey = "batuta.orders"

// order is users' requests for a job: three counters of 18 bits. The higher counter wins, so two
// sides of a partition agree once they reconnect. It takes 13 characters, including the mark of the
// job.
type order struct {
	pauses uint32 // odd: the job is paused
	asked  uint32 // runs that were requested
	begun  uint32 // the last of those that has begun
}

const (
	orderSize = markSize + 3*countSize
	countSize = 3
	maxCount  = 1<<(6*countSize) - 1
)

func (o order) paused() bool { return o.pauses%2 == 1 }

// with returns o and p merged.
func (o order) with(p order) order {
	return order{max(o.pauses, p.pauses), max(o.asked, p.asked), max(o.begun, p.begun)}
}

func (o order) text(mark string) string {
	return mark + encode(o.pauses, countSize) + encode(o.asked, countSize) + encode(o.begun, countSize)
}

// ordersIn adds the orders in a value of [OrdersKey] for jobs with a mark in all.
func ordersIn(list string, all map[string]order) {
	for ; len(list) >= orderSize; list = list[orderSize:] {
		mark, o := list[:markSize], order{}
		own, there := all[mark]
		for i, c := range []*uint32{&o.pauses, &o.asked, &o.begun} {
			n, ok := decode(list[markSize+countSize*i:], countSize)
			*c, there = n, there && ok
		}
		if there {
			all[mark] = own.with(o)
		}
	}
}

// TicksKey is the metadata key of the last ticks that a member has learned of, for many jobs: the
// mark and the tick of each, in nine characters.
const TicksKey = "batuta.ticks"

// ticks are the ticks of all jobs of a member.
type ticks struct {
	meta map[string]string // the rest of the member's metadata

	mu      sync.Mutex
	node    *batuta.Node         // nil: it has not begun
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
	for _, key := range []string{TicksKey, OrdersKey, RunsKey} {
		pairs[key] += "" // an empty value removes the one of before
	}
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
