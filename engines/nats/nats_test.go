package nats_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/nats"
)

func config(replicas int) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{Bucket: nats.Bucket, Replicas: replicas}
}

// The one conformance call, on a real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeNats(t, 1)
	enginetest.Conform(t, c.Addrs, c.Servers[0].Fail, func(name string, lines []string) engines.Engine {
		return nats.New(enginetest.DialNats(t, lines...), config(1), name)
	})
}

// The error of a call has the servers that no connection was made to.
func TestAServerThatHasEndedIsNamed(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeNats(t, 1)
	e := nats.New(enginetest.DialNats(t, c.Addrs...), config(1), "named")
	if _, err := e.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Servers[0].Kill()
	enginetest.Await(t, "the error has the address", func(ctx context.Context) error {
		if _, err := e.Look(ctx); err == nil || !strings.Contains(err.Error(), c.Addrs[0]) {
			return fmt.Errorf("the error is %v", err)
		}
		return nil
	})
}

// Close does not wait for a server that does not answer.
func TestCloseDoesNotWaitForTheServer(t *testing.T) {
	t.Parallel()
	p := enginetest.NewProxy(t, enginetest.ServeNats(t, 1).Addrs[0])
	e := nats.New(enginetest.DialNats(t, p.Addr()), config(1), "silent")
	r, err := e.Claim(t.Context(), engines.Record{Version: "0"}, engines.Record{ID: "1", Process: "p", Lasts: time.Minute})
	if err == nil {
		err = e.Changed(t.Context(), r) // it begins to watch
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Cut()()
	began := time.Now()
	if err := e.Close(); err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("Close gives %v after %v", err, time.Since(began))
	}
}

// Of three servers each is killed, and each is stopped: an election goes on. Without a majority there is no leader.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	c := enginetest.ServeNats(t, 3)
	var all []*engines.Election
	for i := range 3 {
		all = append(all, enginetest.Start(t, nats.New(enginetest.DialNats(t, c.Addrs...), config(3), "three"), engines.Config{ID: batuta.ID(fmt.Sprint(i + 1)), StandAlways: true}))
	}
	enginetest.Leads(t, batuta.Token{}, all...)
	for i, s := range c.Servers {
		s.Kill()
		enginetest.Leads(t, batuta.Token{}, all...)
		js := enginetest.DialNats(t, c.Addrs[(i+1)%3], c.Addrs[(i+2)%3])
		enginetest.Await(t, "JetStream goes on without one", func(ctx context.Context) error {
			kv, err := js.KeyValue(ctx, "up")
			if err == nil {
				_, err = kv.PutString(ctx, "up", "")
			}
			return err
		})
		s.Start()
		thaw := c.Servers[(i+1)%3].Freeze()
		enginetest.Leads(t, batuta.Token{}, all...)
		thaw()
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

// Damaged records are refused.
func TestDamage(t *testing.T) {
	t.Parallel()
	js := enginetest.DialNats(t, enginetest.ServeNats(t, 1).Addrs...)
	kv, err := js.CreateKeyValue(t.Context(), config(1))
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Damage(t, "key %s of bucket batuta", nil, func(name, text string) {
		if _, err := kv.PutString(t.Context(), name, text); err != nil {
			t.Fatal(err)
		}
	}, func(name string) engines.Engine { return nats.New(js, config(1), name) })
}

// A bucket that would forget the leader is refused, and so is a key with a foreign value. An epoch rises when the key is deleted.
func TestBuckets(t *testing.T) {
	t.Parallel()
	js := enginetest.DialNats(t, enginetest.ServeNats(t, 1).Addrs...)
	for name, c := range map[string]jetstream.KeyValueConfig{
		"has a TTL":         {Bucket: "short", TTL: enginetest.Patience},
		"is kept in memory": {Bucket: "memory", Storage: jetstream.MemoryStorage},
		"is a copy":         {Bucket: "mirror", Mirror: &jetstream.StreamSource{Name: "up"}},
	} {
		if _, err := js.CreateKeyValue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		e := enginetest.Start(t, nats.New(js, jetstream.KeyValueConfig{Bucket: c.Bucket}, "x"), engines.Config{ID: "1", StandAlways: true})
		enginetest.Reports(t, e, "bucket "+c.Bucket+" "+name)
	}
	up, err := js.KeyValue(t.Context(), "up")
	if err == nil {
		_, err = up.PutString(t.Context(), "foreign=20key", "mine")
	}
	if err != nil {
		t.Fatal(err)
	}
	foreign := enginetest.Start(t, nats.New(js, jetstream.KeyValueConfig{Bucket: "up"}, "foreign key"), engines.Config{ID: "1", StandAlways: true})
	enginetest.Reports(t, foreign, "key foreign=20key of bucket up is not batuta's")

	e := enginetest.Start(t, nats.New(js, jetstream.KeyValueConfig{Bucket: "up"}, "deleted"), engines.Config{ID: "1", StandAlways: true})
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	if err := up.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, first, e)
}
