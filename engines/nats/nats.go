// Package nats holds elections on JetStream, the storage of NATS, 2.9 or later.
//
// The elections of a bucket are keys of it. The record of an election is the value of its key. A claim, a renewal and a
// release each replace a single revision; the revision of the claim is the epoch, and fences. The first claim creates a
// bucket that is missing. No TTL is used: the candidates count the lease, see package engines.
//
// A record is read from the leader of the bucket's stream, not from a replica that may be behind.
//
// JetStream confirms a write before it is on disk, and syncs every two minutes by default. A single server that loses its
// power may therefore forget a leader. Keep the bucket on three servers, or set sync_interval: always.
package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Bucket is the bucket that batuta-engine uses, unless it is given a name.
const Bucket = "batuta"

// Engine is an [engines.Engine] on JetStream.
type Engine struct {
	js     jetstream.JetStream
	bucket jetstream.KeyValueConfig
	key    string
	place  string          // for texts
	ended  context.Context // of the watcher, which remains between two calls of Changed
	end    context.CancelFunc

	mu       sync.Mutex
	kv       jetstream.KeyValue // nil: the bucket was not found yet
	watching chan jetstream.KeyWatcher
	old      error // the connection's last error when a call was last answered
}

// New returns the engine of the election of that name, for a single candidate. If the bucket is missing it is created as
// config describes it, with storage on disk and without a TTL: config needs a Bucket, and Replicas if there are several servers.
//
// The connection of js remains the caller's, and must be closed after the [engines.Election] only. Give it
// nats.ReconnectBufSize(-1): a write that waits for a connection would be sent long after its lease has ended.
func New(js jetstream.JetStream, config jetstream.KeyValueConfig, name string) *Engine {
	config.TTL, config.Storage = 0, jetstream.FileStorage
	e := &Engine{js: js, bucket: config, key: key(name), watching: make(chan jetstream.KeyWatcher, 1)}
	e.place = fmt.Sprintf("key %s of bucket %s", e.key, config.Bucket)
	e.ended, e.end = context.WithCancel(context.Background())
	e.watching <- nil
	return e
}

// key is the name with each byte that a key may not have as =XX.
func key(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '/':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "nats" }

// none is the Version of a key that is not there.
const none = "0"

// Codes of JetStream's errors.
const (
	noMessage = 10037
	noStream  = 10059
)

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	if _, err := e.store(ctx); errors.Is(err, jetstream.ErrBucketNotFound) {
		return engines.Record{Version: none}, nil
	} else if err != nil {
		return engines.Record{}, err
	}
	// A replica answers KeyValue.Get, and may be behind. The stream's leader answers this call.
	question, _ := json.Marshal(map[string]string{"last_by_subj": "$KV." + e.bucket.Bucket + "." + e.key})
	reply, err := e.js.Conn().RequestWithContext(ctx, e.api()+"STREAM.MSG.GET.KV_"+e.bucket.Bucket, question)
	if err = e.explain(err); err != nil {
		return engines.Record{}, err
	}
	var answer struct {
		Error   *jetstream.APIError
		Message struct {
			Seq  uint64
			Data []byte
			Hdrs []byte
		}
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return engines.Record{}, fmt.Errorf("JetStream's answer: %w", err)
	}
	switch {
	case answer.Error == nil:
		return e.record(answer.Message.Seq, answer.Message.Data, answer.Message.Hdrs)
	case answer.Error.ErrorCode == noMessage:
		return engines.Record{Version: none}, nil
	case answer.Error.ErrorCode == noStream:
		e.forget()
		return engines.Record{Version: none}, nil
	}
	return engines.Record{}, answer.Error
}

func (e *Engine) record(revision uint64, data, header []byte) (engines.Record, error) {
	version := strconv.FormatUint(revision, 10)
	if len(header) > 0 && len(data) == 0 { // deleted by hand
		return engines.Record{Version: version}, nil
	}
	r, err := record.Decode(e.place, data, revision)
	r.Version = version
	return r, err
}

