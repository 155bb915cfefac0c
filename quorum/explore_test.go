package quorum

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/fulltest"
)

// This file goes through every order of events that three members can see: deliveries, a
// crash, a restart, and one that is stopped for as long as it may be. Messages take any
// order, but no time: time passes when nothing is left to deliver, to the next moment at
// which a member has something to do. A state that was reached before, with all times
// counted from now, is not gone on from. Once no fault is left to come, deliveries to
// different members commute, and one member's come first.
//
// raft's own state cannot be copied: a state is reached anew by its moves.

// budget is how many faults there may be.
type budget struct{ crashes, restarts, stops int }

type moveKind byte

const (
	delivers moveKind = iota
	crashes
	restarts
	stops
	wakes
	passes // time
)

type exploreMove struct {
	kind moveKind
	a, b byte
}

// explored is a cluster at one point of the search.
type explored struct {
	budget
	now    time.Time
	t      time.Duration // T
	procs  []*process
	pipes  [][]*election.Message // from·n + to; nil in one: the connection has ended
	linked []bool                // a·n + b: a has a link to b
	queue  []func()
	epochs map[uint64]election.ID
	broken string
}

type process struct {
	id      election.ID
	core    *Core // nil: dead
	disk    [][]byte
	durable []byte // of the dead: what the disk comes to
	life    uint64
	origin  time.Time
	stopped bool
	told    election.Token
	votes   uint64 // a sum of the answers to its last request for votes
}

// constant is a source of one number, so that who draws has no state.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

func newExplored(n int, b budget) *explored {
	w := &explored{now: begin, t: election.Timing{}.WithDefaults().T(), pipes: make([][]*election.Message, n*n), linked: make([]bool, n*n), epochs: map[uint64]election.ID{}}
	for i := range n {
		w.procs = append(w.procs, &process{id: election.ID(fmt.Sprint(i + 1))})
	}
	for i := range w.procs {
		w.boot(i)
	}
	for from := w.now; w.now.Sub(from) < 3*w.t; { // until a leader is settled
		w.do(w.moves()[0])
	}
	w.budget = b
	return w
}

func (w *explored) boot(i int) {
	p := w.procs[i]
	var list []election.ID
	for _, q := range w.procs {
		list = append(list, q.id)
	}
	p.life++
	config := configured(p.id, list, p.disk)
	config.Incarnation, config.Seed = p.life, uint64(i)
	core, err := New().NewCore(config)
	if err != nil {
		w.broken = err.Error()
		return
	}
	p.core, p.origin, p.told, p.votes, p.stopped = core.(*Core), w.now, election.Token{}, 0, false
	p.core.random = rand.New(constant(1 << 33)) // it draws nothing but 0
	w.step(i, election.Event{Kind: election.Started})
	w.settle()
	p.core.pursueAt = time.Time{} // nobody asks for a change, and there are no guests
}

func (w *explored) index(id election.ID) int { return int(id[0] - '1') }

func (w *explored) settle() {
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		next()
	}
}

func (w *explored) step(i int, ev election.Event) {
	p := w.procs[i]
	if p.core == nil {
		return
	}
	for _, a := range p.core.Step(w.now, ev) {
		j := 0
		if a.To != election.None {
			j = w.index(a.To)
		}
		switch a.Kind {
		case election.Dial:
			w.queue = append(w.queue, func() { w.dial(i, j) })
		case election.Send:
			m := *a.Message
			if m.Kind == kindVote || m.Kind == kindPreVote {
				p.votes = 0
			}
			w.queue = append(w.queue, func() { w.send(i, j, &m) })
		case election.Hangup:
			w.queue = append(w.queue, func() { w.hangUp(i, j) })
		case election.Append:
			if a.Replace {
				p.disk = nil
			}
			p.disk = append(slices.Clone(p.disk), a.Records...)
			w.queue = slices.Insert(w.queue, 0, func() { w.step(i, election.Event{Kind: election.Saved}) })
		case election.NotifyElected:
			if led, known := w.epochs[a.Token.Epoch]; known && led != a.Token.Leader.ID {
				w.broken = fmt.Sprintf("epoch %d is %s's and %s's", a.Token.Epoch, led, a.Token.Leader.ID)
			}
			w.epochs[a.Token.Epoch] = a.Token.Leader.ID
			if p.told.Defined() || !a.Token.Above(p.told) {
				w.broken = fmt.Sprintf("%s tells of %v after %v", p.id, a.Token, p.told)
			}
			p.told = a.Token
		case election.NotifyLost:
			p.told = election.Token{}
		case election.Halt:
			w.broken = fmt.Sprintf("%s ends: %v", p.id, a.Err)
		}
	}
	w.check()
}

