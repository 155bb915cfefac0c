// Package s3 holds elections on a store with the API of S3 that honors the conditions of a write (If-Match, If-None-Match).
//
// An election is an object. A claim, a renewal and a release each replace the object if it still has its ETag. The
// epoch rises by 1 with each claim, and fences. The first is the candidate's time in microseconds, so that epochs rise also
// after the object was deleted. The store's clock is not used: the candidates count the lease, see package engines.
//
// A store that ignores conditions is refused: before the first claim, writes to the object KEY.probe show that. They do
// not show whether it checks and writes in a single step.
//
// The promise holds as long as the store forgets nothing that it has confirmed. Copies of a bucket that are written
// to asynchronously, a backup that is put back, and an object that is deleted by hand or by a lifecycle rule break it.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Engine is an [engines.Engine] on S3.
type Engine struct {
	store       minio.Core
	bucket, key string
	place       string      // for texts
	object      string      // for texts: the object in its place
	honors      atomic.Bool // the store honors conditions
	writes      atomic.Uint64
}

// New gives the engine of an election for a candidate. The record is the object of that key. The bucket must exist.
//
// The client needs MaxRetries 1: a claim that the client repeats finds its own record. Without a Region it asks for the bucket's.
func New(c *minio.Client, bucket, key string) *Engine {
	place := fmt.Sprintf("bucket %s at %s", bucket, c.EndpointURL())
	return &Engine{store: minio.Core{Client: c}, bucket: bucket, key: key, place: place, object: "object " + key + " of " + place}
}

const (
	none  = "none"                             // the Version of an object that is not there
	never = "00000000000000000000000000000000" // an ETag that no object has
)

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "s3" }

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	body, info, _, err := e.store.GetObject(ctx, e.bucket, e.key, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return engines.Record{Version: none}, nil
	}
	if err != nil {
		return engines.Record{}, e.explain(err)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, record.Longest+1))
	if err != nil {
		return engines.Record{}, err
	}
	r, err := record.Decode(e.object, text, 0)
	r.Version = info.ETag
	return r, err
}

// Changed implements [engines.Engine]. The store announces no change.
func (e *Engine) Changed(ctx context.Context, _ engines.Record) error {
	<-ctx.Done()
	return ctx.Err()
}

// sure reads until two reads in a row are the same. While the object is replaced, a store may answer with the content of a
// write and the ETag of the write before or after, but not twice.
func (e *Engine) sure(ctx context.Context) (engines.Record, error) {
	last, err := e.Look(ctx)
	for err == nil {
		var now engines.Record
		if now, err = e.Look(ctx); err == nil && now == last {
			break
		}
		last = now
	}
	return last, err
}

// Claim implements [engines.Engine].
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	if err := e.probe(ctx); err != nil {
		return engines.Record{}, err
	}
	now, err := e.Look(ctx) // the second time: see sure
	if err != nil || now != seen {
		return engines.Record{}, cmp.Or(err, engines.ErrTaken)
	}
	if mine.Epoch = seen.Epoch + 1; seen.Version == none {
		mine.Epoch = uint64(max(time.Now().UnixMicro(), 1))
	}
	mine.Version, err = e.put(ctx, mine, seen.Version)
	return mine, err
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return record.Replace(ctx, e.object, mine, mine, e.sure, e.put)
}

// Release implements [engines.Engine]. The object remains, with the epoch.
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	mine.Version = "" // mine may have been read once
	_, err := record.Replace(ctx, e.object, mine, record.Released(mine), e.sure, e.put)
	return err
}

// put writes r if the object still has that version, and gives the next version.
func (e *Engine) put(ctx context.Context, r engines.Record, version string) (string, error) {
	text := record.Encode(r, e.writes.Add(1)) // no two are the same, so that each has an ETag of its own
	sum := sha256.Sum256(text)
	options := minio.PutObjectOptions{ContentType: "application/json", DisableContentSha256: true} // the sum is signed, not each chunk
	if version == none {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(version)
	}
	done, err := e.store.PutObject(ctx, e.bucket, e.key, bytes.NewReader(text), int64(len(text)), "", hex.EncodeToString(sum[:]), options)
	switch answer := minio.ToErrorResponse(err); {
	case err == nil && done.ETag == "":
		return "", engines.Denied("the store of %s answers without an ETag: use one with conditional writes", e.place)
	case answer.StatusCode == http.StatusPreconditionFailed, answer.Code == "ConditionalRequestConflict", answer.Code == minio.NoSuchKey && version != none:
		return "", engines.ErrTaken
	}
	return done.ETag, e.explain(err)
}

// probe refuses a store that ignores conditions: on it every claim would succeed.
func (e *Engine) probe(ctx context.Context) error {
	if e.honors.Load() {
		return nil
	}
	probe := Engine{store: e.store, bucket: e.bucket, key: e.key + ".probe", place: e.place}
	_, err := probe.put(ctx, engines.Record{}, none) // now it is there
	for _, condition := range []struct{ header, version string }{{"If-None-Match", none}, {"If-Match", never}} {
		if err == nil || errors.Is(err, engines.ErrTaken) {
			if _, err = probe.put(ctx, engines.Record{}, condition.version); err == nil {
				return engines.Denied("the store of %s ignores %s when it writes: on it several candidates would lead; use one with conditional writes", e.place, condition.header)
			}
		}
	}
	if !errors.Is(err, engines.ErrTaken) {
		return err
	}
	e.honors.Store(true)
	return nil
}

// Check gives an error that wraps [engines.ErrDenied] when the store refuses a look or a write, has no such bucket, or
// ignores conditions, and an ordinary error when it does not answer. It writes to KEY.probe only.
func (e *Engine) Check(ctx context.Context) error {
	if _, err := e.Look(ctx); err != nil {
		return err
	}
	return e.probe(ctx)
}

// explain finds what the store refuses.
func (e *Engine) explain(err error) error {
	r := minio.ToErrorResponse(err)
	switch {
	case r.StatusCode == 0: // there was no answer
		return err
	case r.Code == minio.NoSuchBucket:
		return engines.Denied("%s does not exist: create it, or correct its name", e.place)
	case r.StatusCode == http.StatusNotImplemented:
		return engines.Denied("the store of %s has no conditional writes: use one with them", e.place)
	case r.StatusCode == http.StatusUnauthorized, r.StatusCode == http.StatusForbidden, r.Code == "ExpiredToken", r.Code == minio.AuthorizationHeaderMalformed:
		return engines.Denied("the store of %s refuses access, %.300q: a candidate needs s3:GetObject and s3:PutObject on %s*, and s3:ListBucket on the bucket", e.place, r.Code+": "+r.Message, e.key)
	}
	return fmt.Errorf("the store of %s answers %d, %.300q", e.place, r.StatusCode, r.Code+": "+r.Message)
}

// Close implements [engines.Engine].
func (e *Engine) Close() error { return nil }
