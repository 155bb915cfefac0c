package engines_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
)

// Work of each kind cannot wait for the end of its own election. The refusal changes nothing, and it is of that
// election only.
func TestWorkThatShutsItsElectionDownIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, &line{memory: newMemory()}, engines.Config{ID: "1"})
		defer e.Close()
		refused := func(kind string, ctx context.Context) {
			t.Helper()
			within, cancel := context.WithTimeout(ctx, time.Minute) // without the refusal it would wait for this work
			defer cancel()
			if err := e.Shutdown(within); err != batuta.ErrInWork {
				t.Errorf("Shutdown by work of %s gives %v", kind, err)
			}
			if ctx.Err() != nil || !e.IsLeader() {
				t.Errorf("leadership is lost by Shutdown in work of %s", kind)
			}
			other := start(t, &line{memory: newMemory()}, engines.Config{ID: "2"})
			if err := other.Shutdown(within); err != nil {
				t.Errorf("Shutdown of a different election by work of %s gives %v", kind, err)
			}
		}
		err := e.Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error {
			refused("Lead", ctx)
			held, release, err := e.Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			refused("Hold", held)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		h, err := batuta.Acquire(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		refused("Acquire", h.Context())
		h.Release()
	})
}

// What is acquired is kept until it is released, by whatever end. Then the next candidate leads, and not before.
func TestWhatIsAcquiredIsKeptUntilRelease(t *testing.T) {
	for name, end := range map[string]func(*engines.Election){
		"Release":  nil,
		"Resign":   func(e *engines.Election) { e.Resign(context.Background()) },
		"Shutdown": func(e *engines.Election) { go e.Shutdown(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			a, b := start(t, &line{memory: m}, engines.Config{ID: "1"}), start(t, &line{memory: m}, engines.Config{ID: "2"})
			defer b.Close()
			defer a.Close()
			h, err := batuta.TryAcquire(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if _, fences := h.Fence(); !h.Valid() || !fences {
				t.Errorf("%+v is valid: %v", h.Leadership, h.Valid())
			}
			began := time.Now()
			if _, err := batuta.TryAcquire(t.Context(), b); !errors.Is(err, batuta.ErrNotLeading) || time.Since(began) >= batuta.TryTimeout {
				t.Errorf("TryAcquire while 1 leads: %v after %v", err, time.Since(began))
			}
			if end != nil {
				end(a)
				<-h.Context().Done()
				if lost, ok := errors.AsType[*batuta.LostError](context.Cause(h.Context())); !ok || lost.Token != h.Token || h.Valid() {
					t.Errorf("%s: it has ended by %v, valid: %v", name, context.Cause(h.Context()), h.Valid())
				}
			}
			next := make(chan *batuta.Held)
			go func() {
				h, err := batuta.Acquire(t.Context(), b)
				if err != nil {
					t.Error(err)
				}
				next <- h
			}()
			select {
			case <-next:
				t.Errorf("%s: the next leads before the release", name)
			case <-time.After(2 * engines.DefaultLease):
			}
			h.Release()
			h.Release()
			began = time.Now()
			second := <-next
			if !second.Token.Above(h.Token) || time.Since(began) > engines.DefaultLease/2 {
				t.Errorf("%s: %s follows %s after %v", name, second.Token, h.Token, time.Since(began))
			}
			second.Release()
		})
	}
}

// Nothing can be acquired without the engine, with a context that has ended, or of an election that has.
func TestWhatCannotBeAcquired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := start(t, &line{memory: m}, engines.Config{ID: "1"})
		defer e.Close()
		m.fail(true)
		began := time.Now()
		if _, err := batuta.TryAcquire(t.Context(), e); !errors.Is(err, batuta.ErrNotLeading) || time.Since(began) != batuta.TryTimeout {
			t.Errorf("TryAcquire without the engine: %v after %v", err, time.Since(began))
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // within its time, and after that
			if _, err := batuta.Acquire(ended, e); err != context.DeadlineExceeded {
				t.Errorf("Acquire without the engine: %v", err)
			}
		}
		if _, err := batuta.TryAcquire(ended, e); err != context.DeadlineExceeded {
			t.Errorf("TryAcquire with a context that has ended: %v", err)
		}
		m.fail(false)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		for _, acquire := range []func(context.Context, batuta.Elector) (*batuta.Held, error){batuta.Acquire, batuta.TryAcquire} {
			if _, err := acquire(t.Context(), e); err != batuta.ErrClosed {
				t.Errorf("of one that is closed: %v", err)
			}
		}
	})
}
