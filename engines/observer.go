package engines

import (
	"context"
	"time"
)

// observer measures for how long a record has not changed. It reads the clock that does not advance
// while the machine is suspended: a candidate that waits too long is safe.
type observer struct {
	seen  Record
	since time.Time // when it was first seen as it is; zero: nothing was seen yet
	blind bool      // it could not be read when last looked at, so that it may have changed since
	until time.Time // until then a holder may lead with a record that the engine has lost
}

func (o *observer) see(r Record, now time.Time) {
	if o.since.IsZero() || r.Version != o.seen.Version {
		o.since = now
	}
	if o.seen.held() && !r.held() && !r.Resigned && r.Epoch < o.seen.Epoch {
		o.until = now.Add(o.seen.Lasts)
	}
	o.seen, o.blind = r, false
}

// expired reports whether the holder of the record has not renewed it in time.
func (o *observer) expired(now time.Time) bool {
	return o.seen.held() && now.Sub(o.since) >= o.seen.Lasts
}

// free reports whether the record may be claimed.
func (o *observer) free(now time.Time) bool {
	return !o.since.IsZero() && !o.blind && !now.Before(o.until) && (!o.seen.held() || o.expired(now))
}

// rest is how long until the record may be claimed, if that takes time.
func (o *observer) rest(now time.Time) (time.Duration, bool) {
	if now.Before(o.until) {
		return o.until.Sub(now), true
	}
	if o.since.IsZero() || !o.seen.held() || o.expired(now) {
		return 0, false
	}
	return o.seen.Lasts - now.Sub(o.since), true
}

// looker reads the record again and again: when the engine hints at a change, when it is
// woken, and twice between two renewals anyway.
func (e *Election) looker() {
	for e.ctx.Err() == nil {
		l := e.lookOnce()
		select {
		case e.looks <- l:
		case <-e.ctx.Done():
			return
		}
		pause := e.cfg.Renew / 2
		if l.err != nil {
			pause = e.cfg.again()
		}
		e.await(l, pause)
	}
}

func (e *Election) lookOnce() look {
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.asking())
	defer cancel()
	began := e.clock.Now()
	r, err := e.engine.Look(ctx)
	return look{r, err, began}
}

// await returns after the pause, when the record may have changed, or when it is to be looked at.
func (e *Election) await(l look, pause time.Duration) {
	ctx, cancel := context.WithTimeout(e.ctx, pause)
	defer cancel()
	if l.err == nil {
		e.beside.Go(func() {
			if e.engine.Changed(ctx, l.record) == nil {
				cancel()
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-e.nudge:
	}
}
