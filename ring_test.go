package batuta

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/ring"
)

// A ring of 200 members with real connections agrees on the next leader at
// once after a crash; -v tells how soon.
func TestRingOf200(t *testing.T) {
	if testing.Short() {
		t.Skip("200 members take a while to start")
	}
	t.Run("ring", func(t *testing.T) { ringOf200(t, func() Algorithm { return ring.New() }) })
	t.Run("chang-roberts", func(t *testing.T) { ringOf200(t, func() Algorithm { return ring.NewChangRoberts() }) })
}

func ringOf200(t *testing.T, algorithm func() Algorithm) {
	c := newCluster(t, 200)
	c.startAll(joins(c, "1"), func(cfg *Config) {
		cfg.Algorithm, cfg.Logger = algorithm(), nil
		// So many members share a few processors: what is slow is not dead.
		cfg.Heartbeat, cfg.TMax, cfg.TProcess = 500*time.Millisecond, time.Second, 3*time.Second
	})
	c.agree("200")
	start := time.Now()
	c.kill("200")
	c.agree("199")
	took := time.Since(start)
	t.Logf("199 members agree %v after the crash", took)
	if took > patience/2 { // on two idle cores it is 0.2 s; a round that is lost costs minutes
		t.Errorf("199 members took %v to agree", took)
	}
}
