package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/api/candidacy"
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
