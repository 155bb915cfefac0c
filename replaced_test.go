package batuta

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// A machine dies, and another takes its place under its id. The old one comes back before
// the leader has heard the new one, and is taken for the member: it ends all the same, says
// where the other is, and the new one is the member.
func TestOfAReplacedMachineAndItsReplacementOneStays(t *testing.T) {
	for _, id := range []ID{"2", "3"} {
		t.Run("member "+string(id), func(t *testing.T) {
			virtually(t, func(t *testing.T) { replaceTooSoon(t, id) })
		})
	}
}

func replaceTooSoon(t *testing.T, id ID) {
	c := newVirtualCluster(t, 4)
	dir, known := stalltest.Dir(t), c.members[:3]
	listed := func(cfg *Config) {
		if cfg.Peers = known; cfg.ID == id {
			cfg.DataDir = dir
		}
	}
	for _, m := range known {
		c.start(m.ID, listed)
	}
	c.agree("3")
	first := c.nodes[id]
	c.kill(id)
	first.Close() // for its data directory
	leader := map[ID]ID{"2": "3", "3": "2"}[id]
	c.agree(leader)

	c.memory.Cut("4", string(leader))
	there := c.members[3].Addr
	replacement := c.start("4", joins(c, "1"), func(cfg *Config) { cfg.ID, cfg.Bootstrap = id, false })
	within(t, "1 has the new address", func() bool { return addressOf(c.nodes["1"], id) == there })
	c.rebind(id)
	old := c.start(id, listed)
	waitView(t, old, "the old one follows", func(v View) bool { return v.Defined() })
	c.memory.Heal("4", string(leader))

	select {
	case <-old.Done():
	case <-replacement.Done():
		t.Fatalf("the replacement has ended: %v", replacement.Err())
	case <-time.After(patience):
		t.Fatalf("both stay: the old one sees %v, the new one %v", old.Leader().Token, replacement.Leader().Token)
	}
	if err := old.Err(); err == nil || !strings.Contains(err.Error(), there) {
		t.Errorf("the old one ends because of %v; want it to name %s", err, there)
	}
	delete(c.nodes, id)
	c.agree("3")
	if err := replacement.Err(); err != nil {
		t.Errorf("the replacement has ended: %v", err)
	}
}

func addressOf(n *Node, id ID) string {
	for _, m := range statusOf(n).Members {
		if m.ID == id {
			return m.Address
		}
	}
	return ""
}
