package batuta

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestTheHighestLeadsAndEveryoneAgrees(t *testing.T) {
	c := newCluster(t, 5)
	c.startAll()
	token := c.agree("5")
	if !c.nodes["5"].IsLeader() || c.nodes["1"].IsLeader() {
		t.Error("IsLeader differs from the view")
	}
	if token.Epoch == 0 {
		t.Errorf("token %v", token)
	}
}

func TestWhenTheLeaderDiesTheNextLeads(t *testing.T) {
	c := newCluster(t, 5)
	c.startAll()
	before := c.agree("5")
	c.kill("5")
	after := c.agree("4")
	if after.Epoch <= before.Epoch {
		t.Errorf("epoch %d after %d", after.Epoch, before.Epoch)
	}
	waitView(t, c.nodes["4"], "it leads", func(v View) bool { return v.Token == after })
}

func TestWhoClosesHandsOver(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		lost := make(chan View, 1)
		one := c.nodes["1"]
		go func() {
			defer close(lost)
			lost <- waitView(t, one, "3's time ends", func(v View) bool { return v.Lost.Leader.ID == "3" })
		}()
		if err := c.nodes["3"].Close(); err != nil {
			t.Fatal(err)
		}
		delete(c.nodes, "3")
		c.agree("2")
		// The next leader's word may overtake that of the one that goes.
		if v := <-lost; v.Cause != election.CauseResigned && v.Cause != election.CauseSuperseded {
			t.Errorf("3's time ended by %q", v.Cause)
		}
	})
}

func TestWhoReturnsWithTheHighestRankTakesOver(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		c.kill("3")
		without := c.agree("2")
		c.rebind("3")
		c.start("3")
		if with := c.agree("3"); with.Epoch <= without.Epoch {
			t.Errorf("token %v after %v", with, without)
		}
	})
}

func TestWhoReturnsFollowsWithoutPreemption(t *testing.T) {
	virtually(t, func(t *testing.T) {
		follow := func(cfg *Config) { cfg.NoPreempt = true }
		c := newVirtualCluster(t, 3)
		c.startAll(follow)
		c.agree("3")
		c.kill("3")
		token := c.agree("2")
		c.rebind("3")
		c.start("3", follow)
		if got := c.agree("2"); got != token {
			t.Errorf("token %v, and was %v", got, token)
		}
	})
}

func TestAnyTwoOfFiveMayDie(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 5)
		c.startAll(quick)
		c.agree("5")
		c.kill("5")
		c.kill("4")
		c.agree("3")
	})
}