// check demands that one lease at most is in force, that of a member that is stopped too.
func (w *explored) check() {
	in := election.None
	for _, p := range w.procs {
		if p.core == nil || !p.core.Guard().After(w.now) {
			continue
		}
		if in != election.None {
			w.broken = fmt.Sprintf("the leases of %s and %s are in force", in, p.id)
		}
		in = p.id
	}
}

func (w *explored) link(i, j int, on bool) {
	n := len(w.procs)
	w.linked[i*n+j], w.linked[j*n+i] = on, on
	w.pipes[i*n+j], w.pipes[j*n+i] = nil, nil
}

func (w *explored) dial(i, j int) {
	p, q := w.procs[i], w.procs[j]
	switch {
	case p.core == nil:
	case q.core == nil || q.stopped:
		w.step(i, election.Event{Kind: election.DialFailed, Peer: q.id, Refused: q.core == nil})
	default:
		w.link(i, j, true)
		w.step(i, election.Event{Kind: election.LinkUp, Peer: q.id, Rank: q.core.Self(), Incarnation: q.life})
		w.step(j, election.Event{Kind: election.LinkUp, Peer: p.id, Rank: p.core.Self(), Incarnation: p.life})
	}
}

func (w *explored) send(i, j int, m *election.Message) {
	at := i*len(w.procs) + j
	if !w.linked[at] {
		w.dial(i, j)
	}
	if w.linked[at] && w.procs[j].core != nil {
		w.pipes[at] = append(slices.Clone(w.pipes[at]), m)
	}
	if len(w.pipes[at]) > 40 {
		w.broken = "40 messages wait"
	}
}

func (w *explored) hangUp(i, j int) {
	if w.linked[i*len(w.procs)+j] {
		w.link(i, j, false)
		w.pipes[i*len(w.procs)+j] = []*election.Message{nil}
	}
}

// moves are all that may happen next.
func (w *explored) moves() (to []exploreMove) {
	n, quiet, calm := len(w.procs), true, w.budget == budget{}
	for j, q := range w.procs {
		calm = calm && !q.stopped
		if q.core == nil || q.stopped || calm && !quiet {
			continue
		}
		for i := range w.procs {
			if len(w.pipes[i*n+j]) > 0 {
				to, quiet = append(to, exploreMove{delivers, byte(i), byte(j)}), false
			}
		}
	}
	for i, p := range w.procs {
		a := byte(i)
		switch {
		case p.core == nil && w.restarts > 0:
			to = append(to, exploreMove{restarts, a, 0})
		case p.core != nil && p.stopped:
			to = append(to, exploreMove{wakes, a, 0})
		case p.core != nil && w.stops > 0:
			to = append(to, exploreMove{stops, a, 0})
		}
		if p.core != nil && w.crashes > 0 {
			to = append(to, exploreMove{crashes, a, 0})
		}
	}
	if quiet && w.next() != (time.Time{}) {
		to = append(to, exploreMove{kind: passes})
	}
	return to
}

