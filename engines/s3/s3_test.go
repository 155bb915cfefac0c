package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/s3"
)

func client(t *testing.T, addr string) *minio.Client {
	t.Helper()
	c, err := minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4(enginetest.S3User, enginetest.S3User, ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dial(t *testing.T, addr, key string) *s3.Engine {
	t.Helper()
	return s3.New(client(t, addr), enginetest.Bucket, key)
}

func start(t *testing.T, engine engines.Engine) *engines.Election {
	t.Helper()
	return enginetest.Start(t, engine, engines.Config{ID: "1", StandAlways: true})
}

// The one conformance call, on a real gateway that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	servers, addrs := enginetest.ServeS3(t, 1)
	enginetest.Conform(t, addrs, servers[0].Fail, func(name string, lines []string) engines.Engine {
		return dial(t, lines[0], strings.ReplaceAll(name, "/", "-"))
	})
}

// Of many claims at once on two gateways of one directory one succeeds, and of many writes under one ETag one.
func TestConditionsAreAtomic(t *testing.T) {
	t.Parallel()
	const writers, rounds = 16, 12
	_, addrs := enginetest.ServeS3(t, 2)
	var all []*s3.Engine
	for i := range writers {
		all = append(all, dial(t, addrs[i%2], "atomic"))
	}
	var epoch uint64
	for round := range rounds {
		seen, err := all[0].Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		led, winner := enginetest.Alone(t, all, func(i int, e *s3.Engine) (engines.Record, error) {
			return e.Claim(t.Context(), seen, engines.Record{ID: "1", Process: fmt.Sprint("p", i), Lasts: enginetest.Lease})
		})
		if led.Epoch <= epoch {
			t.Errorf("round %d: epoch %d comes after %d", round, led.Epoch, epoch)
		}
		epoch = led.Epoch
		versions := map[string]bool{led.Version: true}
		for range 3 {
			r, err := winner.Renew(t.Context(), led)
			if err != nil || versions[r.Version] {
				t.Fatalf("round %d: a renewal gives version %s, %v", round, r.Version, err)
			}
			versions[r.Version], led = true, r
		}
		// One release counts. Those that come later find no record of theirs.
		enginetest.Alone(t, all, func(_ int, e *s3.Engine) (engines.Record, error) { return led, e.Release(t.Context(), led) })
	}
}

// An epoch rises when the object is deleted.
func TestADeletedObject(t *testing.T) {
	t.Parallel()
	_, addrs := enginetest.ServeS3(t, 1)
	c := client(t, addrs[0])
	e := start(t, dial(t, addrs[0], "deleted"))
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	if err := c.RemoveObject(t.Context(), enginetest.Bucket, "deleted", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, first, e)
}

// Damaged records are refused.
func TestDamage(t *testing.T) {
	t.Parallel()
	_, addrs := enginetest.ServeS3(t, 1)
	c := client(t, addrs[0])
	enginetest.Damage(t, "object %s of bucket elections at http://"+addrs[0], nil, func(name, text string) {
		if _, err := c.PutObject(t.Context(), enginetest.Bucket, name, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}, func(name string) engines.Engine { return dial(t, addrs[0], name) })
}

// fake is not S3: it keeps objects as its API is documented, but for what answer does.
type fake struct {
	mu      sync.Mutex
	objects map[string]string
	writes  int
	answer  func(f *fake, w http.ResponseWriter, r *http.Request) (done bool)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answer != nil && f.answer(f, w, r) {
		return
	}
	text, there := f.objects[r.URL.Path]
	switch etag, _, _ := strings.Cut(text, " "); {
	case r.Method == http.MethodGet && !there:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet:
		_, body, _ := strings.Cut(text, " ")
		w.Header().Set("ETag", `"`+etag+`"`)
		w.Header().Set("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")
		fmt.Fprint(w, body)
	case there && r.Header.Get("If-None-Match") == "*", there && r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != `"`+etag+`"`:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case !there && r.Header.Get("If-Match") != "":
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		f.put(w, r)
	}
}

func (f *fake) put(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength)
	for n := 0; n < len(body); {
		m, err := r.Body.Read(body[n:])
		if n += m; err != nil && n < len(body) {
			return
		}
	}
	f.writes++
	f.objects[r.URL.Path] = fmt.Sprintf("e%d %s", f.writes, body)
	w.Header().Set("ETag", fmt.Sprintf(`"e%d"`, f.writes))
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so\nit is</Message></Error>", code)
}

func serveFake(t *testing.T, answer func(f *fake, w http.ResponseWriter, r *http.Request) bool) *s3.Engine {
	t.Helper()
	s := httptest.NewServer(&fake{objects: map[string]string{}, answer: answer})
	t.Cleanup(s.Close)
	return dial(t, strings.TrimPrefix(s.URL, "http://"), "x")
}

// A store that ignores a condition, has none, gives no ETag or refuses access is refused, and no record is written.
func TestStoresThatAreRefused(t *testing.T) {
	t.Parallel()
	writes := func(header string, do func(f *fake, w http.ResponseWriter, r *http.Request)) func(*fake, http.ResponseWriter, *http.Request) bool {
		return func(f *fake, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || r.Header.Get(header) == "" {
				return false
			}
			do(f, w, r)
			return true
		}
	}
	code := func(status int, code string) func(*fake, http.ResponseWriter, *http.Request) {
		return func(_ *fake, w http.ResponseWriter, _ *http.Request) { refuse(w, status, code) }
	}
	for reason, answer := range map[string]func(*fake, http.ResponseWriter, *http.Request) bool{
		"ignores If-None-Match when it writes":                         writes("If-None-Match", (*fake).put),
		"ignores If-Match when it writes":                              writes("If-Match", (*fake).put),
		"has no conditional writes":                                    writes("If-Match", code(http.StatusNotImplemented, "NotImplemented")),
		"answers without an ETag":                                      writes("If-None-Match", func(*fake, http.ResponseWriter, *http.Request) {}),
		"does not exist: create it":                                    writes("If-None-Match", code(http.StatusNotFound, "NoSuchBucket")),
		`refuses access, "AccessDenied: so\nit is": a candidate needs`: writes("If-None-Match", code(http.StatusForbidden, "AccessDenied")),
	} {
		var f *fake
		e := serveFake(t, func(all *fake, w http.ResponseWriter, r *http.Request) bool {
			f = all
			return answer(all, w, r)
		})
		if err := e.Check(t.Context()); !errors.Is(err, engines.ErrDenied) || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", reason, err)
		}
		_, err := e.Claim(t.Context(), engines.Record{Version: "none"}, engines.Record{ID: "1", Process: "p", Lasts: enginetest.Lease})
		f.mu.Lock()
		if _, written := f.objects["/elections/x"]; !errors.Is(err, engines.ErrDenied) || written {
			t.Errorf("%s: a claim gives %v, and writes a record: %v", reason, err, written)
		}
		f.mu.Unlock()
	}
}

