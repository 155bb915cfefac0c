// Package leaderelection holds the election of client-go's leaderelection, and of controller-runtime, among batuta's members:
// without a Lease, and with batuta's times.
//
//	lock := leaderelection.Start(ctx, node, node.ID())
//	defer lock.Close()
//	mgr, err := ctrl.NewManager(config, ctrl.Options{LeaderElection: true, LeaderElectionReleaseOnCancel: true,
//		LeaderElectionResourceLockInterface: lock})
//	err = mgr.Start(lock.Context())
//
// Give the manager, or Run of client-go, [Lock.Context]: it ends when the leadership does. client-go by itself notices that at
// its next renewal, while another member may lead.
package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/batuta-dev/batuta"
)

// Lock is a [resourcelock.Interface] of a single candidate, for a single leadership: the next leadership needs a new Lock,
// because the users of client-go end their process after a leadership. It is safe for use by several goroutines.
type Lock struct {
	e       batuta.Elector
	id      batuta.ID
	ctx     context.Context
	cancel  context.CancelCauseFunc
	held    atomic.Pointer[batuta.Held]
	stopped chan struct{} // closed when nothing is waited for any more
	release sync.Once
	reads   atomic.Uint64
}

var _ resourcelock.Interface = (*Lock)(nil)

// Start makes this process a candidate until it has led, ctx ends, or Close. The id is that of e's candidate.
func Start(ctx context.Context, e batuta.Elector, id batuta.ID) *Lock {
	l := &Lock{e: e, id: id, stopped: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	go l.hold()
	return l
}

// hold waits for the leadership, and for its end.
func (l *Lock) hold() {
	defer close(l.stopped)
	held, err := batuta.Acquire(l.ctx, l.e)
	if err != nil {
		l.cancel(err)
		return
	}
	l.held.Store(held)
	select {
	case <-held.Context().Done():
	case <-l.ctx.Done():
	}
	l.cancel(context.Cause(held.Context()))
}

// Context ends when the leadership that the Lock has had ends, at the latest with the context of Start. Its [context.Cause] is
// why: that of the leadership, the error of [batuta.Acquire], such as [batuta.ErrClosed], or [context.Canceled] after a release.
func (l *Lock) Context() context.Context { return l.ctx }

// Close ends the candidacy. A leadership that was not released yet is released: the work must have returned.
func (l *Lock) Close() {
	l.cancel(nil)
	<-l.stopped
	l.giveUp()
}

func (l *Lock) giveUp() {
	if held := l.held.Load(); held != nil {
		l.release.Do(held.Release)
	}
}

// leads reports whether the leadership is this Lock's, and goes on.
func (l *Lock) leads() bool {
	held := l.held.Load()
	return held != nil && l.ctx.Err() == nil && held.Context().Err() == nil && l.e.IsLeader()
}

// Get implements [resourcelock.Interface]. The record names the leader that this member knows; each record differs from the
// record before, so client-go counts no time of its own.
func (l *Lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	view := l.e.Leader()
	record := &resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 3600, LeaderTransitions: int(view.Token.Epoch), AcquireTime: meta.NewTime(view.Since), RenewTime: meta.NewTime(time.Now())}
	switch {
	case l.leads():
		record.HolderIdentity = string(l.id)
	case view.Defined() && view.Token.Leader.ID != l.id:
		record.HolderIdentity = string(view.Token.Leader.ID)
	}
	return record, fmt.Append(nil, l.reads.Add(1)), nil
}

// Create implements [resourcelock.Interface].
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update implements [resourcelock.Interface]. A record without a holder releases the leadership. With a holder, the error
// wraps [batuta.ErrNotLeading] unless the Lock has the leadership.
func (l *Lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		l.cancel(nil)
		l.giveUp()
		return nil
	}
	if !l.leads() {
		return errors.Join(batuta.ErrNotLeading, context.Cause(l.ctx))
	}
	return nil
}

// RecordEvent implements [resourcelock.Interface]. It does nothing: batuta has its own events.
func (l *Lock) RecordEvent(string) {}

// Identity implements [resourcelock.Interface].
func (l *Lock) Identity() string { return string(l.id) }

// Describe implements [resourcelock.Interface].
func (l *Lock) Describe() string { return "batuta/" + l.e.Leader().Election }
