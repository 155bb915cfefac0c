package electortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
)

// crew is three candidates with records of their work and views.
type crew struct {
	Candidates
	t       *testing.T
	members map[batuta.ID]*member

	mu     sync.Mutex
	shifts []*shift
	apart  bool          // work of two candidates may overlap, since a candidate is cut off
	drain  time.Duration // how long work takes to stop
}

// shift is a run of the function that a candidate leads with.
type shift struct {
	id    batuta.ID
	l     batuta.Leadership
	ended bool
	told  chan struct{} // closed when its context has ended
	cause error         // the cause of that
	lost  chan struct{} // closed when its context has ended with the leadership
	over  chan struct{} // closed when it has returned
	leave chan error    // makes it return while it leads
}

// member is a candidate.
type member struct {
	Candidate
	id     batuta.ID
	views  chan struct{} // closed when its watcher has ended
	led    chan error    // the result of Lead
	cancel context.CancelFunc
}

var all = []batuta.ID{"1", "2", "3"}

// startAll starts the three candidates.
func (c *crew) startAll() {
	for _, id := range all {
		c.start(id)
	}
}

// start starts a candidate, watches it and makes it work whenever it leads.
func (c *crew) start(id batuta.ID) *member {
	c.t.Helper()
	m := &member{Candidate: c.Start(id), id: id, views: make(chan struct{}), led: make(chan error, 1)}
	c.members[id] = m
	views := m.Watch(context.Background())
	go func() {
		defer close(m.views)
		order := order{t: c.t, who: string(id)}
		for v, err := range views {
			order.next(v, err)
		}
	}()
	c.lead(m)
	return m
}

// lead makes a candidate work whenever it leads.
func (c *crew) lead(m *member) {
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	go func() {
		m.led <- m.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error { return c.work(ctx, m.id, l) })
	}()
}

// work is what each candidate does while it leads.
func (c *crew) work(ctx context.Context, id batuta.ID, l batuta.Leadership) error {
	s := &shift{id: id, l: l, told: make(chan struct{}), lost: make(chan struct{}), over: make(chan struct{}), leave: make(chan error, 1)}
	defer close(s.over)
	context.AfterFunc(ctx, func() {
		if _, lost := errors.AsType[*batuta.LostError](context.Cause(ctx)); lost {
			close(s.lost)
		}
	})
	c.begin(s)
	var err error
	select {
	case <-ctx.Done():
		s.cause = context.Cause(ctx)
		close(s.told)
		time.Sleep(c.draining())
	case err = <-s.leave:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ended = true
	return err
}

func (c *crew) draining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drain
}

func (c *crew) begin(s *shift) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.l.Token.Leader.ID != s.id {
		c.t.Errorf("%s works under %s, another's leadership", s.id, s.l.Token)
	}
	for _, o := range c.shifts {
		if !o.ended && (!c.apart || o.id == s.id) {
			c.t.Errorf("the work of %s begins while that of %s has not returned", s.l.Token, o.l.Token)
		}
		if o.id == s.id && !s.l.Token.Above(o.l.Token) {
			c.t.Errorf("%s works under %s, and did under %s before", s.id, s.l.Token, o.l.Token)
		}
	}
	c.shifts = append(c.shifts, s)
}

// until waits for a condition.
func (c *crew) until(what string, is func() bool) {
	c.t.Helper()
	for late := time.Now().Add(Patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(late) {
			c.t.Fatalf("within %v it does not come about that %s: %s", Patience, what, c.describe())
		}
	}
}

// await waits for a channel.
func await[T any](c *crew, what string, ch <-chan T) (v T) {
	c.t.Helper()
	select {
	case v = <-ch:
	case <-time.After(Patience):
		c.t.Fatalf("within %v it does not come about that %s: %s", Patience, what, c.describe())
	}
	return v
}

func (c *crew) describe() (s string) {
	for _, id := range all {
		if m := c.members[id]; m != nil {
			s += fmt.Sprintf("%s sees %q (leads: %v); ", id, m.Leader().Token, m.IsLeader())
		}
	}
	return s
}

// agree waits until all running candidates see the work of the same leadership above floor. It
// returns that work.
func (c *crew) agree(floor batuta.Token) *shift {
	c.t.Helper()
	var found *shift
	c.until(fmt.Sprintf("one works, under a token above %q, and all see it", floor), func() bool {
		found = c.present(floor)
		return found != nil
	})
	return found
}

func (c *crew) present(floor batuta.Token) *shift {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.shifts, func(s *shift) bool { return !s.ended && s.l.Token.Above(floor) && c.leads(s) })
	if i < 0 {
		return nil
	}
	for _, m := range c.members {
		if m.Leader().Token != c.shifts[i].l.Token {
			return nil
		}
	}
	return c.shifts[i]
}

func (c *crew) leads(s *shift) bool { m := c.members[s.id]; return m != nil && m.IsLeader() }

// stop closes a candidate and forgets it.
func (c *crew) stop(m *member) {
	c.t.Helper()
	delete(c.members, m.id)
	closed := make(chan error, 1)
	go func() { closed <- m.Shutdown(context.Background()) }()
	if err := await(c, "Shutdown of "+string(m.id)+" returns", closed); err != nil {
		c.t.Errorf("Shutdown of %s: %v", m.id, err)
	}
}

func (c *crew) close() {
	for _, m := range c.members {
		c.stop(m)
		await(c, "Watch ends with the candidate", m.views)
		if err := await(c, "Lead ends with the candidate", m.led); !errors.Is(err, batuta.ErrClosed) && !errors.Is(err, context.Canceled) {
			c.t.Errorf("Lead of %s, which was closed: %v", m.id, err)
		}
		m.cancel()
	}
}

// order checks the order of a watcher's views.
type order struct {
	t    *testing.T
	who  string
	last batuta.View
	any  bool
}

func (o *order) next(v batuta.View, err error) {
	switch {
	case err != nil:
		o.t.Errorf("%s: a watcher is ended by %v", o.who, err)
	case !o.any:
	case v.Defined() && o.last.Defined():
		o.t.Errorf("%s: %s is told to lead, and %s was not told lost", o.who, v.Token, o.last.Token)
	case v.Defined() && o.last.Lost.Above(v.Token):
		o.t.Errorf("%s: %s is told to lead, after %s", o.who, v.Token, o.last.Lost)
	case !v.Defined() && v.Lost != o.last.Token:
		o.t.Errorf("%s: %s is told lost, and %q led", o.who, v.Lost, o.last.Token)
	case !v.Defined() && v.Cause == "":
		o.t.Errorf("%s: %s is told lost without a cause", o.who, v.Lost)
	}
	o.last, o.any = v, true
}
