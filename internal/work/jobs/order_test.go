package jobs

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/work/run"
)

func TestOrdersAreReadAsTheyWereWritten(t *testing.T) {
	want := order{pauses: maxCount, asked: 17, begun: 16}
	value := order{pauses: 1}.text(markOf("b")) + want.text(markOf("a"))
	all := map[string]order{markOf("a"): {}, markOf("c"): {asked: 2}}
	for _, v := range []string{value, "", "x", value[:len(value)-1], "????????" + value, markOf("a") + "=*=*=*=*="} {
		ordersIn(v, all)
	}
	if len(all) != 2 || all[markOf("a")] != want || all[markOf("c")] != (order{asked: 2}) || len(value) != 2*orderSize || !election.Printable(value, len(value)) {
		t.Errorf("%+v of %q", all, value)
	}
}

// booked is the book of a member with a job that it does not run.
func booked(node *batuta.Node, names ...string) *Book {
	b := NewBook()
	b.Begin(node, nil)
	var lines []Line
	for _, name := range names {
		lines = append(lines, Line{Name: name, Plan: &run.Plan{}})
	}
	b.write(lines)
	return b
}

// A scrape of the metrics asks for the jobs. With none of other members, the elections are not looked through for them.
func TestJobsAreNotLookedForInElectionsWithoutTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 1)
		c.StartAll()
		c.Agree("1")
		const names = 1000
		n, elections := c.Node("1"), make([]*batuta.Election, names)
		for i := range elections {
			elections[i] = n.Election("shard-" + strconv.Itoa(i))
		}
		go n.LeadEach(t.Context(), elections, func(ctx context.Context, _ batuta.Leadership) error {
			<-ctx.Done()
			return nil
		})
		b := booked(n)
		time.Sleep(time.Second)
		if known := len(n.ListElections()); known != names {
			t.Fatalf("%d elections, want %d", known, names)
		}
		made := testing.AllocsPerRun(3, func() {
			if list, err := b.Jobs(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
		})
		if made >= names {
			t.Errorf("a list of no job takes %v allocations with %d elections", made, names)
		}
	})
}

// An order is kept by the members that have the job, whoever was asked, and each learns of it.
func TestOrdersOutliveTheMemberThatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		books := map[batuta.ID]*Book{}
		for _, id := range []batuta.ID{"1", "2", "3"} {
			books[id] = booked(c.Node(id), "a")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		mark := markOf("a")
		if err := books["3"].keepOrders(ctx, map[string]order{mark: {pauses: 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.Kill("3")
		c.Start("3")
		time.Sleep(time.Second)
		books["3"] = booked(c.Node("3"), "a")
		time.Sleep(time.Second)
		for id, b := range books {
			b.mu.Lock()
			if !b.orders[mark].paused() {
				t.Errorf("member %s has not kept the pause", id)
			}
			b.mu.Unlock()
		}
	})
}

func TestAnOrderThatDoesNotFitIsRefused(t *testing.T) {
	b := NewBook()
	b.meta = map[string]string{"url": strings.Repeat("x", election.MaxMetaBytes-3-len(TicksKey)-entrySize)}
	b.write([]Line{{Name: "a", Plan: &run.Plan{}}})
	if err := b.room(markOf("a")); err == nil || !strings.Contains(err.Error(), joblist.ErrRefused.Error()) || !strings.Contains(err.Error(), "shorten --meta") {
		t.Errorf("room: %v", err)
	}
	delete(b.meta, "url")
	if err := b.room(markOf("a")); err != nil {
		t.Error(err)
	}
}

// What a client publishes by the API stands beside what the member publishes of its jobs.
func TestMetadataOfClientsStandsBesideThatOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 1)
		c.StartAll()
		c.Agree("1")
		b := booked(c.Node("1"), "a")
		b.meta = map[string]string{"zone": "b", "batuta.http": "http://10.0.0.1:7500"}
		if err := (tickLog{&b.ticks, markOf("a")}).Publish(t.Context(), time.Unix(60, 0)); err != nil {
			t.Fatal(err)
		}
		n := Node{c.Node("1"), b}
		for _, pairs := range []map[string]string{{"0": ""}, {"url": strings.Repeat("x", election.MaxMetaBytes-4)}} {
			if err := n.SetMeta(t.Context(), pairs); err == nil {
				t.Errorf("%.20v is published", pairs)
			}
		}
		if err := n.SetMeta(t.Context(), map[string]string{"url": "x"}); err != nil {
			t.Fatal(err)
		}
		status, _ := n.Status(t.Context())
		if meta := status.Members[0].Meta; len(meta) != 3 || meta["url"] != "x" || meta["batuta.http"] == "" || toldTick(meta[TicksKey], markOf("a")).IsZero() {
			t.Errorf("%q", meta)
		}
		if err := n.SetMeta(t.Context(), map[string]string{"batuta.http": ""}); err != nil {
			t.Fatal(err)
		}
		status, _ = n.Status(t.Context())
		if meta := status.Members[0].Meta; len(meta) != 1 || meta[TicksKey] == "" {
			t.Errorf("%q: an empty value does not remove a key of batuta's", meta)
		}
	})
}

// A leader that is lost while it publishes that a requested run begins leaves the request to the next.
func TestARequestIsNotLostWithItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		last, next := booked(c.Node("3"), "a"), booked(c.Node("2"), "a")
		if err := last.keepOrders(t.Context(), map[string]order{markOf("a"): {asked: 1}}); err != nil {
			t.Fatal(err)
		}
		lost, lose := context.WithCancel(t.Context())
		lose()
		if last.journal("a").Asked(lost) {
			t.Fatal("a run begins after its leadership has ended")
		}
		time.Sleep(time.Second)
		if j := next.journal("a"); !j.Asked(t.Context()) || j.Asked(t.Context()) {
			t.Error("the next leader does not begin the run once")
		}
	})
}
