package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/work/run"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// Book is a member's view of the jobs of its cluster, from the metadata of all members. It
// implements [joblist.Book]. Its methods may be called from any goroutine.
type Book struct {
	ticks
	lines    []Line              // of jobs; ticks.mu guards them
	journals map[string]*journal // by mark; ticks.mu guards them
	self     *batuta.Node
}

// NewBook makes an empty book. [Book.Begin] must be called before it is used.
func NewBook() *Book {
	return &Book{ticks: ticks{own: map[string]time.Time{}, runs: map[string]record{}, orders: map[string]order{}}, journals: map[string]*journal{}}
}

// Begin makes the book that of node, which also publishes meta.
func (b *Book) Begin(node *batuta.Node, meta map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.node, b.self, b.meta = node, node, meta
	go b.follow()
}

// write replaces the lines.
func (b *Book) write(lines []Line) {
	var names []string
	for _, l := range lines {
		names = append(names, l.Name)
	}
	b.keep(names)
	b.mu.Lock()
	maps.DeleteFunc(b.journals, func(_ string, j *journal) bool { return !slices.Contains(names, j.name) })
	b.lines = slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return l.Plan == nil })
	b.mu.Unlock()
	b.obey() // for orders that were published before
}

// Jobs implements [joblist.Book].
func (b *Book) Jobs(ctx context.Context) ([]joblist.Job, error) {
	lines, status, err := b.known(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]joblist.Job, 0, len(lines))
	for _, l := range lines {
		list = append(list, b.job(l, status))
	}
	return list, nil
}

// known returns the jobs that this member knows by name: those of its own file, and elections for
// which members publish ticks.
func (b *Book) known(ctx context.Context) (lines []Line, status batuta.Status, err error) {
	b.mu.Lock()
	lines = slices.Clone(b.lines)
	b.mu.Unlock()
	if status, err = b.self.Status(ctx); err != nil {
		return nil, status, err
	}
	marks := map[string]bool{}
	for _, m := range status.Members {
		for value := m.Meta[TicksKey]; len(value) >= entrySize; value = value[entrySize:] {
			marks[value[:markSize]] = true
		}
	}
	for _, l := range lines {
		delete(marks, markOf(l.Name))
	}
	if len(marks) > 0 { // else no election has a mark that is to be found
		for _, v := range b.self.ListElections() {
			if mark := markOf(v.Election); marks[mark] {
				delete(marks, mark)
				lines = append(lines, Line{Name: v.Election})
			}
		}
	}
	slices.SortFunc(lines, func(a, b Line) int { return strings.Compare(a.Name, b.Name) })
	return lines, status, nil
}

// job returns what is known of a job.
func (b *Book) job(l Line, status batuta.Status) joblist.Job {
	mark := markOf(l.Name)
	b.mu.Lock()
	r, last := b.runs[mark], b.own[mark]
	orders := map[string]order{mark: b.orders[mark]}
	b.mu.Unlock()
	j := joblist.Job{Name: l.Name, Schedule: l.Spec}
	for _, m := range status.Members {
		last = schedule.LaterTick(last, toldTick(m.Meta[TicksKey], mark))
		ordersIn(m.Meta[OrdersKey], orders)
	}
	j.Paused = orders[mark].paused()
	if v := b.self.Election(l.Name).Leader(); v.Defined() {
		j.Leader = new(string(v.Token.Leader.ID))
	}
	if now := time.Now().UTC(); l.Plan != nil && !j.Paused {
		if next := l.Plan.Schedule.Next(slices.MaxFunc([]time.Time{now, last}, time.Time.Compare)); !next.IsZero() {
			j.Next = &next
		}
	}
	r = lastRecord(status.Members, mark, r)
	j.Missed = r.missed
	if r.state != none {
		r.describe(&j, status.Members)
	}
	return j
}

// describe fills in the run of a listing.
func (r record) describe(j *joblist.Job, members []batuta.MemberStatus) {
	j.Last, j.Tries, j.Late, j.ByHand = new(time.Unix(r.began, 0).UTC()), r.tries, r.late, r.byHand
	lives := false
	for _, m := range members {
		if markOf(string(m.ID)) == r.by {
			j.By, lives = new(string(m.ID)), m.State == batuta.StateUp
		}
	}
	result := joblist.OK
	switch {
	case r.state == running && lives && (j.Leader == nil || *j.Leader == *j.By):
		j.Result = new(joblist.Running)
		return
	case r.state == running:
		j.Result = new(joblist.Lost)
		return
	case r.state == stopped:
		result = joblist.Stopped
	case r.state == timedOut:
		result = joblist.Timeout
	case r.state == unstarted, r.exit != 0:
		result = joblist.Failed
	}
	j.Result, j.Took = &result, new(r.took.Seconds())
	if r.state == ended || r.state == timedOut {
		j.Exit = new(int(r.exit))
	}
}

