package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// rejoinEvery is how often, in rounds, a lost node is tried again, and compareEvery how
// often at most lists are compared with another node's because a stranger has written.
const (
	rejoinEvery  = 3
	compareEvery = 5 * rejoinEvery
)

// minCompare is how seldom, in rounds, a node compares its list of all nodes with another's if
// there are few. It takes as many rounds as there are nodes, at least: so the comparisons cost
// each the same whatever their number, some 240 bytes a round.
const minCompare = 20

// gap is the number of rounds to the next comparison, which no two nodes make together.
func (d *driver) gap() rules.Round {
	n := uint64(max(minCompare, d.size))
	return rules.Round(n/2 + d.next()%n)
}

// reunite tries to reach a node that was lost, or one that we were told to join through:
// a partition may have ended. The more nodes there are the more seldom each tries.
func (d *driver) reunite(now rules.Round) {
	if now%rejoinEvery != 0 {
		return
	}
	addr, share := d.m.peers.retry(d.next())
	if d.size == 1 && len(d.m.cfg.Join) > 0 {
		addr, share = d.m.cfg.Join[d.next()%uint64(len(d.m.cfg.Join))], 1
	}
	if d.missed && now%compareEvery == 0 {
		d.missed = false
		addr, share = d.m.peers.member(d.next()), 1
	}
	if d.compare == 0 {
		d.compare = now + d.gap()
	} else if now >= d.compare {
		d.compare = now + d.gap()
		addr, share = d.m.peers.member(d.next()), 1
	}
	if addr == "" || float64(d.next()>>11)/(1<<53) > max(share, 2/float64(d.size)) || addr == d.m.Address() {
		return
	}
	select {
	case <-d.rejoin:
	default:
		return
	}
	go func() {
		_, _ = d.m.list.Join([]string{addr}) // nobody there: it is gone
		d.rejoin <- struct{}{}
	}()
}
