package batuta

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/ring"
)

// A ring of 50 members with real connections agrees on the next leader within
// a second of a crash. Many more do not fit into one process: who has no leader
// dials everyone, so that 200 members would hold 40,000 files open between them.
func TestRingOf50(t *testing.T) {
	if testing.Short() {
		t.Skip("50 members take a while to start")
	}
	t.Run("ring", func(t *testing.T) { ringOf50(t, func() Algorithm { return ring.New() }) })
	t.Run("chang-roberts", func(t *testing.T) { ringOf50(t, func() Algorithm { return ring.NewChangRoberts() }) })
}

func ringOf50(t *testing.T, algorithm func() Algorithm) {
	c := newCluster(t, 50)
	c.startAll(func(cfg *Config) {
		cfg.Algorithm, cfg.Logger = algorithm(), nil
		cfg.TMax = 2 * time.Second // so many members share a few processors
	})
	c.agree("50")
	start := time.Now()
	c.kill("50")
	c.agree("49")
	took := time.Since(start)
	t.Logf("49 members agree %v after the crash", took)
	if took > time.Second {
		t.Errorf("49 members took %v to agree, want at most 1 s", took)
	}
}
