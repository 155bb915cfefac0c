package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// Messages between the members of a core and their clients, besides the Node's messages.

// adorn adds to our message what its receiver may not know.
func (c *core) adorn(w *message) {
	switch w.Kind {
	case rules.Renew, rules.Kept:
		return
	case rules.Accept:
		w.Size, w.Live = c.d.size, len(c.notices)
		w.Told = c.passOn(w)
	}
	w.Nodes = c.m.peers.introductions(w, w.Kind != rules.Accept)
}

// passOn returns announcements for a client, sent with the answer to its renewal: a super peer near
// it, each of the nearest in turn, and a random super peer.
func (c *core) passOn(w *message) (told [][]byte) {
	leases := c.d.node.Serving()
	n := len(c.notices)
	if n == 0 || int(w.Slot) >= len(leases) {
		return nil
	}
	at := leases[w.Slot].At
	near := nearOf(c.notices, &at, &c.d.cfg.Metric)
	k := near[(int(c.d.round)+int(w.Slot))%len(near)]
	told = append(told, c.notices[k].encode())
	if other := int(c.d.draw.Next() % uint64(n)); other != k {
		told = append(told, c.notices[other].encode())
	}
	return told
}

// nearOf returns the indices of the nearOnes notices nearest to at, the nearest first.
func nearOf(list []notice, at *rules.Position, metric *rules.Metric) []int {
	var places [nearOnes]int
	var ways [nearOnes]float32
	most := min(nearOnes, len(list))
	for i := range list {
		ms := metric.Estimate(at, &list[i].At)
		if i >= most && ms >= ways[most-1] {
			continue
		}
		j := min(i, most-1)
		for ; j > 0 && ways[j-1] > ms; j-- {
			places[j], ways[j] = places[j-1], ways[j-1]
		}
		places[j], ways[j] = i, ms
	}
	return places[:most]
}

// know returns the answer to a node that asks for our list. It is not called by the driver.
func (m *Member) know() []byte {
	v := m.view.Load()
	if v == nil {
		v = &view{}
	}
	w := message{Kind: kindKnow, From: m.peers.self, Size: v.nodes, Live: v.live, Core: v.core}
	list := m.book.snapshot()
	first := int(m.asked.Add(clientBook)) - clientBook
	for i := range min(len(list), clientBook) {
		w.Told = append(w.Told, list[(first+i)%len(list)].encode())
	}
	w.Nodes = m.peers.introductions(&w, true)
	body, err := encoder.Marshal(&w)
	if err != nil {
		return nil
	}
	return append([]byte{tagMessage}, body...)
}

// read handles the parts of a message for the core.
func (c *core) read(w *message) {
	now, home := c.d.round, uint64(w.From) == c.d.homeKey()
	switch w.Kind {
	case rules.Accept, rules.Full, rules.Redirect, rules.Moved:
		c.superAt = now
	case kindKnow:
		if k, ok := c.m.peers.of(w.From); !ok || k.Address != c.asks {
			c.askedAt = now // it asks us
		}
		if w.Core {
			c.superAt = now
		}
	}
	if c.list == nil && w.Size > 0 && (w.Kind == rules.Accept && home || w.Kind == kindKnow && c.told == 0) {
		c.believe(min(w.Size, maxNodes), now)
		c.live = min(w.Live, maxNodes)
	}
	if w.Kind != kindKnow && !(w.Kind == rules.Accept && home) {
		return
	}
	for _, raw := range w.Told[:min(len(w.Told), clientBook)] {
		u := holderOf(raw)
		if k, ok := c.m.peers.of(u); ok && c.list != nil && !k.listed && u != c.d.self {
			c.merge(k.Address)
		}
		if len(raw) > 1 && raw[0] == tagAnnounce {
			c.d.announced(raw)
		}
	}
}

// believe accepts a reported number of nodes. A home may be malicious, and soon replaced: after the
// first report the number at most doubles per round.
func (c *core) believe(n int, now rules.Round) {
	if c.told > 0 && n > c.told {
		if now == c.toldAt {
			return
		}
		n = min(n, 2*c.told)
	}
	c.told, c.toldAt, c.d.size = n, now, n
}

// maxNodes bounds the reported number of nodes.
const maxNodes = 10_000_000
