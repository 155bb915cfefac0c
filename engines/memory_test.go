package engines_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/engines"
)

// memory is an engine in memory, with one record, that can be cut off from a candidate.
type memory struct {
	mu      sync.Mutex
	record  engines.Record
	number  uint64
	changed chan struct{}
	down    bool
}

func newMemory() *memory { return &memory{changed: make(chan struct{})} }

// put replaces the record. The caller holds the lock.
func (m *memory) put(r engines.Record) engines.Record {
	m.number++
	r.Version = strconv.FormatUint(m.number, 10)
	m.record = r
	close(m.changed)
	m.changed = make(chan struct{})
	return r
}

// line is one candidate's way to it.
type line struct {
	*memory
	mu   sync.Mutex
	cut  chan struct{} // closed when the line stands; nil: it does
	lose bool          // the answer to the next claim
	deny error         // of what would replace the record
	harm error         // of what reads it
	sent int           // claims that the engine has got
	vain bool          // each claim is refused, though the record is free
}

func (l *line) pass(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if cut == nil && !l.dead() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (l *line) dead() bool {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	return l.down
}

func (l *line) sever() (heal func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = make(chan struct{})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cut = nil
	}
}

func (l *line) Name() string { return "memory" }

func (l *line) Look(ctx context.Context) (engines.Record, error) {
	if err := l.pass(ctx); err != nil {
		return engines.Record{}, err
	}
	l.mu.Lock()
	harm := l.harm
	l.mu.Unlock()
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	return l.record, harm
}

// damage has the record be read as err from now on.
func (l *line) damage(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.harm = err
}

func (l *line) Changed(ctx context.Context, seen engines.Record) error {
	l.memory.mu.Lock()
	now, changed := l.record.Version, l.changed
	l.memory.mu.Unlock()
	if now != seen.Version {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ours(mine engines.Record) func(engines.Record) bool {
	return func(now engines.Record) bool { return now.Epoch == mine.Epoch && now.Process == mine.Process }
}

// swap replaces the record if it is still the one that is meant.
func (l *line) swap(ctx context.Context, same func(now engines.Record) bool, f func() engines.Record) (engines.Record, error) {
	if err := l.pass(ctx); err != nil {
		return engines.Record{}, err
	}
	l.mu.Lock()
	deny := l.deny
	l.mu.Unlock()
	if deny != nil {
		return engines.Record{}, deny
	}
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	if !same(l.record) {
		return engines.Record{}, engines.ErrTaken
	}
	return l.put(f()), nil
}

// claims returns how many claims the engine has got.
func (l *line) claims() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

func (l *line) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	l.mu.Lock()
	l.sent++
	vain := l.vain
	l.mu.Unlock()
	if vain {
		return engines.Record{}, engines.ErrTaken
	}
	r, err := l.swap(ctx, func(now engines.Record) bool { return now.Version == seen.Version }, func() engines.Record {
		mine.Epoch = l.number + 1
		return mine
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.lose {
		l.lose = false
		return engines.Record{}, errors.New("the answer is lost")
	}
	return r, err
}

func (l *line) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return l.swap(ctx, ours(mine), func() engines.Record { return mine })
}

func (l *line) Release(ctx context.Context, mine engines.Record) error {
	_, err := l.swap(ctx, ours(mine), func() engines.Record { return engines.Record{Epoch: mine.Epoch, Resigned: true} })
	return err
}

func (l *line) Close() error { return nil }
