package batuta

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The work of a leader that is removed takes 3 s to stop. Its node lasts as long and
// reports that, and the next one's work begins only then.
func TestARemovedLeaderWorksUntilItsWorkHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		type turn struct {
			id    ID
			begun bool
		}
		turns := make(chan turn, 10)
		for id, n := range c.nodes {
			go n.Lead(context.Background(), func(ctx context.Context, _ Leadership) error {
				turns <- turn{id, true}
				<-ctx.Done()
				if lost, ok := context.Cause(ctx).(*LostError); id == "3" && (!ok || lost.Cause != "removed") {
					t.Errorf("3's work is told %v, not that it was removed", context.Cause(ctx))
				}
				time.Sleep(3 * time.Second)
				turns <- turn{id, false}
				return nil
			})
		}
		if got := <-turns; got != (turn{"3", true}) {
			t.Fatalf("first comes %v, not 3's work", got)
		}
		time.Sleep(time.Second)
		if err := c.nodes["1"].RemoveMember(t.Context(), "3"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []turn{{"3", false}, {"2", true}} {
			if got := <-turns; got != want {
				t.Errorf("then comes %v, want %v", got, want)
			}
		}
		<-c.nodes["3"].Done()
		c.nodes["2"].Shutdown(context.Background())
		c.nodes["1"].Shutdown(context.Background())
	})
}
