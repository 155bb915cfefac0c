package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
)

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	records := map[string]record{
		"a": {by: markOf("2"), began: 1_795_000_000, took: 1500 * time.Millisecond, exit: 143, state: timedOut, tries: 3, late: true, missed: 12},
		"b": {by: markOf("1"), began: 1_795_000_060, state: running, tries: 1, byHand: true, missed: maxMissed},
		"c": {by: markOf("1"), missed: 1},
	}
	value := ""
	for name, r := range records {
		value += r.text(markOf(name))
	}
	if len(value) != 3*recordSize || !election.Printable(value, len(value)) {
		t.Errorf("%q", value)
	}
	for name, r := range records {
		got, ok := recordIn(value, markOf(name))
		if got.took = got.took.Round(100 * time.Millisecond); !ok || got != r {
			t.Errorf("%s: %+v, want %+v", name, got, r)
		}
	}
	for _, strange := range []string{"", "x", value[:recordSize-1], strings.Repeat("?", 40), markOf("z") + strings.Repeat("=", 16)} {
		if got, ok := recordIn(strange, markOf("z")); ok {
			t.Errorf("%q is %+v", strange, got)
		}
	}
	if got, ok := recordIn(strings.Repeat("/", 2*recordSize), "////"); ok {
		t.Errorf("a record of characters that are not published: %+v", got)
	}
}

func TestTimesOfRuns(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 127 * time.Millisecond, 128 * time.Millisecond, 255 * time.Millisecond, 256 * time.Millisecond, time.Second, time.Hour, 400 * 24 * time.Hour} {
		if got := unpackTime(packTime(d)); got > d || got < d-d/128-time.Millisecond {
			t.Errorf("%v is %v", d, got)
		}
	}
	if got := unpackTime(packTime(1 << 62)); got < 4*366*24*time.Hour {
		t.Errorf("a very long time is %v", got)
	}
}

// What does not fit beside the ticks, which decide what runs, is left out: the oldest records.
func TestTicksComeBeforeRecords(t *testing.T) {
	k := &ticks{meta: map[string]string{"url": strings.Repeat("x", 300)}, own: map[string]time.Time{}, runs: map[string]record{}}
	for i := range 60 {
		mark := markOf(strings.Repeat("j", i+1))
		k.own[mark] = time.Unix(int64(i)*60, 0)
		k.runs[mark] = record{by: markOf("1"), began: int64(i), state: ended}
	}
	pairs := k.pairs()
	if err := election.CheckMeta(pairs); err != nil || len(pairs[TicksKey]) != 60*entrySize {
		t.Fatalf("%v; %d bytes of ticks", err, len(pairs[TicksKey]))
	}
	if r, ok := recordIn(pairs[RunsKey], markOf(strings.Repeat("j", 60))); !ok || r.began != 59 {
		t.Errorf("the last run is left out, of %d bytes", len(pairs[RunsKey]))
	}
	for i := range election.MaxMetaPairs - 2 {
		k.meta[string(rune('a'+i))] = ""
	}
	if err := election.CheckMeta(k.pairs()); err != nil {
		t.Errorf("a key more than there may be: %v", err)
	}
}

func TestTheLastRunIsTheLatestOfAll(t *testing.T) {
	mark, now := markOf("a"), time.Now().Unix()
	published := func(r record) batuta.MemberStatus {
		return batuta.MemberStatus{Meta: map[string]string{RunsKey: r.text(mark)}}
	}
	first := record{by: markOf("1"), began: now - 60, state: running, tries: 1}
	over := first
	over.state = ended
	ahead := record{by: markOf("3"), began: now + 7200, state: ended, tries: 1}
	if got := lastRecord([]batuta.MemberStatus{published(over), published(first), published(ahead), {}}, mark, record{}); got.state != ended || got.began != first.began {
		t.Errorf("%+v", got)
	}
	second := record{by: markOf("2"), began: now, state: running, tries: 1}
	if got := lastRecord([]batuta.MemberStatus{published(over), published(second)}, mark, first); got.by != second.by {
		t.Errorf("%+v", got)
	}
}
