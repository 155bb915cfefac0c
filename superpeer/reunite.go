package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// rejoinEvery is how often, in rounds, a lost node is retried. compareEvery is the shortest time
// between two comparisons of lists that an unlisted sender triggers.
const (
	rejoinEvery  = 3
	compareEvery = 5 * rejoinEvery
)

// minCompare is the shortest interval, in rounds, at which a node compares its list of all nodes
// with a peer's. It takes at least as many rounds as there are nodes, so that comparisons cost each
// node the same for any number of nodes, some 240 bytes a round.
const minCompare = 20

// gap returns the number of rounds until the next comparison of a list of that size, randomized so
// that nodes do not compare at the same time.
func (d *driver) gap(size int) rules.Round {
	n := uint64(max(minCompare, size))
	return rules.Round(n/2 + d.draw.Next()%n)
}

// reunite tries to reach a lost node, or an address to join by: a partition may have ended. The
// more nodes there are, the less often each tries.
func (d *driver) reunite(now rules.Round) {
	if now%rejoinEvery != 0 {
		return
	}
	addr, share := d.m.peers.retry(d.draw.Next())
	if d.size == 1 && len(d.m.cfg.Join) > 0 {
		addr, share = d.m.cfg.Join[d.draw.Next()%uint64(len(d.m.cfg.Join))], 1
	}
	if d.missed && now%compareEvery == 0 {
		d.missed = false
		addr, share = d.m.peers.member(d.draw.Next()), 1
	}
	if first := d.compare == 0; first || now >= d.compare {
		d.compare = now + d.gap(d.size)
		if !first {
			addr, share = d.m.peers.member(d.draw.Next()), 1
		}
	}
	if addr != "" && d.draw.Unit() <= max(share, 2/float64(d.size)) {
		d.m.compare(addr, d.m.list, &d.rejoin)
	}
}
