package batuta

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/batuta-dev/batuta/election"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	c := newCluster(t, 3)
	c.startAll()
	c.agree("3")
	watched := make(chan View, 1)
	one := c.nodes["1"]
	go func() {
		for v := range one.Watch(t.Context()) {
			if isCause(v, "3", election.CauseResigned) {
				watched <- v
				return
			}
		}
		close(watched)
	}()
	if err := c.nodes["3"].Close(); err != nil {
		t.Fatal(err)
	}
	delete(c.nodes, "3")
	c.agree("2")
	if v, ok := <-watched; !ok {
		t.Errorf("no view said that 3 resigned: %+v", v)
	}
}
