package lab

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
)

// shards is the number of parts of the nodes. It does not depend on the CPUs, so neither does the
// order in which messages arrive.
const shards = 16

// maxWaves is how often messages are passed within a round before the rest waits for the next.
const maxWaves = 24

// world is all nodes, their network and their gossip.
type world struct {
	cfg   superpeer.Config
	space space
	seed  uint64

	nodes  []superpeer.Node // by slot
	due    []superpeer.Round
	slotOf []int32                 // by peer; -1: gone
	peerOf []superpeer.Peer        // by slot; None: empty
	placed []superpeer.Position    // by slot, if positions are estimated
	said   []coordinate.Coordinate // by slot, likewise
	n      int                     // nodes alive

	ring    *superpeer.Ring
	charged []superpeer.Peer // by token: its registrar

	round  superpeer.Round
	gossip gossip
	shard  [shards]shard
	boxes  [2][shards][shards][]superpeer.Message // by wave's parity, sender, receiver
	fill   [2][shards][shards]int                 // the most messages that each held in this round
}

// shard is the working memory for a part of the nodes.
type shard struct {
	out   superpeer.Actions
	heard []superpeer.Announcement
	hits  []hit
	told  []superpeer.Announcement
	sent  int // messages; a probe counts as two
}

func newWorld(cfg superpeer.Config, s space, n int, seed uint64) *world {
	w := &world{cfg: cfg, space: s, seed: seed}
	w.gossip.metric = cfg.Metric
	w.ring = superpeer.NewRing(nil)
	w.cfg.Router = w.ring
	w.nodes = make([]superpeer.Node, n)
	w.due = make([]superpeer.Round, n)
	w.peerOf = make([]superpeer.Peer, n)
	for s := range w.peerOf {
		w.peerOf[s] = superpeer.None
	}
	w.locate()
	places := make([]superpeer.Place, 0, n)
	for s := range n {
		places = append(places, w.join(int32(s)))
	}
	w.ring.Change(func(superpeer.Peer) bool { return false }, places)
	w.recharge()
	return w
}

// join starts a node in slot and returns its place on the ring.
func (w *world) join(slot int32) superpeer.Place {
	peer := superpeer.Peer(len(w.slotOf))
	w.slotOf = append(w.slotOf, slot)
	w.peerOf[slot] = peer
	r := seeded(w.seed, 3, uint64(peer))
	key := r.Next()
	w.nodes[slot] = superpeer.New(&w.cfg, peer, key, r.Next())
	w.nodes[slot].Locate(w.position(slot))
	w.due[slot] = w.round
	w.n++
	return superpeer.Place{Key: key, Peer: peer}
}

// leave removes the node in slot without an announcement, as a crash does.
func (w *world) leave(slot int32) {
	w.slotOf[w.peerOf[slot]] = -1
	w.peerOf[slot] = superpeer.None
	w.nodes[slot] = superpeer.Node{}
	w.n--
}

func (w *world) alive(p superpeer.Peer) bool { return w.slotOf[p] >= 0 }

// recharge gives nodes the tokens of which they have become registrars.
func (w *world) recharge() {
	count := w.cfg.Count(w.n)
	for t := range max(count, len(w.charged)) {
		if t == len(w.charged) {
			w.charged = append(w.charged, superpeer.None)
		}
		owner, _ := w.ring.Owner(w.cfg.TokenKey(int32(t), w.n))
		was := w.charged[t]
		if was == owner {
			continue
		}
		if was != superpeer.None && w.alive(was) {
			w.nodes[w.slotOf[was]].Relieved(int32(t))
		}
		slot := w.slotOf[owner]
		w.nodes[slot].Charged(w.round, int32(t))
		w.due[slot] = min(w.due[slot], w.nodes[slot].Deadline())
		w.charged[t] = owner
	}
}

