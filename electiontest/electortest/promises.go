package electortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
)

func oneLeads(c *crew) {
	c.startAll()
	s := c.agree(batuta.Token{})
	leader := c.members[s.id]
	var faults []string
	if v := leader.Leader(); s.l.Election != v.Election {
		faults = append(faults, fmt.Sprintf("the work is told of election %q, and the view is of %q", s.l.Election, v.Election))
	}
	for _, m := range c.members {
		if m.id != s.id && m.IsLeader() {
			faults = append(faults, fmt.Sprintf("%s leads, and so does %s", s.id, m.id))
		}
	}
	for v := range leader.Watch(context.Background()) {
		if v.Token != s.l.Token {
			faults = append(faults, fmt.Sprintf("the first that a new watcher sees is %q, and %q leads", v.Token, s.l.Token))
		}
		break
	}
	if leader.IsLeader() && leader.Leader().Token == s.l.Token { // all the while
		for _, f := range faults {
			c.t.Error(f)
		}
	}
}

// slow is how long work takes to stop in tests that wait for it.
const slow = 400 * time.Millisecond

func resigning(c *crew) {
	c.drain = slow
	c.startAll()
	var floor batuta.Token
	for range 3 {
		s := c.agree(floor)
		m := c.members[s.id]
		if err := m.Resign(c.t.Context()); err != nil {
			c.t.Fatalf("Resign of %s: %v", s.id, err)
		}
		if v := m.Leader(); v.Token == s.l.Token {
			c.t.Errorf("%s has resigned, and still sees %s", s.id, v.Token)
		}
		await(c, "work is told that its leadership is over", s.told)
		if lost, ok := errors.AsType[*batuta.LostError](s.cause); !ok || lost.Token != s.l.Token || !slices.Contains(byItself, lost.Cause) {
			c.t.Errorf("the work of %s, which has resigned, was cancelled by %v", s.l.Token, s.cause)
		}
		floor = s.l.Token
	}
	c.agree(floor)
}

// byItself are the causes by which a candidate that resigns may lose leadership. On a stalled
// machine it may lose leadership just before.
var byItself = []batuta.Cause{batuta.CauseResigned, batuta.CauseStalled, batuta.CauseSilent, batuta.CauseSuperseded}

func returning(c *crew) {
	c.startAll()
	s := c.agree(batuta.Token{})
	m, enough := c.members[s.id], errors.New("enough")
	s.leave <- enough
	await(c, "the work returns", s.over)
	select {
	case err := <-m.led:
		if err != enough {
			c.t.Errorf("Lead returned %v, and the work %v", err, enough)
		}
	case <-s.lost: // it had lost leadership before: Lead goes on
		m.cancel()
		await(c, "Lead returns", m.led)
	case <-time.After(Patience):
		c.t.Fatalf("its work has returned, and Lead does not: %s", c.describe())
	}
	m.cancel()
	c.lead(m)
	c.agree(s.l.Token)
}

func cancelling(c *crew) {
	c.drain = slow
	c.startAll()
	s := c.agree(batuta.Token{})
	m := c.members[s.id]
	m.cancel()
	err := await(c, "Lead returns when its context has ended", m.led)
	if !errors.Is(err, context.Canceled) {
		c.t.Errorf("Lead, whose context was cancelled, returned %v", err)
	}
	select {
	case <-s.over:
	default:
		c.t.Error("Lead has returned before its work")
	}
	c.lead(m)
	c.agree(s.l.Token)
}

