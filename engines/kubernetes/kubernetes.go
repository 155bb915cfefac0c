// Package kubernetes holds elections on a Lease of coordination.k8s.io, as client-go's
// leaderelection does. Candidates of both may use the same Lease, and each respects the terms of
// the rest.
//
// A Lease's leaseTransitions fences nothing: it starts again when the Lease is deleted, does not
// rise when a process comes back under its identity, and is written by the process that replaces the
// holder. So the epoch here is the number after the resourceVersion that a claim has replaced. The API
// server lets a single claim replace that version, and its versions rise over the life of its storage
// (Kubernetes 1.35 and later document that they compare as numbers). An annotation keeps the epoch. The
// leadership of a client-go candidate has as its epoch the resourceVersion at which it was first seen:
// that serves to order leaderships, and is no fence.
//
// A candidate needs the verbs get, create, update and watch on the Lease; without watch it
// looks twice between two renewals. [Engine.Check] finds a refusal beforehand, by a dry run.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Leases is what the engine needs of a client, such as k8s.io/client-go's CoordinationV1().Leases(namespace).
type Leases interface {
	Get(ctx context.Context, name string, opts meta.GetOptions) (*coordination.Lease, error)
	Create(ctx context.Context, lease *coordination.Lease, opts meta.CreateOptions) (*coordination.Lease, error)
	Update(ctx context.Context, lease *coordination.Lease, opts meta.UpdateOptions) (*coordination.Lease, error)
	Watch(ctx context.Context, opts meta.ListOptions) (watch.Interface, error)
}

// Annotations of a Lease that a candidate of batuta's holds, or has held.
const (
	annotationEpoch    = "batuta.dev/epoch"
	annotationProcess  = "batuta.dev/process"
	annotationAddress  = "batuta.dev/address"
	annotationAcquired = "batuta.dev/acquired" // the acquireTime that they go with: client-go leaves them when it takes over
)

// Engine is an [engines.Engine] on a Lease.
type Engine struct {
	leases Leases
	name   string

	mu      sync.Mutex
	last    *coordination.Lease // as last read or written; nil: none was
	foreign foreigner
}

// foreigner is a leadership that is not batuta's, and the epoch that views give it.
type foreigner struct {
	id, acquired string
	epoch        uint64
}

// New returns the engine of the election that the Lease of that name holds, for a single candidate.
func New(leases Leases, name string) *Engine { return &Engine{leases: leases, name: name} }

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "kubernetes" }

// missing is the Version of a Lease that is not there.
const missing = "missing"

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	lease, err := e.leases.Get(ctx, e.name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return engines.Record{Version: missing}, nil
	}
	if err != nil {
		return engines.Record{}, e.explain(err)
	}
	e.keep(lease)
	return e.record(lease)
}

func (e *Engine) keep(lease *coordination.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = lease
}

// record decodes a Lease.
func (e *Engine) record(lease *coordination.Lease) (engines.Record, error) {
	number, err := strconv.ParseUint(lease.ResourceVersion, 10, 53)
	if err != nil {
		return engines.Record{}, fmt.Errorf("the resourceVersion %q of Lease %s is no number: this API server gives no epochs", lease.ResourceVersion, e.name)
	}
	r := engines.Record{Version: lease.ResourceVersion}
	epoch, ours := ownEpoch(lease)
	if id := holder(lease); id != "" {
		r.ID, r.Lasts = batuta.ID(id), time.Duration(value(lease.Spec.LeaseDurationSeconds))*time.Second
		if r.Lasts <= 0 || r.Lasts > engines.MaxLease {
			return engines.Record{}, record.Damaged("Lease "+e.name, "it has the holder %.40q, and a leaseDurationSeconds of %d", id, value(lease.Spec.LeaseDurationSeconds))
		}
		if ours {
			r.Epoch, r.Process, r.Address = epoch, lease.Annotations[annotationProcess], lease.Annotations[annotationAddress]
			return record.Check("Lease "+e.name, r, r.Lasts.Milliseconds())
		}
		r.Epoch = e.foreignEpoch(id, acquired(lease), number)
		return r, nil
	}
	r.Epoch, r.Resigned = epoch, true // only a release empties it
	return r, nil
}

// ownEpoch is the epoch of a Lease that a candidate of batuta's holds, or has given up.
func ownEpoch(lease *coordination.Lease) (uint64, bool) {
	epoch, err := strconv.ParseUint(lease.Annotations[annotationEpoch], 10, 53)
	return epoch, err == nil && lease.Annotations[annotationAcquired] == acquired(lease)
}

// foreignEpoch is the epoch of a leadership that is not batuta's: it stays the same while that leadership lasts.
func (e *Engine) foreignEpoch(id, acquired string, number uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.foreign.id != id || e.foreign.acquired != acquired {
		e.foreign = foreigner{id, acquired, number}
	}
	return e.foreign.epoch
}

func holder(lease *coordination.Lease) string { return value(lease.Spec.HolderIdentity) }

