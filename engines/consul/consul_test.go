package consul_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/consul"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
)

func dial(t *testing.T, addr, key string) *consul.Engine {
	t.Helper()
	return consul.New(enginetest.DialConsul(t, addr, ""), key)
}

// The one conformance call, on the tests' own server, or on a real one that is killed.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeConsul(t, 1, nil)
	enginetest.Conform(t, c.Addrs, c.Fail, func(name string, lines []string) engines.Engine {
		return dial(t, lines[0], name)
	})
}

// goesOn waits until the record has changed twice, as a server that lives gives it.
func goesOn(t *testing.T, e engines.Engine) {
	t.Helper()
	versions := map[string]bool{}
	enginetest.Await(t, "the election goes on", func(ctx context.Context) error {
		r, err := e.Look(ctx)
		if versions[r.Version] = true; err == nil && len(versions) < 3 {
			err = fmt.Errorf("version %s is the last of %d", r.Version, len(versions))
		}
		return err
	})
}

// Of three servers each is killed, and each is stopped: an election goes on. Without a majority there is no leader.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeConsul(t, 3, nil)
	var all []*engines.Election
	for i, addr := range c.Addrs {
		all = append(all, enginetest.Start(t, dial(t, addr, "three"), engines.Config{ID: batuta.ID(fmt.Sprint(i + 1)), StandAlways: true}))
	}
	enginetest.Leads(t, batuta.Token{}, all...)
	for i, s := range c.Servers {
		next, last := dial(t, c.Addrs[(i+1)%3], "three"), dial(t, c.Addrs[(i+2)%3], "three")
		s.Kill()
		goesOn(t, next)
		enginetest.Leads(t, batuta.Token{}, all...)
		s.Start()
		c.Await(t)
		thaw := c.Servers[(i+1)%3].Freeze()
		goesOn(t, last)
		enginetest.Leads(t, batuta.Token{}, all...)
		thaw()
		c.Await(t)
	}
	before := enginetest.Leads(t, batuta.Token{}, all...).Leader().Token
	c.Servers[0].Kill()
	thaw := c.Servers[1].Freeze()
	for _, e := range all {
		enginetest.Await(t, "it does not lead without a majority", func(context.Context) error {
			if e.IsLeader() {
				return fmt.Errorf("%s does", e.ID())
			}
			return nil
		})
	}
	thaw()
	c.Servers[0].Start()
	enginetest.Leads(t, before, all...)
}

// Of many claims at once one succeeds, and of many releases one. Each renewal gives a new version, though Consul does not
// write a value that is the same.
func TestWritersAreAlone(t *testing.T) {
	t.Parallel()
	const writers, rounds = 16, 12
	c := enginetest.ServeConsul(t, 1, nil)
	var all []*consul.Engine
	for range writers {
		all = append(all, dial(t, c.Addrs[0], "alone"))
	}
	var epoch uint64
	for round := range rounds {
		seen := look(t, all[0])
		led, winner := enginetest.Alone(t, all, func(i int, e *consul.Engine) (engines.Record, error) {
			return e.Claim(t.Context(), seen, engines.Record{ID: "1", Process: fmt.Sprint("p", i), Lasts: enginetest.Lease})
		})
		if now := look(t, all[0]); now != led || led.Epoch <= epoch {
			t.Errorf("round %d: after epoch %d a claim gives %+v, and a look %+v", round, epoch, led, now)
		}
		epoch = led.Epoch
		versions := map[string]bool{led.Version: true}
		for range 3 {
			r, err := winner.Renew(t.Context(), led)
			if err != nil || versions[r.Version] {
				t.Fatalf("round %d: a renewal gives version %s, %v", round, r.Version, err)
			}
			versions[r.Version] = true // led keeps its version, as if the answer was lost
		}
		// One release counts. Those that come later find no record of theirs.
		enginetest.Alone(t, all, func(_ int, e *consul.Engine) (engines.Record, error) { return led, e.Release(t.Context(), led) })
		if now := look(t, all[0]); now.ID != "" || !now.Resigned || now.Epoch != epoch {
			t.Errorf("round %d: a release leaves %+v", round, now)
		}
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

// Damaged records are refused. An epoch rises when the key is deleted, and the leader of the deleted key does not
// write it again.
func TestKeys(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeConsul(t, 1, nil)
	kv := enginetest.DialConsul(t, c.Addrs[0], "").KV()
	e := dial(t, c.Addrs[0], "deleted")
	led, err := e.Claim(t.Context(), look(t, e), engines.Record{ID: "1", Process: "p", Lasts: enginetest.Lease})
	if err == nil {
		_, err = e.Renew(t.Context(), led)
	}
	look(t, e)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Patience)
	defer cancel()
	if err == nil {
		err = e.Changed(ctx, led)
	}
	if time.Since(began) > enginetest.Patience/2 {
		t.Error("a change before the last look is not seen")
	}
	if err == nil {
		_, err = kv.Delete("deleted", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Renew(t.Context(), led); !errors.Is(err, engines.ErrTaken) {
		t.Errorf("a renewal of a deleted key gives %v", err)
	}
	if next, err := e.Claim(t.Context(), look(t, e), led); err != nil || next.Epoch <= led.Epoch {
		t.Errorf("after epoch %d a claim gives %d, %v", led.Epoch, next.Epoch, err)
	}
	enginetest.Damage(t, "key %s", nil, func(name, text string) {
		if _, err := kv.Put(&api.KVPair{Key: name, Value: []byte(text)}, nil); err != nil {
			t.Fatal(err)
		}
	}, func(name string) engines.Engine { return dial(t, c.Addrs[0], name) })
}

// A server that fails answers no query that waits. What is no Consul, and a long answer, get a short sentence.
func TestNoConsul(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeConsul(t, 1, nil)
	e := dial(t, c.Addrs[0], "fails")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	wrote, written := context.WithCancel(ctx)
	changed, seen := make(chan error, 1), look(t, e)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }})
	go func() { changed <- e.Changed(traced, seen) }()
	<-wrote.Done()
	look(t, e) // by now the server has the query
	c.Fail()
	if err := <-changed; err == nil {
		t.Error("a query is answered by a server that fails")
	}

	code := http.StatusNotFound
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("ñ\n", 1<<10), code) }))
	defer other.Close()
	e = dial(t, other.Listener.Addr().String(), "other")
	for _, code = range []int{http.StatusNotFound, http.StatusForbidden, http.StatusBadGateway} {
		_, looked := e.Look(t.Context())
		_, claimed := e.Claim(t.Context(), engines.Record{Version: "0"}, engines.Record{ID: "1", Process: "p", Lasts: enginetest.Lease})
		for what, err := range map[string]error{"look": looked, "claim": claimed, "wait": e.Changed(t.Context(), engines.Record{Version: "0"})} {
			if err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%d: a %s gives %v", code, what, err)
			}
		}
		if code == http.StatusNotFound && !strings.Contains(looked.Error(), "this is no Consul") {
			t.Errorf("a look gives %v", looked)
		}
	}
}