// api is the prefix of the subjects of JetStream's calls.
func (e *Engine) api() string {
	switch o := e.js.Options(); {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

// store returns the bucket, or an error if the bucket does not keep what it confirms.
func (e *Engine) store(ctx context.Context) (jetstream.KeyValue, error) {
	e.mu.Lock()
	kv := e.kv
	e.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	if err := e.dialed(ctx); err != nil {
		return nil, err
	}
	kv, err := e.js.KeyValue(ctx, e.bucket.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, err
	}
	var status jetstream.KeyValueStatus
	if err == nil {
		status, err = kv.Status(ctx)
	}
	if err := e.explain(err); err != nil {
		return nil, err
	}
	switch c := status.Config(); {
	case c.TTL != 0 || c.LimitMarkerTTL != 0:
		return nil, fmt.Errorf("bucket %s has a TTL, after which it forgets the leader: use a bucket without", e.bucket.Bucket)
	case c.Storage != jetstream.FileStorage:
		return nil, fmt.Errorf("bucket %s is kept in memory, and forgets the leader: use a bucket with storage on disk", e.bucket.Bucket)
	case c.Mirror != nil || len(c.Sources) > 0:
		return nil, fmt.Errorf("bucket %s is a copy of a bucket, and may be behind: use the original", e.bucket.Bucket)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kv = kv
	return kv, nil
}

// dialed waits for the first connection, or for the reason why there is none: a call without a connection
// fails without a reason, and the client drops the last reason when it dials again.
func (e *Engine) dialed(ctx context.Context) error {
	for conn := e.js.Conn(); !conn.IsConnected() && !conn.IsClosed(); {
		if last := conn.LastError(); last != nil {
			return e.explain(last)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return e.unconnected(ctx.Err())
		}
	}
	return nil
}

func (e *Engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kv = nil
}

// Changed implements [engines.Engine].
func (e *Engine) Changed(ctx context.Context, seen engines.Record) error {
	kv, err := e.store(ctx)
	if err != nil {
		return err
	}
	revision, err := strconv.ParseUint(seen.Version, 10, 64)
	if err != nil {
		return err
	}
	var watcher jetstream.KeyWatcher
	select {
	case watcher = <-e.watching:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { e.watching <- watcher }()
	if watcher == nil {
		// What changed before the watcher was there is missed. Its context goes on after this call.
		wait, cancel := context.WithCancel(e.ended)
		stop := context.AfterFunc(ctx, cancel)
		if watcher, err = kv.Watch(wait, e.key, jetstream.UpdatesOnly(), jetstream.MetaOnly()); err != nil || !stop() {
			watcher = nil
			cancel() // the watcher ends, if there is one
			return cmp.Or(err, ctx.Err())
		}
		return nil
	}
	for {
		select {
		case update, open := <-watcher.Updates():
			switch {
			case !open:
				watcher = nil
				return errors.New("the watch of the key has ended")
			case update != nil && update.Revision() > revision:
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Claim implements [engines.Engine].
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	if _, err := e.store(ctx); errors.Is(err, jetstream.ErrBucketNotFound) {
		if _, err := e.js.CreateKeyValue(ctx, e.bucket); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return engines.Record{}, fmt.Errorf("bucket %s is missing, and cannot be created: %w", e.bucket.Bucket, e.explain(err))
		}
	}
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

// Release implements [engines.Engine].
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := record.Replace(ctx, e.place, mine, record.Released(mine), e.Look, e.update)
	return err
}

// update writes r if the key still has that revision, and returns the new revision.
func (e *Engine) update(ctx context.Context, r engines.Record, version string) (string, error) {
	last, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return "", err
	}
	kv, err := e.store(ctx)
	if err != nil {
		return "", err
	}
	revision, err := kv.Update(ctx, e.key, record.Encode(r, 0), last)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return "", engines.ErrTaken
	}
	return strconv.FormatUint(revision, 10), e.explain(err)
}

// Check gives an error that wraps [engines.ErrDenied] when NATS would refuse a candidate's calls, and the client's error when
// NATS does not answer. It changes no record.
func (e *Engine) Check(ctx context.Context) error {
	_, err := e.store(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil // the first claim has to create it
	}
	if err == nil {
		_, err = e.Look(ctx)
	}
	if err == nil {
		const never = "4611686018427387904" // no key has that revision
		if _, err = e.update(ctx, engines.Record{}, never); errors.Is(err, engines.ErrTaken) {
			return nil
		}
	}
	return err
}

// explain finds what NATS refuses. A call that is refused has no answer; the connection has the reason.
func (e *Engine) explain(err error) error {
	last := e.js.Conn().LastError()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.old = last
		return nil
	}
	connected, fresh := e.js.Conn().IsConnected(), last != e.old
	for _, refusal := range []error{client.ErrAuthorization, client.ErrAuthExpired, client.ErrAuthRevoked, client.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) || !connected && errors.Is(last, refusal) {
			return engines.Denied("NATS refuses the credentials")
		}
	}
	switch {
	case errors.Is(err, client.ErrPermissionViolation) || fresh && errors.Is(last, client.ErrPermissionViolation):
		return engines.Denied("NATS denies the user bucket %s: allow it to publish to %s> and $KV.%s.>, and to subscribe to _INBOX.>", e.bucket.Bucket, e.api(), e.bucket.Bucket)
	case errors.Is(err, client.ErrReconnectBufExceeded), !connected && last != nil: // the first: the call had no connection
		return e.unconnected(cmp.Or(last, client.ErrNoServers))
	}
	return err
}

// unconnected is the error of a call without a connection.
func (e *Engine) unconnected(why error) error {
	return fmt.Errorf("no connection to %s: %w", strings.Join(e.js.Conn().Servers(), ", "), why)
}

// Close implements [engines.Engine]. The watcher ends on its own: the server may not answer.
func (e *Engine) Close() error {
	e.end()
	return nil
}
