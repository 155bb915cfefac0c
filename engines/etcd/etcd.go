// Package etcd holds elections on etcd.
//
// An election has two keys under its prefix. PREFIX/leader exists while there is a leader, and each
// renewal writes it again; its create revision is the epoch. PREFIX/last records how the last
// leadership ended. No lease of etcd's is used: it is set in whole seconds and lasts for at least two,
// and servers before 3.4.28 and 3.5.11 may end a lease early after the server that counts it was
// stopped for a while. Each write goes through a majority of etcd, and the candidates count the lease;
// see package engines.
//
// With authentication enabled, the client's user needs a role with read and write permission on the keys
// that begin with PREFIX/. Otherwise errors wrap [engines.ErrDenied].
//
// The epoch fences. A transaction on the same etcd can require more: with [Fence] it succeeds only
// while that leadership holds the key.
package etcd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Prefix is under what batuta-engine keeps the keys of an election: Prefix + its name.
const Prefix = "/batuta/"

// Engine is an [engines.Engine] on etcd.
type Engine struct {
	client       *clientv3.Client
	prefix       string // as errors name it
	leader, last string
	revision     atomic.Int64 // of etcd, as last seen
}

// New returns the engine of an election, for a single candidate. Elections with the same prefix have
// the same keys. The client remains the caller's, and must be closed after the [engines.Election] only.
func New(client *clientv3.Client, prefix string) *Engine {
	prefix = strings.TrimSuffix(prefix, "/")
	return &Engine{client: client, prefix: prefix + "/", leader: prefix + "/leader", last: prefix + "/last"}
}

// Fence is true in a transaction while the leadership of that token holds the election with
// that prefix:
//
//	client.Txn(ctx).If(etcd.Fence("/batuta/db", l.Token)).Then(clientv3.OpPut(…)).Commit()
func Fence(prefix string, token batuta.Token) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(strings.TrimSuffix(prefix, "/")+"/leader"), "=", int64(token.Epoch))
}

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "etcd" }

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	resp, err := e.client.Txn(ctx).Then(clientv3.OpGet(e.leader), clientv3.OpGet(e.last)).Commit()
	if err != nil {
		return engines.Record{}, e.explain(err)
	}
	e.revision.Store(resp.Header.Revision)
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		r, err := e.decode(e.leader, kvs[0].Value, kvs[0].CreateRevision, true)
		r.Epoch, r.Version = uint64(kvs[0].CreateRevision), version(kvs[0].ModRevision)
		return r, err
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		r, err := e.decode(e.last, kvs[0].Value, kvs[0].ModRevision, false)
		r.Version = version(0) + " since " + version(kvs[0].ModRevision)
		return r, err
	}
	return engines.Record{Version: version(0)}, nil
}

// decode reads the value of a key, which has a holder or has none.
func (e *Engine) decode(key string, text []byte, revision int64, held bool) (engines.Record, error) {
	r, err := record.Decode("key "+key, text, uint64(revision))
	if err == nil && (r.ID != "") != held {
		err = record.Damaged("key "+key, "id is %q", r.ID)
	}
	return r, err
}

func version(revision int64) string { return strconv.FormatInt(revision, 10) }

// Changed implements [engines.Engine].
func (e *Engine) Changed(ctx context.Context, _ engines.Record) error {
	changes := e.client.Watch(clientv3.WithRequireLeader(ctx), e.leader, clientv3.WithRev(e.revision.Load()+1))
	for resp := range changes {
		if err := resp.Err(); err != nil {
			return err
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	return context.Cause(ctx)
}

// Claim implements [engines.Engine]. A key that was not renewed in time is deleted first, so that the
// new key has a create revision of its own.
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	if seen.ID != "" {
		revision, err := strconv.ParseInt(seen.Version, 10, 64)
		if err != nil {
			return engines.Record{}, err
		}
		still := clientv3.Compare(clientv3.ModRevision(e.leader), "=", revision)
		if _, err := e.swap(ctx, still, clientv3.OpDelete(e.leader), e.ended(seen.Epoch, false)); err != nil {
			return engines.Record{}, err
		}
	}
	revision, err := e.swap(ctx, clientv3.Compare(clientv3.CreateRevision(e.leader), "=", 0), e.held(mine))
	if err != nil {
		return engines.Record{}, err
	}
	mine.Epoch, mine.Version = uint64(revision), version(revision)
	return mine, nil
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	revision, err := e.swap(ctx, e.holds(mine), e.held(mine))
	if err != nil {
		return engines.Record{}, err
	}
	mine.Version = version(revision)
	return mine, nil
}

// Release implements [engines.Engine].
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := e.swap(ctx, e.holds(mine), clientv3.OpDelete(e.leader), e.ended(mine.Epoch, true))
	return err
}

// Check gives an error that wraps [engines.ErrDenied] when etcd would refuse a candidate's calls, and the client's error when
// etcd does not answer. It changes nothing.
func (e *Engine) Check(ctx context.Context) error {
	// No key has a negative revision. etcd checks the permissions for the operations all the same.
	never := clientv3.Compare(clientv3.CreateRevision(e.leader), "<", 0)
	_, err := e.swap(ctx, never, clientv3.OpDelete(e.leader), clientv3.OpPut(e.last, ""))
	if errors.Is(err, engines.ErrTaken) {
		_, err = e.Look(ctx)
	}
	return err
}

// explain returns the error for a refusal of etcd because of the user, the password or the permissions.
func (e *Engine) explain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return engines.Denied("etcd requires a user and a password")
	case strings.HasPrefix(err.Error(), "etcdserver: authentication failed"): // there are two of them
		return engines.Denied("etcd refuses the user or the password")
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return engines.Denied("etcd denies the user the keys under %s: grant one of its roles readwrite on that prefix", e.prefix)
	}
	return err
}

// Close implements [engines.Engine].
func (e *Engine) Close() error { return nil }

func (e *Engine) holds(mine engines.Record) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.leader), "=", int64(mine.Epoch))
}

func (e *Engine) held(mine engines.Record) clientv3.Op {
	mine.Epoch = 0 // the key has it
	return clientv3.OpPut(e.leader, string(record.Encode(mine, 0)))
}

func (e *Engine) ended(epoch uint64, resigned bool) clientv3.Op {
	return clientv3.OpPut(e.last, string(record.Encode(engines.Record{Epoch: epoch, Resigned: resigned}, 0)))
}

// swap does ops in a single step if that holds, and returns the revision.
func (e *Engine) swap(ctx context.Context, holds clientv3.Cmp, ops ...clientv3.Op) (int64, error) {
	resp, err := e.client.Txn(ctx).If(holds).Then(ops...).Commit()
	if err != nil {
		return 0, e.explain(err)
	}
	if !resp.Succeeded {
		return 0, engines.ErrTaken
	}
	return resp.Header.Revision, nil
}
