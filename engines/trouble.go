package engines

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trouble is why the engine does not serve this candidate. The zero value: it does.
type trouble struct {
	err    error
	of     call      // the call that err answered
	at     time.Time // of err
	logged time.Time // when the last refusal was logged
}

// deniedAgain is the time between two log lines about a refusal. It is also for how long the refusal of a claim, a renewal
// or a release remains in the status while the record can be read; any other failure remains for a lease.
const deniedAgain = time.Minute

// note logs when the engine stops answering or refuses access, and when it answers again.
func (e *Election) note(what call, err error) {
	if errors.Is(err, context.Canceled) {
		return // this candidate has ended the call: that shows nothing of the engine
	}
	if errors.Is(err, ErrTaken) {
		err = nil
	} else if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer to the call %q within %v: %w", string(what), e.cfg.asking(), err)
	}
	t, now := &e.trouble, time.Now()
	remains := e.cfg.Lease
	if errors.Is(t.err, ErrDenied) {
		remains = deniedAgain
	}
	switch {
	case errors.Is(err, ErrDenied):
		if t.logged.IsZero() || now.Sub(t.logged) >= deniedAgain {
			t.logged = now
			e.cfg.Logger.Warn("the engine refuses access", "engine", e.engine.Name(), "error", err)
		}
	case errors.Is(err, ErrDamaged) && !errors.Is(t.err, ErrDamaged):
		e.cfg.Logger.Warn("the record cannot be used", "engine", e.engine.Name(), "error", err)
	case err != nil && t.err == nil:
		e.cfg.Logger.Warn("the engine does not answer", "engine", e.engine.Name(), "error", err)
	case err == nil && t.err != nil && what == callLook && t.of != callLook && now.Sub(t.at) < remains:
		return // the record can be read, and not written
	case err == nil && t.err != nil && what != callLook && t.of == callLook:
		return // the record can be written, and not read
	case err == nil && t.err != nil:
		e.cfg.Logger.Info("the engine answers again", "engine", e.engine.Name())
	}
	t.err, t.of, t.at = err, what, now
}
