package batuta

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/eventlog"
)

// elections is what watchers see of named elections.
type elections struct {
	until atomic.Int64 // on the node's clock: when this member leads none any more

	mu    sync.RWMutex
	ended bool
	views map[string][]shown                           // by name and seat; of a seat that has ended there is none
	names map[string]weak.Pointer[eventlog.List[seen]] // histories, each for as long as it has readers
	every *eventlog.List[View]                         // of all; nil: there is no watcher
}

// shown is what watchers see of a seat.
type shown struct {
	View
	before *View // where no member leads: the view of the leadership before
}

func newElections() elections {
	return elections{views: map[string][]shown{}, names: map[string]weak.Pointer[eventlog.List[seen]]{}}
}

// tell appends views, which watchers receive together.
func (e *elections) tell(views ...View) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range views {
		seats := e.views[v.Election]
		i, found := placeOf(seats, v.Seat)
		if !found {
			seats = slices.Insert(seats, i, shown{View: View{Election: v.Election, Seat: v.Seat}})
			e.views[v.Election] = seats
		}
		s := &seats[i]
		if v.Defined() {
			s.before = nil
		} else if s.Defined() {
			before := s.View
			s.before = &before
		}
		s.View = v
		if h := e.names[v.Election].Value(); h != nil {
			h.Add(seen{Event: event(v)}) // of these histories views alone are read: see origin
		}
	}
	if e.every != nil {
		e.every.Limit(MaxBacklog + 2*len(e.views)) // a change of all leaders is no reader's fault
		e.every.Add(views...)
	}
}

// placeOf is where a seat is among those of its name, or belongs.
func placeOf(seats []shown, seat int) (i int, found bool) {
	return slices.BinarySearchFunc(seats, seat, func(s shown, seat int) int { return s.Seat - seat })
}

// learn takes in what a member publishes; no watcher sees the view again for it.
func (e *elections) learn(id ID, pairs map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, seats := range e.views {
		for i := range seats {
			if seats[i].Token.Leader.ID == id {
				seats[i].Meta = pairs
			}
		}
	}
}

// forget drops a seat that has ended.
func (e *elections) forget(name string, seat int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seats := e.views[name]
	if i, found := placeOf(seats, seat); found {
		e.views[name] = slices.Delete(seats, i, i+1)
	}
	if len(e.views[name]) == 0 {
		delete(e.views, name)
	}
}

// list returns the views of a name, or of all.
func (e *elections) list(names ...string) (views []View) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if names == nil {
		names = slices.AppendSeq(make([]string, 0, len(e.views)), maps.Keys(e.views))
		slices.Sort(names)
	}
	views = make([]View, 0, len(names)) // most have a single seat
	for _, name := range names {
		for _, s := range e.views[name] {
			views = append(views, s.View)
		}
	}
	return views
}

func (m *candidacies) leader(name string) View {
	e := &m.elections
	e.mu.RLock()
	defer e.mu.RUnlock()
	first := View{Election: name, Since: m.born}
	for i, s := range e.views[name] {
		if v := m.unlessLate(s.View); v.Token.Leader.ID == m.id || i == 0 || !first.Defined() && v.Defined() {
			first = v
		}
	}
	return first
}

// watched is the history of a name.
func (e *elections) watched(name string) *history {
	e.mu.Lock()
	defer e.mu.Unlock()
	if list := e.names[name].Value(); list != nil {
		return &history{list}
	}
	first := View{Election: name}
	for i, s := range e.views[name] {
		if i == 0 || !first.Defined() && s.Defined() {
			first = s.View
		}
	}
	h := newHistory(first)
	e.names[name] = weak.Make(h.List)
	runtime.AddCleanup(h.List, e.unwatched, name)
	if e.ended {
		h.End()
	}
	return h
}

// unwatched drops a name after its last reader has ended.
func (e *elections) unwatched(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names[name].Value() == nil {
		delete(e.names, name)
	}
}