// play runs a round: all nodes that are due wake, then messages are passed until there are none.
func (w *world) play() {
	parallel(shards, func(i int) {
		from, to := w.part(i)
		for s := from; s < to; s++ {
			if w.due[s] <= w.round && w.peerOf[s] != superpeer.None {
				w.step(i, int32(s), 0, func(n *superpeer.Node, out *superpeer.Actions) { n.Wake(w.round, w.n, out) })
			}
		}
	})
	now := 0
	for range maxWaves {
		now = 1 - now
		if w.quiet(1 - now) {
			break
		}
		parallel(shards, func(i int) { w.deliver(i, 1-now) })
	}
	for i := range w.shard {
		w.gossip.tell(w.round, w.shard[i].told)
		w.shard[i].told = w.shard[i].told[:0]
	}
	w.gossip.spread(w.round)
	w.trim()
	w.round++
}

// trim frees boxes that were much larger than needed: the first rounds, when all nodes look for a
// super peer, are the busiest.
func (w *world) trim() {
	for b := range w.boxes {
		for from := range shards {
			for to := range shards {
				most := w.fill[b][from][to]
				if box := w.boxes[b][from][to]; len(box) == 0 && cap(box) > 4*most+64 {
					w.boxes[b][from][to] = nil
				}
				w.fill[b][from][to] = 0
			}
		}
	}
}

func (w *world) part(i int) (from, to int) {
	n := len(w.nodes)
	return i * n / shards, (i + 1) * n / shards
}

func (w *world) shardOf(slot int32) int {
	n := len(w.nodes)
	i := int(slot) * shards / n
	if from, to := w.part(i); int(slot) < from {
		return i - 1
	} else if int(slot) >= to {
		return i + 1
	}
	return i
}

func (w *world) quiet(wave int) bool {
	for from := range shards {
		for to := range shards {
			if len(w.boxes[wave][from][to]) > 0 {
				return false
			}
		}
	}
	return true
}

// deliver gives shard i its messages of a wave; the answers go into the next wave.
func (w *world) deliver(i, wave int) {
	for from := range shards {
		box := w.boxes[wave][from][i]
		w.fill[wave][from][i] = max(w.fill[wave][from][i], len(box))
		for k := range box {
			m := &box[k]
			if slot := w.slotOf[m.To]; slot >= 0 {
				w.step(i, slot, 1-wave, func(n *superpeer.Node, out *superpeer.Actions) { n.Receive(w.round, m, out) })
			}
		}
		clear(box) // old messages must not keep lists alive
		w.boxes[wave][from][i] = box[:0]
	}
}

// step lets a node act, and answers its probes and its looks at once: both take much less than a
// round.
func (w *world) step(i int, slot int32, wave int, act func(*superpeer.Node, *superpeer.Actions)) {
	sh := &w.shard[i]
	out, node := &sh.out, &w.nodes[slot]
	out.Reset()
	act(node, out)
	for k := 0; k < len(out.Probe) || out.Look.Near > 0; {
		if out.Look.Near > 0 {
			q := out.Look
			out.Look.Near = 0
			sh.heard, sh.hits = w.gossip.hear(&q, sh.heard[:0], sh.hits)
			node.Heard(w.round, sh.heard, out)
			continue
		}
		w.probe(node, slot, out.Probe[k], out)
		sh.sent += 2
		k++
	}
	for k := range out.Send {
		if to := w.slotOf[out.Send[k].To]; to >= 0 {
			d := w.shardOf(to)
			w.boxes[wave][i][d] = append(w.boxes[wave][i][d], out.Send[k])
		}
	}
	sh.sent += len(out.Send)
	if out.Announce {
		sh.told = append(sh.told, out.Tell)
	}
	w.due[slot] = node.Deadline()
}

func (w *world) probe(node *superpeer.Node, slot int32, peer superpeer.Peer, out *superpeer.Actions) {
	if to := w.slotOf[peer]; to >= 0 {
		node.Probed(w.round, peer, w.space.rtt(slot, to), true, out)
		return
	}
	node.Probed(w.round, peer, float32(math.Inf(1)), false, out)
}
