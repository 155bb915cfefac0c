package nodes_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/quorum"
)

// Without a majority no member leads: TryAcquire does not wait for a leader.
func TestTryAcquireWithoutAMajority(t *testing.T) {
	for name, of := range map[string]func(*batuta.Node) batuta.Elector{
		"the cluster's": func(n *batuta.Node) batuta.Elector { return n },
		"a named one":   func(n *batuta.Node) batuta.Elector { return n.Election("shard") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := t.TempDir()
				c := batutatest.New(t, 3, func(cfg *batuta.Config) {
					cfg.DataDir, cfg.Algorithm = filepath.Join(disk, string(cfg.ID)), quorum.New()
				})
				e := of(c.Start("1"))
				began := time.Now()
				_, err := batuta.TryAcquire(t.Context(), e)
				if !errors.Is(err, batuta.ErrNotLeading) || !strings.Contains(err.Error(), "not elected within 3s") {
					t.Errorf("where nobody leads: %v", err)
				}
				if took := time.Since(began); took != batuta.TryTimeout {
					t.Errorf("where nobody leads it takes %v", took)
				}
				within, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := batuta.TryAcquire(within, e); err != context.DeadlineExceeded {
					t.Errorf("within a second: %v", err)
				}
			})
		})
	}
}