// all gives the present views of all, each loss behind its leadership, and then what follows them.
func (e *elections) all(ctx context.Context) (first []View, all iter.Seq2[View, error]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.every == nil {
		e.every = eventlog.New(View{}, MaxBacklog)
		if e.ended {
			e.every.End()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.views)) {
		for _, s := range e.views[name] {
			if s.before != nil {
				first = append(first, *s.before)
			}
			first = append(first, s.View)
		}
	}
	return first, eventlog.Walk(ctx, e.every, e.every.Place(), ErrBehind, func(View) []View { return nil }, func(v View) (View, bool) { return v, true })
}

func (e *elections) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for _, h := range e.names {
		if list := h.Value(); list != nil {
			list.End()
		}
	}
	if e.every != nil {
		e.every.End()
	}
}

// candidacies are the named elections for which this member is a candidate, the work under their leaderships,
// and what watchers see of all. But for elections they are used in a turn of the node.
type candidacies struct {
	*ground
	links      *links
	elections  elections
	candidates map[string]*candidate
	asked      map[uint64]asking // requests to the coordinator
	atWork     int               // functions that run
	fresh      []string          // names whose work has begun in this step

	mu     sync.Mutex
	ending *endings // that the next turn takes in; nil: there are none
}

// candidate is a name for which this member is a candidate. It is used in a turn of the node.
type candidate struct {
	name    string
	calls   []*call // that have not returned
	working []*work
	since   time.Time // when its last lead began
}

// call is a call of [Election.Lead] or [Node.LeadEach].
type call struct {
	// Of Lead.
	history *history // this member's own leaderships

	// Of LeadEach.
	ctx     context.Context
	fn      func(context.Context, Leadership) error // nil: it is Lead
	alone   []*call                                 // itself: of the names that no second call has
	running sync.WaitGroup
	left    int        // names in which it is a candidate; used in a turn of the node
	ended   chan error // has something when it is to return
}

// standFor makes this member a candidate of elections on behalf of a call.
func (m *candidacies) standFor(ctx context.Context, s *call, elections ...*Election) (err error) {
	if m.cfg.Observer {
		return m.observes(elections[0].name)
	}
	if err := m.awaitRun(ctx); err != nil {
		return err
	}
	errCall := m.call(context.Background(), func() {
		if m.closing {
			err = ErrClosed
			return
		}
		fresh := make([]named.Stand, 0, len(elections))
		for _, e := range elections {
			if m.candidates[e.name] != nil {
				continue
			}
			if m.named.Full(e.name, len(fresh)) {
				err = ErrTooManyElections
				return
			}
			fresh = append(fresh, named.Stand{Name: e.name, Candidacy: e.how})
		}
		s.alone, s.left = []*call{s}, len(elections)
		rest := make([]candidate, len(fresh))
		for _, e := range elections {
			c := m.candidates[e.name]
			if c == nil {
				c, rest = &rest[0], rest[1:]
				c.name, c.calls, c.since = e.name, s.alone[:1:1], time.Now()
				m.candidates[e.name] = c
			} else {
				c.calls = append(c.calls, s)
			}
			m.joins(c, s)
		}
		m.perform(m.named.Campaign(m.now(), fresh...))
	})
	return cmp.Or(errCall, err)
}

// withdraw ends a call's candidacy for some names, or for all of its names. This member is no longer a
// candidate of the names that no second call has.
func (m *candidacies) withdraw(s *call, elections ...*Election) {
	m.call(context.Background(), func() {
		var over []string
		for _, e := range elections {
			if m.leaves(s, e.name) {
				over = append(over, e.name)
			}
		}
		m.perform(m.named.Withdraw(m.now(), over...))
	})
}

// leaves ends a call's standing for a name, and reports whether it was the last.
func (m *candidacies) leaves(s *call, name string) (last bool) {
	c := m.candidates[name]
	if c == nil || !slices.Contains(c.calls, s) {
		return false
	}
	s.left--
	if len(c.calls) > 1 {
		c.calls = slices.DeleteFunc(slices.Clone(c.calls), func(other *call) bool { return other == s })
		return false
	}
	delete(m.candidates, name)
	for _, w := range c.working { // of Hold: what it is under ends now
		w.cancel(&LostError{w.token, CauseResigned})
	}
	return true
}

