package batuta

import (
	"sync"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/wire"
)

// tally counts what comes in, for Status.
type tally struct {
	mu         sync.Mutex
	messages   map[election.MessageKind]uint64
	handshakes map[wire.Reason]uint64
	frames     map[wire.Reason]uint64
}

func newTally() *tally {
	return &tally{
		messages:   map[election.MessageKind]uint64{},
		handshakes: map[wire.Reason]uint64{},
		frames:     map[wire.Reason]uint64{},
	}
}

func (t *tally) received(kind election.MessageKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages[kind]++
}

func (t *tally) refused(why wire.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handshakes[why]++
}

func (t *tally) bad(why wire.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames[why]++
}

func (t *tally) copyInto(s *Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Received = byName(t.messages)
	s.Refused = byName(t.handshakes)
	s.Bad = byName(t.frames)
}

func byName[K ~string](counts map[K]uint64) map[string]uint64 {
	named := make(map[string]uint64, len(counts))
	for k, n := range counts {
		named[string(k)] = n
	}
	return named
}
