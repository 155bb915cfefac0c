package nodetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// States checks that a follower publishes a member that is frozen, cut off or has ended as not up within 2·T, and as
// up once that has passed. Followers exchange nothing without faults: the leader reports it.
func States(t *testing.T, algorithm Maker) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 5, func(cfg *batuta.Config) { cfg.Algorithm = algorithm() })
		c.StartAll()
		c.Agree("5")
		bound := 2 * status(t, c.Node("2")).Timing.T()
		faults := []struct {
			name          string
			begins, heals func(batuta.ID)
			state         batuta.MemberState
		}{
			{"frozen", c.Freeze, c.Thaw, batuta.StateUnreachable},
			{"cut off", c.Isolate, func(batuta.ID) { c.Heal() }, batuta.StateUnreachable},
			{"ended", c.Kill, func(id batuta.ID) { c.Start(id) }, batuta.StateDown},
		}
		for _, fault := range faults {
			time.Sleep(3 * time.Second)
			fault.begins("1")
			time.Sleep(bound)
			for _, follower := range []batuta.ID{"2", "3", "4"} {
				if m := member(t, c.Node(follower), "1"); m.State != fault.state {
					t.Errorf("%s publishes %+v, which is %s", follower, m, fault.name)
				}
			}
			fault.heals("1")
			time.Sleep(3 * time.Second)
			token := c.Agree("5")
			for _, follower := range []batuta.ID{"2", "3", "4"} {
				if m := member(t, c.Node(follower), "1"); m.State != batuta.StateUp || m.Epoch != token.Epoch {
					t.Errorf("%s publishes %+v, which is no longer %s", follower, m, fault.name)
				}
			}
		}
	})
}

// member returns a member as n publishes it.
func member(t *testing.T, n *batuta.Node, id batuta.ID) batuta.MemberStatus {
	t.Helper()
	for _, m := range status(t, n).Members {
		if m.ID == id {
			return m
		}
	}
	return batuta.MemberStatus{}
}
