package batutatest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// A follower that is cut off leads its side of one. When it is back the leader of the larger side
// goes on under a higher epoch: its work is not cancelled, and no follower of it loses it.
func TestTheLargerSideKeepsItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		first := c.Agree("3")
		kinds := map[batuta.ID]*[]batuta.EventKind{"2": {}, "3": {}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for id, seen := range kinds {
			events := c.Node(id).Events(ctx)
			go func() {
				for ev := range events {
					*seen = append(*seen, ev.Kind)
				}
			}()
		}
		held, err := batuta.Acquire(t.Context(), c.Node("3"))
		if err != nil {
			t.Fatal(err)
		}
		c.Isolate("1")
		time.Sleep(10 * time.Second)
		if v := c.Node("1").Leader(); v.Token.Leader.ID != "1" {
			t.Fatalf("1, which is cut off, follows %v", v.Token)
		}
		c.Heal()
		last := c.Agree("3")
		time.Sleep(time.Second)
		if last.Epoch <= first.Epoch {
			t.Errorf("3 leads under %v, want an epoch above that of %v", last, first)
		}
		if !held.Valid() || held.Context().Err() != nil || held.Token != first {
			t.Errorf("valid %v, context %v, token %v: the work goes on under %v", held.Valid(), held.Context().Err(), held.Token, first)
		}
		held.Release()
		stop()
		synctest.Wait()
		for id, seen := range kinds {
			renewed := 0
			for _, k := range *seen {
				switch k {
				case batuta.EventRenewed:
					renewed++
				case batuta.EventLost:
					if renewed == 0 {
						t.Errorf("%s loses its leader: %v", id, *seen)
					}
				}
			}
			if renewed == 0 {
				t.Errorf("%s has no event renewed: %v", id, *seen)
			}
		}
	})
}
