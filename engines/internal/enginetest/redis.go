package enginetest

import (
	"context"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a real Redis server.
type Redis struct {
	*Server
	Addr string // HOST:PORT
}

// ServeRedis starts a server that writes a log of its own. Settings are added to its arguments.
func ServeRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	program, dir, port := Program(t, "redis-server", "redis-server"), t.TempDir(), strconv.Itoa(Ports(t, 1)[0])
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}, settings...)
	r := &Redis{Addr: "127.0.0.1:" + port}
	r.Server = Serve(t, func() *exec.Cmd { return exec.Command(program, args...) })
	up := DialRedis(t, r.Addr)
	Await(t, "Redis answers", func(ctx context.Context) error {
		err := up.Ping(ctx).Err()
		if err != nil && err.Error() == "NOAUTH Authentication required." {
			return nil
		}
		return err
	})
	return r
}

// DialRedis makes a client of its own.
func DialRedis(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { c.Close() })
	return c
}
