package batuta_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// An observer never leads: each call that would wait for its leadership returns at once.
func TestObserverDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2, func(cfg *batuta.Config) { cfg.Observer = cfg.ID == "2" })
		c.StartAll()
		c.Agree("1")
		n := c.Node("2")
		work := func(context.Context, batuta.Leadership) error {
			t.Error("an observer leads")
			return nil
		}
		shard := n.Election("shard")
		for name, lead := range map[string]func() error{
			"the cluster's":         func() error { return n.Lead(t.Context(), work) },
			"the cluster's by name": func() error { return n.Election(batuta.DefaultElection).Lead(t.Context(), work) },
			"a named one":           func() error { return shard.Lead(t.Context(), work) },
			"each of some":          func() error { return n.LeadEach(t.Context(), []*batuta.Election{shard}, work) },
		} {
			returned := make(chan error, 1)
			go func() { returned <- lead() }()
			synctest.Wait()
			select {
			case err := <-returned:
				if !errors.Is(err, batuta.ErrObserver) {
					t.Errorf("%s: %v", name, err)
				}
			default:
				t.Errorf("%s: Lead waits for a leadership that never comes", name)
			}
		}
	})
}