// journal is the part of a book about a job, on the member that leads the job. A single goroutine
// calls it.
type journal struct {
	tickLog
	book   *Book
	name   string
	wake   chan struct{} // an order may have arrived
	tick   time.Time     // the last that was published
	byHand bool          // the next run was requested
}

// journal returns the journal of a job, which replaces its last journal.
func (b *Book) journal(name string) *journal {
	j := &journal{tickLog: tickLog{&b.ticks, markOf(name)}, book: b, name: name, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journals[j.mark] = j
	return j
}

// Known implements [run.TickLog]. It takes over the last published run, and the orders.
func (j *journal) Known() time.Time {
	last := j.tickLog.Known()
	j.book.obey()
	status, _ := j.book.self.Status(context.Background())
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := lastRecord(status.Members, j.mark, j.runs[j.mark]); r != (record{}) {
		j.runs[j.mark] = r
	}
	return last
}

// Publish implements [run.TickLog].
func (j *journal) Publish(ctx context.Context, tick time.Time) error {
	j.tick, j.byHand = tick, false
	return j.tickLog.Publish(ctx, tick)
}

// Changed implements [schedule.Watcher].
func (j *journal) Changed() <-chan struct{} { return j.wake }

// Paused implements [schedule.Watcher].
func (j *journal) Paused() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.orders[j.mark].paused()
}

// Asked implements [schedule.Watcher]. It publishes the run to all members before the run begins.
// If ctx ends meanwhile the run does not begin here, and is requested from the next leader.
func (j *journal) Asked(ctx context.Context) bool {
	j.mu.Lock()
	o := j.orders[j.mark]
	j.mu.Unlock()
	if o.asked <= o.begun {
		return false
	}
	o.begun = o.asked
	j.byHand = j.book.keepOrders(ctx, map[string]order{j.mark: o}) == nil
	if !j.byHand && ctx.Err() != nil && o.asked < maxCount {
		o.asked++
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
		defer cancel()
		_ = j.book.keepOrders(rest, map[string]order{j.mark: o}) // a node that has ended publishes nothing more
	}
	return j.byHand
}

// Missed implements [schedule.Watcher].
func (j *journal) Missed(n int) {
	j.note(func(r *record) { r.missed, r.by = min(r.missed+n, maxMissed), cmp.Or(r.by, j.self()) })
}

func (j *journal) self() string { return markOf(string(j.book.self.ID())) }

// Began implements [run.Journal].
func (j *journal) Began(try int) {
	j.note(func(r *record) {
		if try == 1 {
			now := time.Now()
			*r = record{by: j.self(), began: now.Unix(), missed: r.missed, late: !j.byHand && now.Sub(j.tick) > schedule.TooLate, byHand: j.byHand}
		}
		r.state, r.tries = running, try
	})
}

// Ended implements [run.Journal].
func (j *journal) Ended(e run.Ending) {
	j.note(func(r *record) {
		r.took, r.exit, r.state = e.Took, uint8(e.Code), ended
		switch {
		case e.Unstarted != nil:
			r.state = unstarted
		case e.Stopped:
			r.state = stopped
		case e.TimedOut:
			r.state = timedOut
		}
		if e.Signal != 0 {
			r.exit = 128 + uint8(e.Signal)
		}
	})
}

// note changes the record of the job, and publishes it. A node that has ended publishes nothing.
func (j *journal) note(change func(*record)) {
	ctx, cancel := context.WithTimeout(context.Background(), publishTime)
	defer cancel()
	_ = j.publish(ctx, func() {
		r := j.runs[j.mark]
		change(&r)
		j.runs[j.mark] = r
	})
}

// publishTime bounds how long publishing may delay a run.
const publishTime = time.Second

var (
	_ run.Journal  = (*journal)(nil)
	_ joblist.Book = (*Book)(nil)
)
