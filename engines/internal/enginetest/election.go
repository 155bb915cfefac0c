package enginetest

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/engines"
)

// Lease is short, so that tests are, and bears a machine that stands still for seconds.
const Lease = 6 * time.Second

// Start has a candidate take part until the test ends, with [Lease] where c has none.
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
