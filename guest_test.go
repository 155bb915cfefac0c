package batuta

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/quorum"
)

// Members 4 and 5 join while 2 is away, and 1 is gone when it comes back: 5, which leads, is
// on no list that 2 has, and 2 lets it in all the same, for what it has in its log.
func TestAVoterThatWasAwayFollowsANewcomer(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 5)
		dirs := map[ID]string{}
		durable := func(cfg *Config) {
			id := ID(cfg.ID)
			if dirs[id] == "" {
				dirs[id] = stalltest.Dir(t)
			}
			cfg.DataDir, cfg.Algorithm, cfg.Peers = dirs[id], quorum.New(), c.members[:3]
		}
		for _, id := range []ID{"1", "2", "3"} {
			c.start(id, durable)
		}
		c.agree("3")
		c.nodes["2"].Close()
		delete(c.nodes, "2")
		for _, id := range []ID{"4", "5"} {
			c.start(id, durable, joins(c, "1", "3"), func(cfg *Config) { cfg.Bootstrap = false })
			c.agree(id) // it votes, and outranks who led
		}
		c.kill("1")
		c.rebind("2")
		c.start("2", durable)
		c.agree("5")
		for _, m := range statusOf(c.nodes["2"]).Members {
			if m.Address == "" {
				t.Errorf("2 has no address of %s", m.ID)
			}
		}
	})
}
