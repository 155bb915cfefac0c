package lock

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/api/candidacy"
	runner "github.com/batuta-dev/batuta/internal/work/run"
)

// script is an agent that gives these answers, and none to a call if State is "".
type script []candidacy.Turn

func (s *script) Stand(ctx context.Context, _ string, _ candidacy.Request) (candidacy.Turn, error) {
	a := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	if a.State == "" {
		<-ctx.Done()
		return a, ctx.Err()
	}
	return a, nil
}

func (s *script) EndCandidacy(context.Context, string, string) error { return nil }

// If an answer does not come there is time to ask again, while the command runs and while it waits. An agent that gives none
// at all is no agent.
func TestACallWithoutAnAnswerIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none, waits := candidacy.Turn{}, candidacy.Turn{Candidacy: "a", State: candidacy.Waiting}
		leads := candidacy.Turn{Candidacy: "a", State: candidacy.Leading, ValidMS: 4000}
		ctx, lose := context.WithCancelCause(t.Context())
		h := &holder{agent: &script{none, waits, none, leads, none, leads, none}, name: "payroll", ttl: 7 * time.Second, lose: lose}
		if _, err := h.wait(ctx, false); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, _, ok := h.lease(); ok || ctx.Err() != nil || time.Since(began) > 2*time.Second {
			t.Errorf("a call without an answer: renewed %t, lost %v, after %v", ok, context.Cause(ctx), time.Since(began))
		}
		if left, _, ok := h.lease(); !ok || left != 4*time.Second {
			t.Errorf("the next: renewed %t for %v", ok, left)
		}
		for began = time.Now(); ctx.Err() == nil; {
			h.lease()
		}
		if took := time.Since(began); took < 4*time.Second || took > 4100*time.Millisecond {
			t.Errorf("without any answer it is lost after %v", took)
		}
		silent := &holder{agent: &script{none}, name: "payroll", ttl: 7 * time.Second}
		began = time.Now()
		if _, err := silent.wait(t.Context(), false); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 8*time.Second {
			t.Errorf("an agent that never answers: %v after %v", err, time.Since(began))
		}
	})
}

// A terminal that closes ends a lock that waits: its command would begin later, without the terminal. A command that
// runs gets the signal itself.
func TestAHangupEndsALockThatWaits(t *testing.T) {
	for _, began := range []bool{false, true} {
		ctx, stop := context.WithCancelCause(t.Context())
		signals, over, held := make(chan os.Signal), make(chan struct{}), atomic.Bool{}
		held.Store(began)
		go pass(ctx, signals, &runner.Runner{}, &held, stop, over)
		signals <- syscall.SIGHUP
		signals <- syscall.SIGUSR1 // is never for batuta, and read once the first is handled
		stopped, ended := errors.AsType[runner.StopSignal](context.Cause(ctx))
		if ended == began || ended && stopped.Signal != syscall.SIGHUP {
			t.Errorf("the command runs: %t; the lock ends: %t, %v", began, ended, context.Cause(ctx))
		}
		close(over)
	}
}

// A command is not started when it would be asked to end at once: its lease has not ended then.
func TestACommandThatIsNotStartedHasTheReason(t *testing.T) {
	err := (&options{name: "x"}).ended(t.Context(), runner.Outcome{Code: -1, Expired: true, Unbegun: true}, nil)
	if err == nil || !strings.Contains(err.Error(), `not started: the lease of election "x" was not renewed in time`) {
		t.Error(err)
	}
}