// joins has a call learn of leadership that this member has already.
func (m *candidacies) joins(c *candidate, s *call) {
	token, seat := m.named.Leads(c.name)
	if s.fn == nil {
		s.history = newHistory(View{Election: c.name, Seat: seat, Token: token, Since: c.since})
	} else if token.Defined() {
		m.beginEach(c, s, token)
	}
}

// tellOwn publishes a leadership of this member that begins or ends.
func (m *candidacies) tellOwn(c *candidate, v View) {
	c.since = v.Since
	for _, s := range c.calls {
		if s.fn == nil {
			s.history.Add(seen{Event: event(v)})
		} else if v.Defined() {
			m.beginEach(c, s, v.Token)
		}
	}
}

// beginEach runs LeadEach's function under a lead.
func (m *candidacies) beginEach(c *candidate, s *call, token Token) {
	if m.closing || s.ctx.Err() != nil {
		return
	}
	w := m.newWork(s.ctx, View{Election: c.name, Token: token, Since: c.since})
	m.countIn(c, w)
	s.running.Go(func() {
		led, err := w.run(m.cfg.Logger, s.fn, m.finishNamed)
		if led && s.ctx.Err() == nil {
			m.finishedEach(c, s, err)
		}
	})
}

// finishedEach: the function has ended by itself. This member is no longer a candidate of that
// election; if something is wrong, of none.
func (m *candidacies) finishedEach(c *candidate, s *call, err error) {
	m.call(context.Background(), func() {
		if m.leaves(s, c.name) {
			m.perform(m.named.Withdraw(m.now(), c.name))
		}
		if err != nil || s.left == 0 {
			select {
			case s.ended <- err:
			default: // it ends already
			}
		}
	})
}

// countIn counts work in. The core knows of it before it does anything else: see tellWork.
func (m *candidacies) countIn(c *candidate, w *work) {
	c.working, w.of = append(c.working, w), c
	m.atWork++
	if len(c.working) == 1 {
		m.fresh = append(m.fresh, c.name)
	}
}

// tellWork steps the core with the work that has begun in a step.
func (m *candidacies) tellWork() {
	if len(m.fresh) == 0 {
		return
	}
	m.perform(m.named.Begin(m.now(), m.fresh))
	m.fresh = nil
}

// beginNamed counts work in; nil when v has ended, or this member is no candidate any more.
func (m *candidacies) beginNamed(ctx context.Context, v View) *work {
	return m.workIn(ctx, v, func(w *work) bool {
		c := m.candidates[v.Election]
		if leads, _ := m.named.Leads(v.Election); c == nil || leads != v.Token || m.closing {
			return false
		}
		m.countIn(c, w)
		m.tellWork()
		return true
	})
}

// endings are works that end together, in a turn of the node.
type endings struct {
	works []*work
	over  sync.Once // that turn
}

// finishNamed counts work out. If it was still leading, it gives the election away. Many works return
// together: all that have when the node's turn comes are counted out in it.
func (m *candidacies) finishNamed(w *work) (led bool) {
	m.mu.Lock()
	if m.ending == nil {
		m.ending = &endings{}
	}
	batch := m.ending
	batch.works = append(batch.works, w)
	m.mu.Unlock()
	batch.over.Do(func() {
		m.call(context.Background(), func() {
			m.mu.Lock()
			m.ending = nil
			m.mu.Unlock()
			m.finishAll(batch.works)
		})
	})
	w.cancel(nil)
	return w.led
}

