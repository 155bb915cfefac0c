package electiontest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// listener checks the messages that an algorithm sends in the lab. In production, undeclared,
// absurd and oversized messages are dropped.
type listener struct {
	mu    sync.Mutex
	fault string // the first
}

// observed is an [election.Algorithm] with a listener.
type observed struct {
	election.Algorithm
	by *listener
}

// Step steps the algorithm with a listener on its actions.
func (a observed) Step(ev election.Event, out election.Actions) {
	a.Algorithm.Step(ev, &overheard{out, a})
}

// overheard is the actions of an algorithm with a listener.
type overheard struct {
	election.Actions
	by observed
}

// Send checks that a message would arrive, and sends it.
func (o *overheard) Send(to election.ID, msg election.Message) {
	o.by.by.hear(o.by.Algorithm, o.Self().ID, to, msg)
	o.Actions.Send(to, msg)
}

func (l *listener) hear(a election.Algorithm, from, to election.ID, msg election.Message) {
	fault := ""
	msg.From, msg.To, msg.Election = from, to, "default"
	if !slices.Contains(election.Kinds(a), msg.Kind) {
		fault = fmt.Sprintf("it sends a message of kind %q, which every member would drop: declare it in a method Kinds() []election.MessageKind", msg.Kind)
	} else if arrived, err := travelled(&msg); err != nil {
		fault = fmt.Sprintf("it sends a %s that every member would refuse: %v", msg.Kind, err)
	} else if !reflect.DeepEqual(*arrived, msg) {
		fault = fmt.Sprintf("it sends a %s that arrives as another: sent %+v, arrived %+v", msg.Kind, msg, *arrived)
	}
	if fault == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == "" {
		l.fault = fault
	}
}

// travelled returns a message as it arrives over a connection.
func travelled(msg *election.Message) (*election.Message, error) {
	frame, err := new(wire.Encoder).Message(msg)
	if err != nil {
		return nil, err
	}
	return wire.DecodeMessage(frame[wire.LengthSize:])
}

// listening returns fresh with a listener, and a test of its messages.
func listening(fresh func() election.Algorithm) (heard func() election.Algorithm, test func(t *testing.T)) {
	l := new(listener)
	return func() election.Algorithm {
			a := fresh()
			if _, own := a.(machine.CoreMaker); own {
				return a // it is never stepped
			}
			return observed{a, l}
		}, func(t *testing.T) {
			if l.fault != "" {
				t.Error(l.fault)
			}
		}
}