func acquiring(c *crew) {
	c.startAll()
	s := c.agree(batuta.Token{})
	m := c.members[s.id]
	within, cancel := context.WithTimeout(c.t.Context(), Patience)
	defer cancel()
	held, err := batuta.Acquire(within, m)
	if err != nil {
		c.t.Fatalf("Acquire of %s, which leads: %v", s.id, err)
	}
	defer held.Release()
	for id, other := range c.members {
		if id == s.id {
			continue
		}
		if other, err := batuta.TryAcquire(within, other); err == nil {
			if held.Valid() {
				c.t.Errorf("%s has acquired %s while %s goes on", id, other.Token, held.Token)
			}
			other.Release()
		} else if !errors.Is(err, batuta.ErrNotLeading) {
			c.t.Errorf("TryAcquire of %s, while %s leads: %v", id, s.id, err)
		}
	}
	if err := m.Resign(within); err != nil {
		c.t.Fatalf("Resign of %s: %v", s.id, err)
	}
	if held.Valid() {
		c.t.Errorf("%s has resigned, and %s is still valid", s.id, held.Token)
	}
	await(c, "what was acquired is lost", held.Context().Done())
	if lost, ok := errors.AsType[*batuta.LostError](context.Cause(held.Context())); !ok || lost.Token != held.Token {
		c.t.Errorf("%s has ended by %v", held.Token, context.Cause(held.Context()))
	}
	time.Sleep(slow)
	c.mu.Lock()
	for _, o := range c.shifts {
		if o.l.Token.Above(held.Token) {
			c.t.Errorf("the work of %s begins while %s has not been released", o.l.Token, held.Token)
		}
	}
	c.mu.Unlock()
	held.Release()
	held.Release()
	c.agree(held.Token)
}

func holding(c *crew) {
	c.startAll()
	s := c.agree(batuta.Token{})
	m := c.members[s.id]
	held, release, err := m.Hold(c.t.Context())
	if err != nil {
		if m.Leader().Token == s.l.Token {
			c.t.Fatalf("Hold of %s, which leads: %v", s.id, err)
		}
		return // leadership was lost just before
	}
	defer release()
	under, ok := batuta.LeadershipFrom(held)
	if work, _ := s.l.Fence(); !ok || under.Token.Leader.ID != s.id {
		c.t.Errorf("a request of %s is held under %+v, %v", s.id, under, ok)
	} else if epoch, _ := under.Fence(); under.Token == s.l.Token && epoch != work {
		c.t.Errorf("the fence of %s is %d for a request, and %d for the work", under.Token, epoch, work)
	}
	for id, other := range c.members {
		if _, release, err := other.Hold(c.t.Context()); err == nil {
			if release(); id != s.id && held.Err() == nil {
				c.t.Errorf("Hold of %s succeeds while %s leads", id, under.Token)
			}
		} else if id != s.id && !errors.Is(err, batuta.ErrNotLeading) {
			c.t.Errorf("Hold of %s, while %s leads: %v", id, s.id, err)
		}
	}
	if err := m.Resign(c.t.Context()); err != nil {
		c.t.Fatalf("Resign of %s: %v", s.id, err)
	}
	await(c, "a request under a lost leadership is cancelled", held.Done())
	if lost, ok := errors.AsType[*batuta.LostError](context.Cause(held)); !ok || lost.Token != under.Token {
		c.t.Errorf("a request under %s was cancelled by %v", under.Token, context.Cause(held))
	}
	time.Sleep(slow)
	c.mu.Lock()
	for _, o := range c.shifts {
		if o.l.Token.Above(under.Token) {
			c.t.Errorf("the work of %s begins while a request under %s has not ended", o.l.Token, under.Token)
		}
	}
	c.mu.Unlock()
	release()
	c.agree(under.Token)
}

func closing(c *crew) {
	c.drain = slow
	c.startAll()
	s := c.agree(batuta.Token{})
	m := c.members[s.id]
	c.stop(m)
	select {
	case <-s.over:
	default:
		c.t.Error("Shutdown has returned before the work")
	}
	if m.IsLeader() {
		c.t.Error("it is closed, and leads")
	}
	if err := await(c, "Lead returns when it is closed", m.led); !errors.Is(err, batuta.ErrClosed) {
		c.t.Errorf("Lead of one that was closed: %v", err)
	}
	await(c, "Watch ends when it is closed", m.views)
	if err := m.Shutdown(context.Background()); err != nil {
		c.t.Errorf("closing it again: %v", err)
	}
	if err := m.Resign(c.t.Context()); !errors.Is(err, batuta.ErrClosed) {
		c.t.Errorf("Resign of one that was closed: %v", err)
	}
	err := m.Lead(c.t.Context(), func(context.Context, batuta.Leadership) error { return errors.New("it works") })
	if !errors.Is(err, batuta.ErrClosed) {
		c.t.Errorf("Lead of one that was closed: %v", err)
	}
	m.cancel()
	next := c.agree(s.l.Token)
	again := c.start(s.id)
	c.until("one that was started again sees who leads", func() bool { return again.Leader().Token.Compare(next.l.Token) >= 0 })
}

