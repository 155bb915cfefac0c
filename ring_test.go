package batuta

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// A large ring with real connections agrees, and on the next leader after a
// crash; -v tells how soon.
func TestLargeRing(t *testing.T) {
	t.Run("ring", func(t *testing.T) { largeRing(t, func() Algorithm { return ring.New() }) })
	t.Run("chang-roberts", func(t *testing.T) { largeRing(t, func() Algorithm { return ring.NewChangRoberts() }) })
}

func largeRing(t *testing.T, algorithm func() Algorithm) {
	n := fulltest.Size(40, 150)
	c := newCluster(t, n)
	c.startAll(joins(c, "1"), crowded, func(cfg *Config) { cfg.Algorithm = algorithm() })
	c.agree(c.last(0))
	start := time.Now()
	c.kill(c.last(0))
	c.agree(c.last(1))
	t.Logf("%d members agree %v after the crash", n-1, time.Since(start))
}
