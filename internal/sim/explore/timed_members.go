package explore

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// A core that measures time itself cannot be copied, nor can what it builds on. But it is pure:
// the same events at the same times lead to the same state. So each state of a member is stored
// once, as a path to it, and each step from there is taken once. Times count from the previous
// step, so no state depends on absolute time.

// timedCore is a core that can be searched.
type timedCore interface {
	machine.Core
	// Still makes it use the shortest of every random pause, and never dial again.
	Still()
	// AppendForm appends all that decides its further behavior, except the answers of the kind
	// that it Awaits.
	AppendForm(b []byte, now time.Time) []byte
	Awaits() election.MessageKind
	// AppendDisk appends what it would read from that disk.
	AppendDisk(b []byte, disk [][]byte) []byte
	// Guard returns when its lease ends; zero: it has none.
	Guard() time.Time
}

// instance is a core in some state, ready to be stepped.
type instance struct {
	core   timedCore
	origin time.Time // of its first step
	now    time.Time // of its last step
	disk   [][]byte
	votes  uint64 // a sum of the answers to its last request for votes
	told   election.Token
}

// past is a step of a member, with those before it.
type past struct {
	before *past // nil: the member starts, with what disk holds
	after  time.Duration
	cause  timedCause
	disk   [][]byte // at the start

	mu   sync.Mutex
	live *instance // after this step; nil: to be replayed
}

// moment is a state of a member.
type moment struct {
	self   int
	life   uint64
	number uint32 // identifies it
	past   *past
	since  time.Duration // time since the last step
	due    time.Duration // time until it has something to do; never: nothing
	guard  time.Duration // time until its lease ends; 0: it has none
	told   election.Token
	held   uint64 // the highest epoch that it has announced
	dead   bool

	mu   sync.RWMutex
	next map[timedCause]*timedEffect
}

const never = time.Duration(1<<63 - 1)

// timedCause is what happens to a member.
type timedCause struct {
	kind    timedKind
	peer    int
	life    uint64 // of LinkUp and of starting
	refused bool
	m       *timedMessage
	age     time.Duration // since its stamp
	pass    time.Duration
}

type timedKind uint8

const (
	itStarts timedKind = iota + 1
	itWakes
	itHears
	linkUp
	linkDown
	dialFailed
	itDies
	timePasses // and the member does nothing
)

// timedEffect is the result of a step.
type timedEffect struct {
	to    *moment
	acts  []timedAct
	ended error // the core has halted
}

type timedAct struct {
	kind  election.ActionKind
	to    int
	m     *timedMessage
	age   time.Duration // since its stamp
	token election.Token
}

// timedMessage is a message, stored once, without its stamp if that is a time.
type timedMessage struct {
	m      *election.Message
	number uint32
}

// stamped reports whether the stamp of a message is a time of the leader.
func stamped(m *election.Message) bool { return m.Kind == election.Beat || m.Kind == election.Ack }

// stampBias keeps the stamps that members receive above 0.
const stampBias = time.Duration(1) << 41

// pasts holds members' states and messages.
type pasts struct {
	x *timed

	mu       sync.RWMutex
	moments  map[digest]*moment
	messages map[string]*timedMessage
	alive    []*past // those with an instance: the oldest loses it
	oldest   int
}

// kept is how many instances are kept at a time.
const kept = 30_000

// message returns the stored message that equals m.
func (s *pasts) message(m *election.Message) *timedMessage {
	data := m.Data
	if m.Kind == election.Ack { // without the clock of its sender
		data = data[:2]
	}
	key := append(append(append(append([]byte(m.From), '>'), m.To...), m.Kind...), 0)
	key = append(append(key, m.Eligibility...), 0, flag(m.Draining))
	key = binary.AppendUvarint(key, m.Token.Epoch)
	if !stamped(m) {
		key = binary.AppendVarint(key, m.Stamp)
	}
	key = binary.AppendUvarint(key, m.Claimant)
	key = append(key, data...)
	return interned(&s.mu, s.messages, key, func() *timedMessage {
		own := *m
		return &timedMessage{&own, uint32(len(s.messages) + 1)}
	})
}

