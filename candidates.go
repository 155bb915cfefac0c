package batuta

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/assignment"
	"github.com/batuta-dev/batuta/election"
)

// This file has the loop keep what named elections need: who stands, who works, and what
// watchers see.

// candidate is one name that this member stands for. Its fields are the loop's, but for
// the history, which tells of this member's own leaderships.
type candidate struct {
	name    string
	calls   int // of Lead
	working map[*work]struct{}
	history *history
}

// standFor counts one more Lead of a name.
func (n *Node) standFor(e *Election) (c *candidate, err error) {
	errCall := n.call(context.Background(), func() {
		if n.closing {
			err = ErrClosed
			return
		}
		if c = n.candidates[e.name]; c == nil {
			if n.named.Full(e.name) {
				err = ErrTooManyElections
				return
			}
			c = &candidate{name: e.name, working: map[*work]struct{}{}, history: newHistory(View{Election: e.name, Since: time.Now()})}
			n.candidates[e.name] = c
			n.perform(n.named.Campaign(n.now(), e.name, e.how))
		}
		c.calls++
	})
	return c, cmp.Or(errCall, err)
}

// withdraw counts one less; with the last this member stands no more.
func (n *Node) withdraw(c *candidate) {
	n.call(context.Background(), func() {
		if c.calls--; c.calls == 0 && n.candidates[c.name] == c {
			delete(n.candidates, c.name)
			n.perform(n.named.Withdraw(n.now(), c.name))
		}
	})
}

// beginNamed counts work in; nil when token has ended.
func (n *Node) beginNamed(ctx context.Context, c *candidate, token Token) *work {
	w := &work{token: token}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	begun := false
	n.call(context.WithoutCancel(ctx), func() {
		leads, _ := n.named.Leads(c.name)
		if begun = leads == token && !n.closing; !begun {
			return
		}
		c.working[w] = struct{}{}
		n.atWork++
		if len(c.working) == 1 {
			n.perform(n.named.Working(n.now(), c.name, true))
		}
	})
	if !begun {
		w.cancel(nil)
		return nil
	}
	return w
}

// runNamed does fn and tells whether this member still led when it returned.
func (n *Node) runNamed(c *candidate, w *work, l Leadership, fn func(context.Context, Leadership) error) (led bool, err error) {
	defer func() { led = n.finishNamed(c, w) }() // also when fn panics
	return false, fn(w.ctx, l)
}

// finishNamed counts work out. If it was still leading, it gives the election away.
func (n *Node) finishNamed(c *candidate, w *work) (led bool) {
	n.call(context.Background(), func() {
		token, _ := n.named.Leads(c.name)
		led = token == w.token
		delete(c.working, w)
		n.atWork--
		if led {
			n.perform(n.named.Resign(n.now(), c.name))
		}
		if len(c.working) == 0 {
			n.perform(n.named.Working(n.now(), c.name, false))
		}
	})
	w.cancel(nil)
	return led
}

// perform does what a step asks for, after it has told what that has changed. It is the
// loop's.
func (n *Node) perform(actions []election.Action) {
	now := time.Now()
	n.tellElections(now)
	for _, a := range actions {
		n.do(a, now)
	}
}

// tellElections tells what a step has changed: work is the first to know.
func (n *Node) tellElections(now time.Time) {
	if n.named == nil {
		return
	}
	changes := n.named.Changes()
	for _, ch := range changes {
		if c := n.candidates[ch.Name]; c != nil && ch.Lost && ch.Token.Leader.ID == n.id {
			cause := ch.Cause
			if n.closing {
				cause = CauseStopped
			}
			for w := range c.working {
				if w.token == ch.Token {
					w.cancel(&LostError{ch.Token, cause})
				}
			}
		}
	}
	for _, ch := range changes {
		n.tellElection(ch, now)
	}
	for _, r := range n.named.Replies() {
		if answer := n.asked[r.Number]; answer != nil {
			delete(n.asked, r.Number)
			answer <- r.Error
		}
	}
	n.elections.until.Store(int64(n.named.Until().Sub(n.born)))
}

