package explore

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// A cluster has millions of states, and each member only thousands. So a search
// keeps every member's state and every message once, and takes each step of a
// member once: the next time it is looked up.

// local is one state of one member.
type local struct {
	m      *machine.Machine // never stepped: clones of it are
	self   int
	timers []string
	epoch  uint64 // the lowest it holds
	round  uint64

	mu    sync.RWMutex
	next  map[cause]*effect
	forms []form
}

// cause is an event in a form that can be looked up; messages are kept once, so
// that equal ones are the same.
type cause struct {
	kind election.EventKind
	msg  *envelope
	name string
	peer election.ID
}

// effect is what a step led to.
type effect struct {
	to      *local
	actions []act
	wrong   string // a move between phases that the table does not have
}

// act is what a search needs of an action.
type act struct {
	kind     election.ActionKind
	token    election.Token
	envelope *envelope // Send
	to       int
}

// envelope is a message, kept once.
type envelope struct {
	m         *election.Message // nil: the end of the connection
	epoch     uint64            // the lowest it holds, 0: none
	initiator int

	mu    sync.RWMutex
	forms []form
}

// form is the canonical form of something under certain bases.
type form struct {
	epoch, round uint64
	text         []byte
}

// store keeps members' states and messages.
type store struct {
	mu        sync.RWMutex
	locals    map[string]*local
	envelopes map[string]*envelope
}

func newStore() *store {
	return &store{locals: map[string]*local{}, envelopes: map[string]*envelope{}}
}

func (s *store) local(self int, m *machine.Machine) *local {
	key := m.AppendState([]byte{byte(self)}, 0, 0)
	return interned(&s.mu, s.locals, key, func() *local {
		return &local{m: m, self: self, timers: m.Timers(), epoch: m.MinEpoch(), round: m.MinRound(), next: map[cause]*effect{}}
	})
}

// interned gives what a table has under a key, which is made at first need: many look it up
// that others have put there.
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

func (s *store) envelope(x *explorer, m *election.Message) *envelope {
	l := &envelope{m: m, initiator: x.index(m.Round.Initiator)}
	for _, e := range [...]uint64{m.Token.Epoch, m.Highest} {
		if e > 0 && (l.epoch == 0 || e < l.epoch) {
			l.epoch = e
		}
	}
	key := appendMessage(append(append(append([]byte(nil), m.From...), '>'), m.To...), m, 0, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.envelopes[string(key)]; known != nil {
		return known
	}
	s.envelopes[string(key)] = l
	return l
}

// formed gives the canonical form under these bases, made at first need.
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
	b = append(append(b, m.Eligibility...), 0)
	b = election.AppendRelative(b, m.Round.Number, round)
	b = append(append(b, m.Round.Initiator...), 0)
	b = binary.AppendUvarint(b, uint64(m.Hops))
	b = append(b, flag(m.Ended)|flag(m.Age < 0)<<1|flag(m.Draining)<<2, byte(len(m.Ring)))
	for _, r := range m.Ring {
		b = append(append(b, r.ID...), 0)
	}
	return b
}

func appendToken(b []byte, t election.Token, base uint64) []byte {
	b = election.AppendRelative(b, t.Epoch, base)
	return append(append(b, t.Leader.ID...), 0)
}

// effectOf steps a member's state, or knows what came of it before. With a log
// every step is taken anew, for the log to hear it.
func (x *explorer) effectOf(l *local, cs cause) *effect {
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

// steps lets m take the event and all that follows at once: a save is over
// before anything else happens.
func (x *explorer) steps(self int, m *machine.Machine, cs cause) *effect {
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
