package enginetest

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/engines"
)

// Lease is short, to keep tests short, and tolerates a machine that is stopped for seconds.
const Lease = 6 * time.Second

// Start starts a candidate, which takes part until the test ends, with [Lease] if c has no lease.
func Start(t testing.TB, engine engines.Engine, c engines.Config) *engines.Election {
	t.Helper()
	c.Lease, c.Logger = cmp.Or(c.Lease, Lease), slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engines.Start(t.Context(), engine, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