func (m *candidacies) finishAll(works []*work) {
	var given, stopped []string
	for _, w := range works {
		c := w.of
		token, _ := m.named.Leads(c.name)
		if w.led = token == w.token && !w.held; w.led {
			given = append(given, c.name)
		}
		c.working = slices.DeleteFunc(c.working, func(other *work) bool { return other == w })
		if m.atWork--; len(c.working) == 0 {
			stopped = append(stopped, c.name)
		}
	}
	m.perform(m.named.Resign(m.now(), given...))
	m.perform(m.named.Stopped(m.now(), stopped))
}

// tellLost publishes what a step has changed as far as leaderships of this member have ended by
// it, to the work first, and returns the rest: the other members need not wait for that.
func (m *candidacies) tellLost(changes []named.Change, now time.Time) (rest []named.Change) {
	if m.named == nil {
		return nil
	}
	last := 0
	for i, ch := range changes {
		if !ch.Lost || ch.Token.Leader.ID != m.id {
			continue
		}
		last = i + 1
		if c := m.candidates[ch.Name]; c != nil {
			m.cancelNamed(c, ch)
		}
	}
	m.tellChanges(changes[:last], now)
	m.elections.until.Store(int64(m.named.Until().Sub(m.born)))
	return changes[last:]
}

func (m *candidacies) cancelNamed(c *candidate, ch named.Change) {
	cause := ch.Cause
	if m.closing {
		cause = CauseStopped
	}
	for _, w := range c.working {
		if w.token == ch.Token {
			w.cancel(&LostError{ch.Token, cause})
		}
	}
}

// tellElections publishes the rest of what a step has changed, and what the coordinator has
// answered; then it steps the core with the work that this has begun.
func (m *candidacies) tellElections(rest []named.Change, replies []named.Reply, now time.Time) {
	if m.named == nil {
		return
	}
	m.tellChanges(rest, now)
	for _, r := range replies {
		if a, ok := m.asked[r.Number]; ok {
			delete(m.asked, r.Number)
			a.answer <- answered{r, m.elections.watched(a.name).Last().Event.View}
		}
	}
	m.tellWork()
}

// tellChanges publishes changes, to watchers first, and begins the work under what this member leads.
func (m *candidacies) tellChanges(changes []named.Change, now time.Time) {
	views := make([]View, 0, len(changes))
	for i, ch := range changes {
		if ch.Lost || !ch.Gone {
			views = append(views, m.viewAfter(ch, now))
		}
		if ch.Gone || i == len(changes)-1 {
			m.elections.tell(views...)
			views = views[:0]
		}
		if ch.Gone {
			m.elections.forget(ch.Name, ch.Seat)
		}
	}
	for _, ch := range changes {
		if ch.Token.Leader.ID != m.id || ch.Gone && !ch.Lost {
			continue
		}
		if c := m.candidates[ch.Name]; c != nil {
			m.tellOwn(c, m.viewAfter(ch, now))
		}
	}
}

// viewAfter is the view behind a change.
func (m *candidacies) viewAfter(ch named.Change, now time.Time) View {
	v := View{Election: ch.Name, Seat: ch.Seat, Since: now}
	if ch.Lost {
		v.Lost, v.Cause = ch.Token, ch.Cause
	} else {
		v.Token, v.Address, v.Meta = ch.Token, m.links.address(ch.Token.Leader.ID), m.links.metas[ch.Token.Leader.ID]
	}
	return v
}

func event(v View) Event {
	kind := EventLeader
	if !v.Defined() {
		kind = EventLost
	}
	return Event{Time: v.Since, Kind: kind, View: v}
}

// endElections ends their histories.
func (m *candidacies) endElections() {
	for _, c := range m.candidates {
		for _, s := range c.calls {
			if s.history != nil {
				s.history.End()
			}
		}
	}
	m.elections.end()
}

// unlessLate gives v, or an undefined view if it names this member and its time has
// passed.
func (m *candidacies) unlessLate(v View) View {
	if late := m.clock.Now() - time.Duration(m.elections.until.Load()); v.Token.Leader.ID == m.id && late >= 0 {
		return View{Election: v.Election, Seat: v.Seat, Since: time.Now().Add(-late), Lost: v.Token, Cause: election.CauseStalled}
	}
	return v
}
