package explore

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// A cluster has millions of states, but each member only thousands. So a search stores each
// state of a member and each message once, and caches the effect of each step of a member.

// local is a state of a member.
type local struct {
	m      *machine.Machine // never stepped: only its clones are
	self   int
	timers []string
	epoch  uint64 // the lowest that it holds
	round  uint64

	mu    sync.RWMutex
	next  map[cause]*effect
	forms []form
}

// cause is an event as a key of a map. Each message is stored once, so equal messages have equal
// pointers.
type cause struct {
	kind election.EventKind
	msg  *envelope
	name string
	peer election.ID
}

// effect is the result of a step.
type effect struct {
	to      *local
	actions []act
	wrong   string // a move between phases that the table does not have
}

// act is the part of an action that a search uses.
type act struct {
	kind     election.ActionKind
	token    election.Token
	envelope *envelope // of Send
	to       int
}

// envelope is a message, stored once.
type envelope struct {
	m         *election.Message // nil: the end of the connection
	epoch     uint64            // the lowest that it holds; 0: none
	initiator int

	mu    sync.RWMutex
	forms []form
}

// form is a canonical form relative to a lowest epoch and round.
type form struct {
	epoch, round uint64
	text         []byte
}

// store holds members' states and messages.
type store struct {
	mu        sync.RWMutex
	locals    map[string]*local
	envelopes map[string]*envelope
}

func (s *store) local(self int, m *machine.Machine) *local {
	key := m.AppendState([]byte{byte(self)}, 0, 0)
	return interned(&s.mu, s.locals, key, func() *local {
		return &local{m: m, self: self, timers: m.Timers(), epoch: m.MinEpoch(), round: m.MinRound(), next: map[cause]*effect{}}
	})
}

// interned returns the entry of a table under a key, and creates it if there is none. Most
// lookups find an entry, so it first takes the read lock only.
func interned[V any](mu *sync.RWMutex, table map[string]*V, key []byte, create func() *V) *V {
	mu.RLock()
	known := table[string(key)]
	mu.RUnlock()
	if known != nil {
		return known
	}
	mu.Lock()
	defer mu.Unlock()
	if known = table[string(key)]; known == nil {
		known = create()
		table[string(key)] = known
	}
	return known
}

func (s *store) envelope(x *untimed, m *election.Message) *envelope {
	key := appendMessage(append(append(append([]byte(nil), m.From...), '>'), m.To...), m, 0, 0)
	return interned(&s.mu, s.envelopes, key, func() *envelope {
		l := &envelope{m: m, epoch: m.Token.Epoch, initiator: x.index(m.Round.Initiator)}
		for _, e := range [...]uint64{m.Highest, m.Renews} {
			if e > 0 && (l.epoch == 0 || e < l.epoch) {
				l.epoch = e
			}
		}
		return l
	})
}

// formed returns the canonical form relative to epoch and round, written at first use.
func formed(mu *sync.RWMutex, forms *[]form, epoch, round uint64, write func() []byte) []byte {
	mu.RLock()
	for _, f := range *forms {
		if f.epoch == epoch && f.round == round {
			mu.RUnlock()
			return f.text
		}
	}
	mu.RUnlock()
	text := write()
	mu.Lock()
	*forms = append(*forms, form{epoch, round, text})
	mu.Unlock()
	return text
}

func (l *local) form(epoch, round uint64) []byte {
	return formed(&l.mu, &l.forms, epoch, round, func() []byte { return l.m.AppendState(nil, epoch, round) })
}

func (l *envelope) form(epoch, round uint64) []byte {
	if l.m == nil {
		return endForm
	}
	return formed(&l.mu, &l.forms, epoch, round, func() []byte { return appendMessage(nil, l.m, epoch, round) })
}

var endForm = []byte("goodbye\x00")

func appendMessage(b []byte, m *election.Message, epoch, round uint64) []byte {
	b = append(append(b, m.Kind...), 0)
	b = appendToken(b, m.Token, epoch)
	b = election.AppendRelative(b, m.Highest, epoch)
	b = election.AppendRelative(b, m.Renews, epoch)
	b = append(append(b, m.Eligibility...), 0)
	b = election.AppendRelative(b, m.Round.Number, round)
	b = append(append(b, m.Round.Initiator...), 0)
	b = binary.AppendUvarint(b, uint64(m.Hops))
	b = append(b, flag(m.Ended)|flag(m.Age < 0)<<1|flag(m.Draining)<<2|flag(m.Follows)<<3, byte(len(m.Ring)))
	for _, r := range m.Ring {
		b = append(append(b, r.ID...), 0)
	}
	return b
}

func appendToken(b []byte, t election.Token, base uint64) []byte {
	b = election.AppendRelative(b, t.Epoch, base)
	return append(append(b, t.Leader.ID...), 0)
}

// effectOf returns the effect of an event on a member's state, from the cache if possible. With
// a log it takes every step again, so that the log receives it.
func (x *untimed) effectOf(l *local, cs cause) *effect {
	l.mu.RLock()
	e := l.next[cs]
	l.mu.RUnlock()
	if e != nil && x.log == nil {
		return e
	}
	e = x.steps(l.self, l.m.Clone(), cs)
	l.mu.Lock()
	l.next[cs] = e
	l.mu.Unlock()
	return e
}

// steps applies the event to m, and all that follows at once: a save ends before anything else
// happens.
func (x *untimed) steps(self int, m *machine.Machine, cs cause) *effect {
	ev := election.Event{Kind: cs.kind, Name: cs.name, Peer: cs.peer}
	if cs.msg != nil {
		ev.Message = cs.msg.m
	}
	e := &effect{}
	for saved := true; saved; ev = (election.Event{Kind: election.Saved}) {
		saved = false
		actions := m.Step(instant, ev)
		if from, to, wrong := m.Moved(); wrong {
			e.wrong = fmt.Sprintf("it goes from %v to %v", from, to)
		}
		for _, a := range actions {
			switch a.Kind {
			case election.NotifyElected, election.NotifyLost:
				e.actions = append(e.actions, act{kind: a.Kind, token: a.Token})
			case election.Save:
				e.actions = append(e.actions, act{kind: a.Kind, token: a.State.Token})
				saved = len(e.actions) < 100
			case election.Send:
				e.actions = append(e.actions, act{kind: a.Kind, token: a.Message.Token, envelope: x.store.envelope(x, a.Message), to: x.index(a.To)})
			}
		}
	}
	e.to = x.store.local(self, m)
	return e
}
