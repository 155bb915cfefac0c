package batuta

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// Over links that keep to t_max nobody is taken for dead: neither while they are
// made nor later. Time is virtual, so that a busy machine is no slow link.
func TestSlowLinksFlapNothing(t *testing.T) {
	const longest = election.DefaultTMax - time.Millisecond
	algorithms := map[string]func() election.Algorithm{
		"bully":         func() election.Algorithm { return bully.New() },
		"ring":          func() election.Algorithm { return ring.New() },
		"chang-roberts": func() election.Algorithm { return ring.NewChangRoberts() },
	}
	for name, algorithm := range algorithms {
		for _, shortest := range []time.Duration{time.Millisecond, 80 * time.Millisecond, longest} {
			for _, members := range fulltest.Size([]int{3}, []int{2, 3, 5}) {
				t.Run(fmt.Sprintf("%s/%v/%d", name, shortest, members), func(t *testing.T) {
					virtually(t, func(t *testing.T) {
						c := newVirtualCluster(t, members)
						c.memory.Takes = between(shortest, longest)
						stayWithOneLeader(c, func(cfg *Config) { cfg.Algorithm = algorithm() })
					})
				})
			}
		}
	}
}

// between draws durations, both bounds included.
func between(least, most time.Duration) func() time.Duration {
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(1, uint64(least)))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return least + time.Duration(chance.Int64N(int64(most-least)+1))
	}
}

// stayWithOneLeader has a cluster live for a while, the highest member going and
// coming back.
func stayWithOneLeader(c *cluster, change func(*Config)) {
	c.startAll(change)
	top := c.members[len(c.members)-1].ID
	c.steady("all have started", top)
	if epoch := statusOf(c.nodes[top]).Epoch; epoch != 1 {
		c.t.Errorf("they came to agree in epoch %d: somebody led in between", epoch)
	}
	c.kill(top)
	time.Sleep(5 * time.Second)
	c.rebind(top)
	c.start(top, change)
	c.steady("the highest has returned", top)
	for _, n := range c.nodes {
		if err := n.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// steady demands that everyone follows leader after 10 s, and is still in the same
// epoch 30 s later.
func (c *cluster) steady(what string, leader ID) {
	time.Sleep(10 * time.Second)
	token := statusOf(c.nodes[leader]).Token
	time.Sleep(30 * time.Second)
	for id, n := range c.nodes {
		if s := statusOf(n); s.Leader != leader || s.Token != token || s.Links == 0 {
			c.t.Errorf("%s: %s has leader %s and %d links, and %v was agreed; lost so far: %v\n%s", what, id, s.Token, s.Links, token, s.Lost, story(n))
		}
	}
}
