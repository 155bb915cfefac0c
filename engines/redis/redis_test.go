package redis_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/redis"
)

func start(t *testing.T, addr, key string) *engines.Election {
	t.Helper()
	return enginetest.Start(t, redis.New(enginetest.DialRedis(t, addr), key, enginetest.Lease), engines.Config{ID: "1", StandAlways: true})
}

// The one conformance call, on a real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeRedis(t)
	enginetest.Conform(t, []string{s.Addr}, s.Fail, func(name string, lines []string) engines.Engine {
		return redis.New(enginetest.DialRedis(t, lines[0]), name, enginetest.Lease)
	})
}

// A server that forgets all when it is killed has no second leader: none begins before the lease of the first has ended.
// Epochs rise all the same. It has no log, or loses it, as a container without a volume does.
func TestAServerWithoutALog(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]string{"none": "no", "lost": "yes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir() // its own: a server that starts while its log is removed ends
			s := enginetest.ServeRedis(t, "--dir", dir, "--appendonly", log)
			e := start(t, s.Addr, "forgotten")
			first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
			s.Kill()
			killed := time.Now()
			if err := os.RemoveAll(filepath.Join(dir, "appendonlydir")); err != nil {
				t.Fatal(err)
			}
			s.Start()
			next := start(t, s.Addr, "forgotten")
			enginetest.Reports(t, next, "may have forgotten a leader")
			enginetest.Leads(t, first, e, next)
			if waited := time.Since(killed); waited < enginetest.Lease {
				t.Errorf("a leadership begins %v after the server has lost the one before, whose lease is %v", waited, enginetest.Lease)
			}
		})
	}
}

// A server that may evict the record, and a replica are refused. An epoch rises when the key is deleted.
func TestServersAndKeys(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeRedis(t)
	e := start(t, s.Addr, "deleted")
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	c := enginetest.DialRedis(t, s.Addr)
	if err := c.Del(t.Context(), "deleted").Err(); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, first, e)

	full := enginetest.ServeRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	enginetest.Reports(t, start(t, full.Addr, "x"), "maxmemory-policy allkeys-lru may evict the leader")
	_, port, _ := strings.Cut(s.Addr, ":")
	replica := enginetest.ServeRedis(t, "--replicaof", "127.0.0.1", port)
	enginetest.Reports(t, start(t, replica.Addr, "x"), "this server is a replica")
}

// Damaged records are refused, and so are keys of a different type.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeRedis(t)
	c := enginetest.DialRedis(t, s.Addr)
	dial := func(key string) engines.Engine {
		return redis.New(enginetest.DialRedis(t, s.Addr), key, enginetest.Lease)
	}
	set := func(key string, fields ...any) {
		if err := c.HSet(t.Context(), key, fields...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Damage(t, "key %s", func(key string, r enginetest.Raw) {
		set(key, "id", r.ID, "address", r.Address, "process", r.Process, "epoch", r.Epoch, "lasts_ms", r.Lasts, "beat", 0)
	}, nil, dial)
	for i, fields := range [][]any{{"id", "mine"}, {"beat", "1"}, {"id", "1", "process", "p", "epoch", "x", "lasts_ms", "1000"}, {"id", "1", "process", "p", "epoch", "1", "lasts_ms", "1e3"},
		{"id", "1", "process", "p", "epoch", "1", "lasts_ms", "9223372036854775808"}, {"id", "1", "process", "p", "epoch", "1.5", "lasts_ms", "1000"}, {"epoch", "18446744073709551615"}} {
		key := fmt.Sprint("fields", i)
		set(key, fields...)
		enginetest.Refuses(t, dial(key), "key "+key)
	}
	if err := errors.Join(c.Set(t.Context(), "text", "1", 0).Err(), c.LPush(t.Context(), "list", "1").Err()); err != nil {
		t.Fatal(err)
	}
	enginetest.Refuses(t, dial("text"), "key text")
	enginetest.Refuses(t, dial("list"), "key list")
}
