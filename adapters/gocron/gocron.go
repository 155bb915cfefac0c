// Package gocron has the jobs of a [github.com/go-co-op/gocron/v2] scheduler run on the leader.
//
//	gocron.NewScheduler(gocron.WithDistributedLocker(batutagocron.Locker(node)))
//
// Use either Locker or Elector. With [Locker] the next leadership waits for a run that has begun, so no two members run a job
// at the same time, unless the leader is cut off. [Elector] only asks at each scheduled time.
package gocron

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/batuta-dev/batuta"
)

// Elector permits a job to begin while this candidate leads. A run that has begun goes on when the leadership ends.
func Elector(e batuta.Elector) gocron.Elector { return elector{e} }

type elector struct{ batuta.Elector }

// IsLeader implements [gocron.Elector]. Its error wraps [batuta.ErrNotLeading].
func (e elector) IsLeader(context.Context) error {
	if e.Elector.IsLeader() {
		return nil
	}
	return batuta.ErrNotLeading
}

// Locker permits a job to begin while this candidate leads, and counts its run into that leadership by
// [batuta.Elector]'s Hold: if the leader resigns or hands over, the next leadership begins after the run. gocron cannot cancel
// the run. If the leader is cut off, the next leadership may begin while the run goes on: fence what it writes.
func Locker(e batuta.Elector) gocron.Locker { return locker{e} }

type locker struct{ e batuta.Elector }

// Lock implements [gocron.Locker]. All jobs have the same election; the key is not used.
func (l locker) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	_, release, err := l.e.Hold(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	return lock(release), nil
}

type lock func()

// Unlock implements [gocron.Lock].
func (l lock) Unlock(context.Context) error {
	l()
	return nil
}
