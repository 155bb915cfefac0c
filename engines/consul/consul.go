// Package consul holds elections on the key-value store of Consul.
//
// An election is a key. A claim, a renewal and a release each replace its value by check-and-set, which goes through
// a majority of the servers and onto their disks. The ModifyIndex of the claim is the epoch, and fences. Each value has
// a counter, because Consul does not write a value that is the same. A record is read with the consistency mode
// "consistent", and watched by blocking queries.
//
// No session of Consul's is used: its TTL is at least 10 s and may last for twice as long. The key of an ended session
// is free only after the lock-delay: 15 s by default. Consul may also end a session while the holder works. Here the
// candidates count the lease, see package engines.
//
// The promise holds within a datacenter, as long as its servers keep what they have confirmed. A snapshot that is put
// back, a key that is deleted by hand, and an agent started by -dev, which has no disk, break it.
package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/hashicorp/consul/api"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Prefix is what the keys of batuta-engine begin with: Prefix + the election's name.
const Prefix = "batuta/"

// Engine is an [engines.Engine] on Consul.
type Engine struct {
	client *api.Client
	key    string
	place  string        // for texts
	index  atomic.Uint64 // with which a read found no key
	writes atomic.Uint64
}

// New returns the engine of the election of that key, for a single candidate. The token of the client needs the policy
// "write" for the key; for reading only, "read". The client remains the caller's.
func New(client *api.Client, key string) *Engine {
	key = strings.TrimLeft(key, "/")
	return &Engine{client: client, key: key, place: "key " + key}
}

// The index of a key that is not there, and one that no write reaches.
const (
	none  = 0
	never = 1 << 62
)

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "consul" }

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	pair, meta, err := e.get(ctx, &api.QueryOptions{RequireConsistent: true})
	if err != nil {
		return engines.Record{}, err
	}
	if pair == nil {
		e.index.Store(meta.LastIndex)
		return engines.Record{Version: version(none)}, nil
	}
	r, err := record.Decode(e.place, pair.Value, pair.ModifyIndex)
	r.Version = version(pair.ModifyIndex)
	return r, err
}

// get reads the key. Each answer of Consul's has an index, which is never 0.
func (e *Engine) get(ctx context.Context, options *api.QueryOptions) (*api.KVPair, *api.QueryMeta, error) {
	pair, meta, err := e.client.KV().Get(e.key, options.WithContext(ctx))
	if err != nil {
		return nil, nil, e.explain(err)
	}
	if meta.LastIndex == 0 {
		return nil, nil, errors.New("this is no Consul: its answer has no index")
	}
	return pair, meta, nil
}

func version(index uint64) string { return strconv.FormatUint(index, 10) }

// Changed implements [engines.Engine]. The query ends shortly before ctx, so that its connection is used again.
func (e *Engine) Changed(ctx context.Context, seen engines.Record) error {
	index, _ := strconv.ParseUint(seen.Version, 10, 64) // 0: there was no key
	options := &api.QueryOptions{RequireConsistent: true, WaitIndex: cmp.Or(index, e.index.Load(), 1)}
	if end, ok := ctx.Deadline(); ok {
		options.WaitTime = time.Until(end) * 7 / 8 // the server adds up to a sixteenth
	}
	_, _, err := e.get(ctx, options)
	return err
}

// Claim implements [engines.Engine].
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	mine.Epoch = 0
	var err error
	if mine.Version, err = e.update(ctx, mine, seen.Version); err == nil {
		mine.Epoch, err = strconv.ParseUint(mine.Version, 10, 64)
	}
	return mine, err
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return record.Replace(ctx, e.place, mine, mine, e.Look, e.update)
}

// Release implements [engines.Engine]. The key remains, with the epoch.
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := record.Replace(ctx, e.place, mine, record.Released(mine), e.Look, e.update)
	return err
}

// update writes r if the key still has that index, and returns the new index. A transaction returns it; a plain
// check-and-set does not.
func (e *Engine) update(ctx context.Context, r engines.Record, last string) (string, error) {
	index, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return "", err
	}
	op := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCAS, Key: e.key, Value: record.Encode(r, e.writes.Add(1)), Index: index}}
	done, answer, _, err := e.client.Txn().Txn(api.TxnOps{op}, (&api.QueryOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return "", e.explain(err)
	case !done && len(answer.Errors) > 0 && strings.HasSuffix(answer.Errors[0].What, "index is stale"):
		return "", engines.ErrTaken
	case !done && len(answer.Errors) > 0:
		return "", e.explain(errors.New(answer.Errors[0].What))
	case !done || len(answer.Results) != 1 || answer.Results[0].KV == nil:
		return "", fmt.Errorf("key %s: Consul's answer to a transaction has %d results instead of 1", e.key, len(answer.Results))
	}
	return version(answer.Results[0].KV.ModifyIndex), nil
}

// Check gives an error that wraps [engines.ErrDenied] when Consul would refuse a candidate's calls, and an ordinary error
// when it does not answer. It changes nothing.
func (e *Engine) Check(ctx context.Context) error {
	_, err := e.Look(ctx)
	if err == nil {
		_, err = e.update(ctx, engines.Record{}, version(never))
	}
	if errors.Is(err, engines.ErrTaken) {
		return nil
	}
	return err
}

// explain finds what Consul refuses, and bounds an error's text.
func (e *Engine) explain(err error) error {
	for _, refusal := range []string{"Permission denied", "ACL not found", "Endpoint is blocked"} {
		if strings.Contains(err.Error(), refusal) {
			return engines.Denied("Consul refuses access, %q: a candidate needs a token with the policy \"write\" for key %s", bounded{err}.Error(), e.key)
		}
	}
	return bounded{err}
}

// bounded is an error of 300 bytes at most, in a single line. Its begin and its end are the most useful parts.
type bounded struct{ error }

func (b bounded) Error() string {
	words := strings.FieldsFunc(b.error.Error(), func(r rune) bool { return r == ' ' || unicode.IsControl(r) })
	text := strings.Join(words, " ")
	if len(text) > 300 {
		text = text[:150] + "..." + text[len(text)-147:]
	}
	return strings.ToValidUTF8(text, "")
}

func (b bounded) Unwrap() error { return b.error }

// Close implements [engines.Engine].
func (e *Engine) Close() error { return nil }