func acquired(lease *coordination.Lease) string {
	if lease.Spec.AcquireTime == nil {
		return ""
	}
	return lease.Spec.AcquireTime.UTC().Format(time.RFC3339Nano)
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Changed implements [engines.Engine].
func (e *Engine) Changed(ctx context.Context, seen engines.Record) error {
	if seen.Version == missing {
		<-ctx.Done()
		return ctx.Err()
	}
	w, err := e.leases.Watch(ctx, meta.ListOptions{FieldSelector: "metadata.name=" + e.name, ResourceVersion: seen.Version})
	if err != nil {
		return err
	}
	defer w.Stop()
	select {
	case ev, more := <-w.ResultChan():
		if !more || ev.Type == watch.Error {
			return errors.New("the watch has ended")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// at gives the Lease as it was at that version, to be changed.
func (e *Engine) at(ctx context.Context, version string) (*coordination.Lease, error) {
	e.mu.Lock()
	last := e.last
	e.mu.Unlock()
	if last != nil && last.ResourceVersion == version {
		return last.DeepCopy(), nil
	}
	lease, err := e.leases.Get(ctx, e.name, meta.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && lease.ResourceVersion != version {
		return nil, engines.ErrTaken
	}
	return lease, e.explain(err)
}

// Claim implements [engines.Engine]. A Lease that is missing is created first, without a holder: a
// claim needs a version to replace.
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	var lease *coordination.Lease
	var err error
	if seen.Version == missing {
		lease, err = e.leases.Create(ctx, &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: e.name}}, meta.CreateOptions{})
		if err = e.explain(err); apierrors.IsAlreadyExists(err) {
			err = engines.ErrTaken
		}
	} else {
		lease, err = e.at(ctx, seen.Version)
	}
	if err != nil {
		return engines.Record{}, err
	}
	replaced, err := strconv.ParseUint(lease.ResourceVersion, 10, 53)
	if err != nil {
		return engines.Record{}, fmt.Errorf("the resourceVersion %q of Lease %s is no number: this API server gives no epochs", lease.ResourceVersion, e.name)
	}
	mine.Epoch = replaced + 1
	e.occupy(lease, mine)
	return e.put(ctx, lease, mine)
}

// occupy writes into a Lease that mine holds it.
func (e *Engine) occupy(lease *coordination.Lease, mine engines.Record) {
	now := meta.NewMicroTime(time.Now().Truncate(time.Microsecond)) // no more is kept
	id, transitions := string(mine.ID), value(lease.Spec.LeaseTransitions)
	if holder(lease) != id {
		transitions++ // as client-go counts
	}
	seconds := int32((mine.Lasts + time.Second - 1) / time.Second)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.LeaseTransitions = &id, &seconds, &transitions
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotationEpoch] = strconv.FormatUint(mine.Epoch, 10)
	lease.Annotations[annotationProcess] = mine.Process
	lease.Annotations[annotationAddress] = mine.Address
	lease.Annotations[annotationAcquired] = acquired(lease)
}

// put replaces the Lease if it is still at its version.
func (e *Engine) put(ctx context.Context, lease *coordination.Lease, mine engines.Record) (engines.Record, error) {
	put, err := e.leases.Update(ctx, lease, meta.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return engines.Record{}, engines.ErrTaken
	case err != nil:
		return engines.Record{}, e.explain(err)
	}
	e.keep(put)
	mine.Version = put.ResourceVersion
	return mine, nil
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return e.change(ctx, mine, func(lease *coordination.Lease) {
		// client-go sees no more of the time than its seconds, and must see that it was renewed.
		now, least := meta.NowMicro(), value(lease.Spec.RenewTime).Add(time.Second)
		if now.Time.Before(least) {
			now = meta.NewMicroTime(least)
		}
		lease.Spec.RenewTime = &now
	})
}

// Release implements [engines.Engine].
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := e.change(ctx, mine, func(lease *coordination.Lease) {
		nobody, second := "", int32(1) // as client-go gives it up
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &second
		delete(lease.Annotations, annotationProcess)
		delete(lease.Annotations, annotationAddress)
	})
	return err
}

// change changes a Lease that mine holds, also if something else in it was changed meanwhile.
func (e *Engine) change(ctx context.Context, mine engines.Record, f func(*coordination.Lease)) (engines.Record, error) {
	for {
		lease, err := e.at(ctx, mine.Version)
		if errors.Is(err, engines.ErrTaken) {
			lease, err = e.leases.Get(ctx, e.name, meta.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			return engines.Record{}, engines.ErrTaken
		}
		if err != nil {
			return engines.Record{}, e.explain(err)
		}
		if epoch, ours := ownEpoch(lease); !ours || epoch != mine.Epoch || lease.Annotations[annotationProcess] != mine.Process || holder(lease) != string(mine.ID) {
			return engines.Record{}, engines.ErrTaken
		}
		f(lease)
		r, err := e.put(ctx, lease, mine)
		if !errors.Is(err, engines.ErrTaken) {
			return r, err
		}
		mine.Version = "" // read it again
	}
}

// Check gives an error that wraps [engines.ErrDenied] when Kubernetes would refuse a candidate's calls, and the client's error
// when it does not answer. It changes nothing. The right to create the Lease counts only while it is missing.
func (e *Engine) Check(ctx context.Context) error {
	seen, err := e.Look(ctx)
	if err != nil {
		return err
	}
	dry := []string{meta.DryRunAll}
	lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: e.name}}
	if seen.Version == missing {
		_, err = e.leases.Create(ctx, lease, meta.CreateOptions{DryRun: dry})
	} else {
		lease, err = e.at(ctx, seen.Version)
	}
	if err == nil {
		_, err = e.leases.Update(ctx, lease, meta.UpdateOptions{DryRun: dry})
	}
	if errors.Is(err, engines.ErrTaken) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // a different candidate has changed the Lease meanwhile
	}
	return e.explain(err)
}

// explain finds what Kubernetes refuses.
func (e *Engine) explain(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return engines.Denied("Kubernetes refuses the credentials, %.300q", err)
	case apierrors.IsForbidden(err):
		return engines.Denied("Kubernetes refuses access, %.300q: a candidate needs the verbs get, create, update and watch on Lease %s", err, e.name)
	}
	return err
}

// Close implements [engines.Engine].
func (e *Engine) Close() error { return nil }
