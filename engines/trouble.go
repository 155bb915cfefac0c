package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// trouble is why the engine does not serve this candidate. The zero value: it does.
type trouble struct {
	err    error
	of     call      // the call that err answered
	at     time.Time // of err
	logged time.Time // when the last refusal was logged

	claimed time.Time // since when the record was as the last claim expects it
	free    time.Time // the same of the first claim in vain
	refused time.Time // when that claim was refused
}

// errVain means that no claim succeeds, and that no candidate leads.
var errVain = errors.New("the record is free, and the store refuses each claim of it: make sure that no candidate leads, and delete what is left of the record there, such as the metadata of an object that was deleted")

// vain returns [errVain] if claims of the same free record are refused for a lease. In a race for the record it
// changes within that time.
func (t *trouble) vain(now time.Time, lease time.Duration) error {
	if !t.free.Equal(t.claimed) {
		t.free, t.refused = t.claimed, now
	}
	if now.Sub(t.refused) < lease {
		return nil
	}
	return errVain
}

// deniedAgain is the time between two log lines about a refusal. It is also for how long the refusal of a claim, a renewal
// or a release remains in the status while the record can be read; any other failure remains for a lease.
const deniedAgain = time.Minute

// note logs when calls of the engine begin to fail or are refused, and when they succeed again.
func (e *Election) note(what call, err error) {
	if errors.Is(err, context.Canceled) {
		return // this candidate has ended the call: that shows nothing of the engine
	}
	t, now := &e.trouble, time.Now()
	if errors.Is(err, ErrTaken) && what == callClaim {
		err = t.vain(now, e.cfg.Lease)
	} else if errors.Is(err, ErrTaken) {
		err = nil
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no answer to the call %q within %v: %w", string(what), e.cfg.asking(), err)
	}
	remains := e.cfg.Lease
	if errors.Is(t.err, ErrDenied) {
		remains = deniedAgain
	}
	switch {
	case errors.Is(err, ErrDenied), errors.Is(err, errVain):
		if t.logged.IsZero() || now.Sub(t.logged) >= deniedAgain {
			t.logged = now
			e.cfg.Logger.Warn("the engine refuses this candidate", "engine", e.engine.Name(), "error", err)
		}
	case errors.Is(err, ErrDamaged) && !errors.Is(t.err, ErrDamaged):
		e.cfg.Logger.Warn("the record cannot be used", "engine", e.engine.Name(), "error", err)
	case err != nil && t.err == nil:
		e.cfg.Logger.Warn("a call of the engine has failed", "engine", e.engine.Name(), "error", err)
	case err == nil && t.err != nil && what == callLook && t.of != callLook && now.Sub(t.at) < remains:
		return // the record can be read, and not written
	case err == nil && t.err != nil && what != callLook && t.of == callLook:
		return // the record can be written, and not read
	case err == nil && t.err != nil:
		e.cfg.Logger.Info("the engine answers again", "engine", e.engine.Name())
	}
	t.err, t.of, t.at = err, what, now
}