// A write that the store refuses for a conflict with another at once does not end a leadership that goes on. A deleted
// object ends it. A read that mixes two writes leads to no claim and to no release.
func TestAnswersOfStores(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conflicts := 0
	var mixed string
	e := serveFake(t, func(f *fake, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/elections/x" && conflicts > 0:
			conflicts--
			refuse(w, http.StatusConflict, "ConditionalRequestConflict")
			return true
		case r.Method == http.MethodDelete:
			delete(f.objects, r.URL.Path)
			w.WriteHeader(http.StatusNoContent)
			return true
		case r.Method == http.MethodGet && mixed != "":
			etag, _, _ := strings.Cut(f.objects[r.URL.Path], " ")
			f.objects[r.URL.Path], mixed = etag+" "+mixed, ""
		}
		return false
	})
	mine := engines.Record{ID: "1", Process: "p", Lasts: enginetest.Lease}
	led, err := e.Claim(ctx, engines.Record{Version: "none"}, mine)
	if err != nil {
		t.Fatal(err)
	}
	conflicts = 1
	if _, err := e.Renew(ctx, led); err == nil || errors.Is(err, engines.ErrTaken) {
		t.Errorf("a renewal in conflict with a write gives %v", err)
	}
	old := led.Version
	if led, err = e.Renew(ctx, led); err != nil {
		t.Fatal(err)
	}
	led.Version = old // as if the answer was lost
	if led, err = e.Renew(ctx, led); err != nil {
		t.Errorf("a renewal after one without an answer gives %v", err)
	}
	if err := e.Release(ctx, led); err != nil {
		t.Error(err)
	}
	seen, err := e.Look(ctx)
	if err != nil || seen.ID != "" || !seen.Resigned || seen.Epoch != led.Epoch {
		t.Errorf("after the release the record is %+v, %v", seen, err)
	}
	mixed = `{"id":"2","process":"q","epoch":9,"lasts_ms":1000}`
	if _, err := e.Claim(ctx, seen, mine); !errors.Is(err, engines.ErrTaken) {
		t.Errorf("a claim of what is not read again gives %v", err)
	}
	if led, err = e.Claim(ctx, look(t, e), mine); err != nil {
		t.Fatal(err)
	}
	torn := engines.Record{ID: "2", Process: "q", Epoch: led.Epoch - 1, Lasts: enginetest.Lease, Version: led.Version} // as a read that mixed two writes
	if err := e.Release(ctx, torn); !errors.Is(err, engines.ErrTaken) || look(t, e) != led {
		t.Errorf("a release of what was read once gives %v, and leaves %+v", err, look(t, e))
	}
	if led.Epoch != 10 {
		t.Errorf("epoch %d comes after 9", led.Epoch)
	}
}

func look(t *testing.T, e engines.Engine) engines.Record {
	t.Helper()
	r, err := e.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}
