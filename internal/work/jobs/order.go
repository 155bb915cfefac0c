package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/follow"
)

// follow receives the orders that members publish, until the node ends.
func (b *Book) follow() {
	for e, err := range follow.On(context.Background(), batuta.ErrBehind, b.self.Events) {
		if err != nil || e.Kind == batuta.EventMeta {
			b.obey()
		}
	}
}

// obey receives the orders that members publish, and publishes those that are new here.
func (b *Book) obey() {
	if b.self == nil {
		return
	}
	status, err := b.self.Status(context.Background())
	if err != nil {
		return
	}
	all := map[string]order{}
	b.mu.Lock()
	for _, l := range b.lines {
		all[markOf(l.Name)] = order{}
	}
	maps.Copy(all, b.orders)
	for _, m := range status.Members {
		ordersIn(m.Meta[OrdersKey], all)
	}
	maps.DeleteFunc(all, func(_ string, o order) bool { return o == order{} })
	news := !maps.Equal(all, b.orders)
	b.mu.Unlock()
	if news {
		b.keepOrders(context.Background(), all)
	}
}

// keepOrders adds orders and publishes them, and wakes the jobs that wait.
func (b *Book) keepOrders(ctx context.Context, all map[string]order) error {
	return b.publish(ctx, func() {
		for mark, o := range all {
			b.orders[mark] = b.orders[mark].with(o)
			if j := b.journals[mark]; j != nil {
				select {
				case j.wake <- struct{}{}:
				default: // it checks anyway
				}
			}
		}
	})
}

// room reports whether the orders fit in the metadata with the ticks of all jobs.
func (b *Book) room(mark string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := len(b.orders)
	if _, there := b.orders[mark]; !there {
		size++
	}
	all := with(b.meta, strings.Repeat("A", entrySize*max(len(b.lines), len(b.own))))
	all[OrdersKey] = strings.Repeat("A", orderSize*size)
	if err := election.CheckMeta(all); err != nil {
		return fmt.Errorf("%w: metadata is full: %w; shorten --meta, or split the file of jobs", joblist.ErrRefused, err)
	}
	return nil
}

// SetMeta replaces the metadata that the member publishes besides jobs.
func (b *Book) SetMeta(ctx context.Context, pairs map[string]string) error {
	b.mu.Lock()
	n, all := max(len(b.lines), len(b.own)), meta.OwnOf(b.meta)
	b.mu.Unlock()
	maps.Copy(all, pairs)
	if err := election.CheckMeta(all); err != nil {
		return err
	}
	if err := checkTicks(all, n); n > 0 && err != nil {
		return fmt.Errorf("besides the ticks of %d jobs: %w", n, err)
	}
	return b.publish(ctx, func() { b.meta = all })
}

// Node is a member that publishes its metadata together with its book's.
type Node struct {
	*batuta.Node
	Book *Book
}

// SetMeta is [Book.SetMeta].
func (n Node) SetMeta(ctx context.Context, pairs map[string]string) error {
	return n.Book.SetMeta(ctx, pairs)
}

// find returns the job of that name.
func (b *Book) find(ctx context.Context, name string) (joblist.Job, error) {
	lines, status, err := b.known(ctx)
	if err != nil {
		return joblist.Job{}, err
	}
	canonical, _ := named.Name(name)
	if i := slices.IndexFunc(lines, func(l Line) bool { return l.Name == canonical }); i >= 0 {
		return b.job(lines[i], status), nil
	}
	return joblist.Job{}, fmt.Errorf("job %q: %w", election.Shown(name), joblist.ErrUnknown)
}

// Pause implements [joblist.Book].
func (b *Book) Pause(ctx context.Context, name string, on bool) (joblist.Job, error) {
	return b.ask(ctx, name, func(o *order, _ joblist.Job) error {
		if o.paused() != on {
			o.pauses++
		}
		return nil
	}, func(want, there order) bool { return there.pauses >= want.pauses })
}

// Run implements [joblist.Book].
func (b *Book) Run(ctx context.Context, name string) (joblist.Job, error) {
	return b.ask(ctx, name, func(o *order, j joblist.Job) error {
		switch {
		case j.Leader == nil:
			return fmt.Errorf("job %q: %w", j.Name, joblist.ErrNoLeader)
		case j.Result != nil && *j.Result == joblist.Running:
			return fmt.Errorf("%w: job %q runs on %s already; wait for its end", joblist.ErrRefused, j.Name, *j.By)
		case o.asked <= o.begun: // otherwise a requested run has still to begin
			o.asked++
		}
		return nil
	}, func(want, there order) bool { return there.begun >= want.asked })
}

// askEvery is the time between two checks whether an order is done.
const askEvery = 20 * time.Millisecond

// ask changes the order of a job. It returns once the member that leads the job has published that
// it is done. Without a leader it returns at once: the next leader does it.
func (b *Book) ask(ctx context.Context, name string, change func(*order, joblist.Job) error, done func(want, there order) bool) (joblist.Job, error) {
	j, err := b.find(ctx, name)
	if err != nil {
		return j, err
	}
	mark := markOf(j.Name)
	want, err := b.read(ctx, mark, "")
	if err := cmp.Or(err, change(&want, j), b.room(mark)); err != nil {
		return j, err
	}
	if want.pauses > maxCount || want.asked > maxCount {
		return j, fmt.Errorf("%w: job %q was asked too much of: stop all members that run it, then start them", joblist.ErrRefused, j.Name)
	}
	if err := b.keepOrders(ctx, map[string]order{mark: want}); err != nil {
		return j, err
	}
	for {
		if j, err = b.find(ctx, name); err != nil {
			return j, err
		}
		leader, there := "no leader", want // without a leader a pause is recorded, and a run has not begun
		if j.Leader != nil {
			leader = "leader " + *j.Leader
			there, err = b.read(ctx, mark, *j.Leader)
		}
		if err != nil || done(want, there) {
			return j, err
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return j, fmt.Errorf("job %q has %s, and the request is not done: %w; see batuta jobs before you ask again", j.Name, leader, ctx.Err())
		}
	}
}

// read returns the order of a job as a member publishes it; "": as all do.
func (b *Book) read(ctx context.Context, mark, by string) (order, error) {
	status, err := b.self.Status(ctx)
	all := map[string]order{mark: {}}
	for _, m := range status.Members {
		if by == "" || string(m.ID) == by {
			ordersIn(m.Meta[OrdersKey], all)
		}
	}
	return all[mark], err
}