// moment returns the stored moment that equals m, of the state of an instance.
func (s *pasts) moment(m *moment, at *instance) *moment {
	b := at.core.AppendDisk([]byte{byte(m.self), flag(m.dead), byte(m.life)}, at.disk)
	now := at.now.Add(m.since)
	if !m.dead {
		b = at.core.AppendForm(append(b, 0), now)
		if at.core.Awaits() != "" {
			b = binary.LittleEndian.AppendUint64(b, at.votes)
		}
	}
	h := digestOf(b)
	s.mu.RLock()
	known := s.moments[h]
	s.mu.RUnlock()
	if known != nil {
		return known
	}
	m.told, m.held = at.told, at.core.Held().Epoch
	m.next, m.due = map[timedCause]*timedEffect{}, never
	if until := at.core.Guard(); !m.dead && until.After(now) {
		m.guard = until.Sub(now)
	}
	if due, ok := at.core.Deadline(); ok && !m.dead {
		m.due = due.Sub(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known = s.moments[h]; known == nil {
		known, m.number = m, uint32(len(s.moments)+1)
		s.moments[h] = m
	}
	return known
}

// lives records that p has an instance, and drops the oldest if there are too many.
func (s *pasts) lives(p *past) {
	s.mu.Lock()
	var old *past
	if len(s.alive) < kept {
		s.alive = append(s.alive, p)
	} else {
		old, s.alive[s.oldest] = s.alive[s.oldest], p
		s.oldest = (s.oldest + 1) % kept
	}
	s.mu.Unlock()
	if old != nil && old != p {
		old.mu.Lock()
		old.live = nil
		old.mu.Unlock()
	}
}

// reach returns an instance in the state after p, owned by the caller. It replays the steps if p
// has none.
func (s *pasts) reach(self int, p *past) *instance {
	p.mu.Lock()
	at := p.live
	p.live = nil
	p.mu.Unlock()
	if at != nil {
		return at
	}
	var way []*past
	for q := p; ; q = q.before {
		way = append(way, q)
		if q.before == nil {
			break
		}
	}
	if s.x.log != nil { // a script, with a single worker
		defer func(before bool) { s.x.silent = before }(s.x.silent)
		s.x.silent = true
	}
	for i := len(way) - 1; i >= 0; i-- {
		at, _ = s.step(self, at, way[i], nil)
	}
	return at
}

// effect returns the effect of a cause, from the cache if possible.
func (s *pasts) effect(m *moment, cause timedCause) *timedEffect {
	m.mu.RLock()
	e := m.next[cause]
	m.mu.RUnlock()
	if e != nil && s.x.log == nil {
		return e
	}
	e = s.effectOf(m, cause)
	m.mu.Lock()
	m.next[cause] = e
	m.mu.Unlock()
	return e
}

func (s *pasts) effectOf(m *moment, cause timedCause) *timedEffect {
	e := &timedEffect{}
	like := &moment{self: m.self, life: m.life, past: m.past, since: m.since + cause.pass, dead: m.dead}
	var at *instance
	switch cause.kind {
	case timePasses:
		at = s.reach(m.self, m.past)
	case itDies:
		at = s.reach(m.self, m.past)
		like.dead, like.since = true, 0
	case itStarts:
		like = &moment{self: m.self, life: cause.life, past: &past{cause: cause}}
		if m.past != nil {
			dead := s.reach(m.self, m.past)
			like.past.disk = dead.disk
			s.putBack(m.past, dead)
		}
		at, e.ended = s.step(m.self, nil, like.past, &e.acts)
	default:
		like.past, like.since = &past{before: m.past, after: m.since, cause: cause}, 0
		at, e.ended = s.step(m.self, s.reach(m.self, m.past), like.past, &e.acts)
	}
	if e.ended == nil {
		e.to = s.moment(like, at)
	}
	s.putBack(like.past, at)
	return e
}

func (s *pasts) putBack(p *past, at *instance) {
	p.mu.Lock()
	p.live = at
	p.mu.Unlock()
	s.lives(p)
}

// step takes a step of a member, and those that follow at once: a write ends before anything
// else happens.
func (s *pasts) step(self int, at *instance, p *past, acts *[]timedAct) (*instance, error) {
	if p.before == nil {
		var err error
		if at, err = s.x.boot(self, p); err != nil {
			return nil, err
		}
	}
	at.now = at.now.Add(p.after)
	ev := s.x.event(at, p.cause)
	for saved := true; saved; ev = (election.Event{Kind: election.Saved}) {
		saved = false
		actions := at.core.Step(at.now, ev)
		for i := range actions {
			a := &actions[i]
			switch a.Kind {
			case election.Append:
				if a.Replace {
					at.disk = nil
				}
				at.disk = append(at.disk[:len(at.disk):len(at.disk)], a.Records...)
				saved = true
			case election.Halt:
				return at, a.Err
			}
			if act, of := s.act(at, p.cause.kind, a); of && acts != nil {
				*acts = append(*acts, act)
			}
		}
	}
	return at, nil
}

// act returns the part of an action that a search uses.
func (s *pasts) act(at *instance, cause timedKind, a *election.Action) (act timedAct, of bool) {
	act = timedAct{kind: a.Kind, token: a.Token}
	if a.To != election.None {
		act.to = s.x.index(a.To)
	}
	switch a.Kind {
	case election.Dial, election.Hangup:
	case election.NotifyElected:
		at.told = a.Token
	case election.NotifyLost:
		at.told = election.Token{}
	case election.Send:
		// Over a new link a member repeats its request, and the answers until then count.
		if k := a.Message.Kind; (k == "vote" || k == "pre-vote") && cause != linkUp {
			at.votes = 0
		}
		act.m, act.token = s.message(a.Message), a.Message.Token
		switch a.Message.Kind {
		case election.Beat: // it leaves now
		case election.Ack:
			act.age = at.now.Sub(at.origin) + stampBias - time.Duration(a.Message.Stamp)
		}
	default:
		return act, false
	}
	return act, true
}