func (n *Node) tellElection(ch assignment.Change, now time.Time) {
	v := View{Election: ch.Name, Seat: ch.Seat, Since: now}
	if ch.Gone && !ch.Lost {
		n.elections.forget(ch.Name, ch.Seat)
		return
	}
	if ch.Lost {
		v.Lost, v.Cause = ch.Token, ch.Cause
	} else {
		v.Token, v.Address = ch.Token, n.address(ch.Token.Leader.ID)
	}
	n.elections.tell(v)
	if c := n.candidates[ch.Name]; c != nil && ch.Token.Leader.ID == n.id {
		c.history.add(event(v))
	}
	if ch.Gone {
		n.elections.forget(ch.Name, ch.Seat)
	}
}

func event(v View) Event {
	kind := EventLeader
	if !v.Defined() {
		kind = EventLost
	}
	return Event{Time: v.Since, Kind: kind, View: v}
}

// endElections ends what tells of them.
func (n *Node) endElections() {
	for _, c := range n.candidates {
		c.history.end()
	}
	n.elections.end()
}

// unlessLate gives v, or an undefined view if it names this member and its time has
// passed.
func (n *Node) unlessLate(v View) View {
	if late := n.clock.Now() - time.Duration(n.elections.until.Load()); v.Token.Leader.ID == n.id && late >= 0 {
		return View{Election: v.Election, Seat: v.Seat, Since: time.Now().Add(-late), Lost: v.Token, Cause: election.CauseStalled}
	}
	return v
}

// elections is what watchers see of named elections.
type elections struct {
	until atomic.Int64 // on the node's clock: when this member leads none any more

	mu    sync.RWMutex
	ended bool
	views map[string][]View   // by name and seat; of a name that nobody stands for there is none
	names map[string]*history // of those that are watched
	every *history            // of all; nil: nobody watches
}

// tell takes a view in.
func (e *elections) tell(v View) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seats := e.views[v.Election]
	for len(seats) <= v.Seat {
		seats = append(seats, View{Election: v.Election, Seat: len(seats)})
	}
	seats[v.Seat] = v
	e.views[v.Election] = seats
	if h := e.names[v.Election]; h != nil {
		h.add(event(v))
	}
	if e.every != nil {
		e.every.add(event(v))
	}
}

// forget drops a seat that nobody stands for any more.
func (e *elections) forget(name string, seat int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seats := e.views[name]
	if seat < len(seats) {
		seats[seat] = View{Election: name, Seat: seat}
	}
	if !slices.ContainsFunc(seats, View.Defined) {
		delete(e.views, name)
	}
}

// list are the views of one name, or of all.
func (e *elections) list(name string) (views []View) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if name != "" {
		return slices.Clone(e.views[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.views)) {
		views = append(views, e.views[name]...)
	}
	return views
}

func (e *elections) leader(name string, n *Node) View {
	e.mu.RLock()
	defer e.mu.RUnlock()
	first := View{Election: name, Since: n.born}
	for i, v := range e.views[name] {
		if v = n.unlessLate(v); v.Token.Leader.ID == n.id || i == 0 || !first.Defined() && v.Defined() {
			first = v
		}
	}
	return first
}

// watched is the history of a name.
func (e *elections) watched(name string) *history {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.names[name]
	if h == nil {
		first := View{Election: name}
		for i, v := range e.views[name] {
			if i == 0 || !first.Defined() && v.Defined() {
				first = v
			}
		}
		h = newHistory(first)
		e.names[name] = h
		if e.ended {
			h.end()
		}
	}
	return h
}

// all gives the present views of all, and a place at what follows them.
func (e *elections) all() (first []View, place func() *reader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.every == nil {
		e.every = newHistory(View{})
		if e.ended {
			e.every.end()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.views)) {
		first = append(first, e.views[name]...)
	}
	return first, e.every.place()
}

func (e *elections) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for _, h := range e.names {
		h.end()
	}
	if e.every != nil {
		e.every.end()
	}
}
