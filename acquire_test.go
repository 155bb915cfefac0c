package batuta_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// Of an election with several seats each is acquired, and no more than there are.
func TestTryAcquireOfSeveralSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		seats := func(id batuta.ID) batuta.Elector { return c.Node(id).Election("shard", batuta.Seats(2)) }
		for _, id := range []batuta.ID{"1", "2"} {
			h, err := batuta.TryAcquire(t.Context(), seats(id))
			if err != nil {
				t.Fatalf("TryAcquire of %s: %v", id, err)
			}
			defer h.Release()
		}
		if _, err := batuta.TryAcquire(t.Context(), seats("3")); !errors.Is(err, batuta.ErrNotLeading) {
			t.Errorf("TryAcquire of a third: %v", err)
		}
	})
}

func TestAcquireOfAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2, func(cfg *batuta.Config) { cfg.Observer = cfg.ID == "2" })
		c.StartAll()
		c.Agree("1")
		n := c.Node("2")
		for _, e := range []batuta.Elector{n, n.Election("shard")} {
			if _, err := batuta.Acquire(t.Context(), e); !errors.Is(err, batuta.ErrObserver) {
				t.Errorf("Acquire: %v", err)
			}
			if _, err := batuta.TryAcquire(t.Context(), e); !errors.Is(err, batuta.ErrObserver) {
				t.Errorf("TryAcquire: %v", err)
			}
		}
		if _, err := batuta.TryAcquire(t.Context(), n.Election("")); !errors.Is(err, batuta.ErrConfig) {
			t.Errorf("TryAcquire of an election without a name: %v", err)
		}
	})
}