func (w *explored) next() (next time.Time) {
	for _, p := range w.procs {
		if p.core != nil && !p.stopped {
			if at, ok := p.core.Deadline(); ok && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}

func (w *explored) do(mv exploreMove) {
	n, a := len(w.procs), int(mv.a)
	p := w.procs[a]
	switch mv.kind {
	case delivers:
		w.arrive(a, int(mv.b))
	case crashes:
		w.budget.crashes--
		p.durable = slices.Concat(p.core.all()...)
		p.core, p.told, p.stopped = nil, election.Token{}, false
		for j, q := range w.procs {
			w.pipes[j*n+a] = nil
			if w.linked[a*n+j] && q.core != nil {
				w.pipes[a*n+j] = append(slices.Clone(w.pipes[a*n+j]), nil)
			}
			w.linked[a*n+j], w.linked[j*n+a] = false, false
		}
	case restarts:
		w.budget.restarts--
		w.boot(a)
	case stops:
		w.budget.stops--
		p.stopped = true
	case wakes:
		p.stopped = false
		w.step(a, election.Event{Kind: election.Woke})
	case passes:
		if at := w.next(); at.After(w.now) {
			w.now = at
		}
		w.check()
		for i, p := range w.procs {
			if p.core == nil || p.stopped {
				continue
			}
			if at, ok := p.core.Deadline(); ok && !w.now.Before(at) {
				w.step(i, election.Event{Kind: election.Woke})
			}
		}
	}
	w.settle()
}

func (w *explored) arrive(i, j int) {
	at := i*len(w.procs) + j
	m := w.pipes[at][0]
	w.pipes[at] = w.pipes[at][1:]
	if m == nil {
		w.step(j, election.Event{Kind: election.LinkDown, Peer: w.procs[i].id})
		return
	}
	if m.Kind == kindVoteAnswer || m.Kind == kindPreVoteAnswer {
		w.procs[j].votes += xxh3.Hash(append([]byte(m.From), m.Data...))
	}
	w.step(j, election.Event{Kind: election.Received, Message: m})
}

type exploredState struct {
	parent int
	move   exploreMove
}

// found is a state that the search goes on from, and the way to it.
type found struct {
	no int
	w  *explored
}

// search tries every order of events, breadth first, up to so many states.
func search(t testing.TB, n int, with budget, limit int) (states, depth int, complete bool) {
	w := newExplored(n, with)
	known := map[xxh3.Uint128]bool{xxh3.Hash128(w.form(nil)): true}
	all := []exploredState{{parent: -1}}
	frontier := []found{{0, w}}
	var buf []byte
	for len(frontier) > 0 && len(all) <= limit {
		var next []found
		for _, from := range frontier {
			path, w := pathTo(all, from.no), from.w
			for k, mv := range w.moves() {
				if k > 0 {
					w = replay(n, with, path)
				}
				w.do(mv)
				if w.broken != "" {
					t.Fatalf("after %v: %s", append(path, mv), w.broken)
				}
				buf = w.form(buf[:0])
				if h := xxh3.Hash128(buf); !known[h] {
					known[h] = true
					all = append(all, exploredState{from.no, mv})
					next = append(next, found{len(all) - 1, w})
				}
			}
		}
		if frontier = next; len(next) > 0 {
			depth++
		}
		if testing.Verbose() && depth%10 == 0 {
			t.Logf("depth %d: %d states, %d to go on from", depth, len(all), len(frontier))
		}
	}
	return len(all), depth, len(frontier) == 0
}

func pathTo(all []exploredState, no int) (path []exploreMove) {
	for ; all[no].parent >= 0; no = all[no].parent {
		path = append(path, all[no].move)
	}
	slices.Reverse(path)
	return path
}

func replay(n int, with budget, path []exploreMove) *explored {
	w := newExplored(n, with)
	for _, mv := range path {
		w.do(mv)
	}
	return w
}

// Three members, and every order of what may befall them, to the end. BATUTA_TEST_EXPLORE=all
// adds one crash, one restart and one stop together: hundreds of thousands of states.
func TestEveryOrderOfEvents(t *testing.T) {
	budgets := []budget{{}, {crashes: 1}}
	if fulltest.Enabled() {
		budgets = append(budgets, budget{stops: 1})
	}
	if os.Getenv("BATUTA_TEST_EXPLORE") == "all" {
		budgets = append(budgets, budget{crashes: 1, restarts: 1}, budget{1, 1, 1})
	}
	for _, with := range budgets {
		states, depth, complete := search(t, 3, with, 2_000_000)
		t.Logf("%+v: %d states, %d moves deep", with, states, depth)
		if !complete {
			t.Errorf("%+v: it has not come to the end", with)
		}
	}
}