func watching(c *crew) {
	c.startAll()
	s := c.agree(batuta.Token{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var seen [2][]batuta.View
	var watchers sync.WaitGroup
	for i := range seen {
		views := c.members["1"].Watch(ctx)
		watchers.Go(func() {
			order := order{t: c.t, who: "a watcher of 1"}
			for v, err := range views {
				order.next(v, err)
				seen[i] = append(seen[i], v)
			}
		})
	}
	for range 4 {
		if err := c.members[s.id].Resign(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		s = c.agree(s.l.Token)
	}
	c.stop(c.members["1"])
	watchers.Wait()
	if !slices.EqualFunc(seen[0], seen[1], func(a, b batuta.View) bool { return a.Token == b.Token && a.Lost == b.Lost }) {
		c.t.Errorf("two watchers of one candidate see different views: %v and %v", seen[0], seen[1])
	}
	if len(seen[0]) < 9 { // the present leader, then lost and leader four times
		c.t.Errorf("of four hand-overs a watcher has seen %d views", len(seen[0]))
	}
}

func cutOff(c *crew) {
	if c.Cut == nil {
		return
	}
	c.apart = true
	c.startAll()
	s := c.agree(batuta.Token{})
	stop := make(chan struct{})
	var sampler sync.WaitGroup
	if c.OneLeader {
		members := []batuta.Elector{c.members["1"], c.members["2"], c.members["3"]}
		sampler.Go(func() { c.sample(members, stop) })
	}
	cut := c.members[s.id]
	heal := c.Cut(s.id)
	c.until("another leads when the leader is cut off", func() bool {
		return slices.ContainsFunc(all, func(id batuta.ID) bool { return id != s.id && c.members[id].IsLeader() })
	})
	if c.OneLeader && cut.IsLeader() {
		c.t.Errorf("%s is cut off and leads, and so does another", s.id)
	}
	if c.OneLeader {
		await(c, "the work of one that was cut off is told", s.told)
		if lost, ok := errors.AsType[*batuta.LostError](s.cause); !ok || lost.Token != s.l.Token {
			c.t.Errorf("it was cancelled by %v", s.cause)
		}
	}
	heal()
	c.agree(s.l.Token)
	close(stop)
	sampler.Wait()
}

// sample looks for two candidates that lead at once: a leads both before and after b is asked.
func (c *crew) sample(members []batuta.Elector, stop <-chan struct{}) {
	for {
		for i, a := range members {
			for _, b := range members[i+1:] {
				before, first := a.Leader().Token, a.IsLeader()
				other := b.IsLeader()
				if first && other && a.IsLeader() && a.Leader().Token == before {
					c.t.Errorf("%s leads, and %s at the same time", before, b.Leader().Token)
					return
				}
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func failing(c *crew) {
	if c.Fail == nil {
		return
	}
	c.startAll()
	s := c.agree(batuta.Token{})
	mend := c.Fail()
	await(c, "work is told when nobody answers", s.told)
	c.until("nobody leads, nor seems to", func() bool {
		return !slices.ContainsFunc(all, func(id batuta.ID) bool { return c.members[id].IsLeader() || c.members[id].Leader().Defined() })
	})
	follower := c.members["1"]
	if s.id == "1" {
		follower = c.members["2"]
	}
	c.stop(follower)
	mend()
	c.agree(s.l.Token)
}
