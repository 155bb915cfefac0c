package superpeer

// A registrar keeps a token's record: who holds it, under which version. It is
// the node that the router makes responsible for the token's key, so every node
// finds it, and when it fails another takes its place, which learns the record
// from the holder's next renewal or, hearing from nobody, grants the token anew.
// Registrars make the number of tokens exact: token t lives if and only if
// t < ⌈ρ·n⌉. A token lost is granted again, a duplicate is dropped by version.

const (
	keepEvery    Round = 2 // a holder renews at its registrar
	keepLease    Round = 4 // silence after which a registrar grants the token anew
	grantWait    Round = 1 // for the answer to a grant
	maxHeirs           = 3 // clients that could take a lost token over
	registrarGap Round = 8 // a registrar of an unwanted token looks whether it is wanted
)

// charge is a registrar's record of a token.
type charge struct {
	token   int32
	version uint32
	holder  Peer // None: not known or granted and not confirmed
	granted Peer // asked to take it
	until   Round
	tries   int32
	heirs   []Peer
}

// Charged tells the node that the router makes it responsible for token. It
// waits for the holder, if there is one, to show itself.
func (n *Node) Charged(now Round, token int32) {
	if n.charge(token) != nil {
		return
	}
	n.charges = append(n.charges, charge{token: token, holder: None, granted: None, until: now + keepLease})
}

// Relieved tells the node that it is no longer responsible for token.
func (n *Node) Relieved(token int32) {
	for i := range n.charges {
		if n.charges[i].token == token {
			n.charges = append(n.charges[:i], n.charges[i+1:]...)
			return
		}
	}
}

func (n *Node) charge(token int32) *charge {
	for i := range n.charges {
		if n.charges[i].token == token {
			return &n.charges[i]
		}
	}
	return nil
}

// registrar is who keeps token's record; ok is false while that cannot be known.
func (n *Node) registrar(token int32) (peer Peer, ok bool) {
	if n.size == 0 && n.cfg.Method.ranged() {
		return None, false
	}
	return n.cfg.Router.Owner(n.cfg.TokenKey(token, int(n.size)))
}

// wanted is also true before the node has been told how many nodes there are.
func (n *Node) wanted(token int32) bool {
	return n.size == 0 || int(token) < n.cfg.Count(int(n.size))
}

func (n *Node) wakeRegistrar(now Round, out *Actions) {
	for i := range n.charges {
		c := &n.charges[i]
		if now < c.until {
			continue
		}
		if !n.wanted(c.token) {
			c.until = now + registrarGap
			continue
		}
		c.holder = None
		n.grant(now, c, out)
	}
}

// grant asks a node to take a token that nobody holds: an heir of the last
// holder, else a random one. Of the prefix methods it is the registrar itself,
// else the nodes after it.
func (n *Node) grant(now Round, c *charge, out *Actions) {
	to, ok := n.nominee(c)
	if !ok {
		c.until = now + grantWait
		return
	}
	c.version++
	c.granted, c.until = to, now+grantWait
	out.send(Message{Kind: Grant, From: n.self, To: to, Token: c.token, Version: c.version})
}

func (n *Node) nominee(c *charge) (Peer, bool) {
	c.tries++
	if n.cfg.Method.ranged() {
		if c.tries == 1 {
			return n.self, true
		}
		return n.cfg.Router.Owner(n.key + 1 + uint64(c.tries-2)<<44)
	}
	if len(c.heirs) > 0 {
		heir := c.heirs[0]
		c.heirs = c.heirs[1:]
		return heir, true
	}
	if p, ok := n.cfg.Router.(Picker); ok {
		return p.Pick(n.rng.next())
	}
	return n.cfg.Router.Owner(n.rng.next())
}

// granted: a registrar gives this node a token.
func (n *Node) granted(now Round, m *Message, out *Actions) {
	if h := n.hold; h != nil && h.token == m.Token {
		h.version = max(h.version, m.Version)
		n.keep(out)
		return
	}
	if n.hold != nil || n.free.until > now && n.free.token != m.Token {
		out.send(Message{Kind: Decline, From: n.self, To: m.From, Token: m.Token, Version: m.Version})
		return
	}
	n.newHolder(now, m.Token, m.Version, nil, out)
	n.keep(out)
}

// maxNominees is how many nodes a registrar asks to take a token in one round.
const maxNominees = 8

// grantDeclined asks the next one, mostly at once.
func (n *Node) grantDeclined(now Round, m *Message, out *Actions) {
	c := n.charge(m.Token)
	if c == nil || c.granted != m.From || c.version != m.Version {
		return
	}
	if c.tries%maxNominees == 0 {
		c.granted, c.until = None, now+grantWait
		return
	}
	n.grant(now, c, out)
}

// keep renews the token at its registrar and names heirs: the clients nearest to
// the holder, which would serve the others best.
func (n *Node) keep(out *Actions) {
	h := n.hold
	registrar, ok := n.registrar(h.token)
	if !ok {
		return
	}
	out.send(Message{
		Kind: Keep, From: n.self, To: registrar, Token: h.token, Version: h.version,
		Load: int32(len(h.leases)), Peers: h.heirs(),
	})
}

func (h *holder) heirs() []Peer {
	var best [maxHeirs]int
	k := 0
	for i := range h.leases {
		rtt := h.leases[i].RTT
		if rtt < 0 || k == maxHeirs && rtt >= h.leases[best[k-1]].RTT {
			continue
		}
		if k < maxHeirs {
			k++
		}
		j := k - 1
		for j > 0 && h.leases[best[j-1]].RTT > rtt {
			best[j] = best[j-1]
			j--
		}
		best[j] = i
	}
	if k == 0 {
		return nil
	}
	heirs := make([]Peer, k)
	for i := range heirs {
		heirs[i] = h.leases[best[i]].Peer
	}
	return heirs
}

// kept is a holder's renewal. The record follows a newer version; an older one,
// or a second holder under the same, is a duplicate.
func (n *Node) kept(now Round, m *Message, out *Actions) {
	c := n.charge(m.Token)
	if c == nil {
		return // this node's view of the ring is not the holder's; it will ask again
	}
	known := c.holder
	if known == None {
		known = c.granted
	}
	stale := m.Version < c.version || m.Version == c.version && known != None && known != m.From
	if stale || !n.wanted(m.Token) {
		out.send(Message{Kind: Drop, From: n.self, To: m.From, Token: m.Token, Version: max(c.version, m.Version), Peer: c.holder})
		return
	}
	c.version, c.holder, c.granted, c.tries = m.Version, m.From, None, 0
	c.heirs, c.until = m.Peers, now+keepLease
	out.send(Message{Kind: Kept, From: n.self, To: m.From, Token: m.Token, Version: m.Version})
	if n.cfg.Method.ranged() && m.From != n.self && n.hold == nil && n.free.until <= now {
		// The range is this node's; the incumbent stays until it has handed over.
		out.send(Message{Kind: Summon, From: n.self, To: m.From, Token: m.Token, Version: m.Version})
	}
}

func (n *Node) confirmedKeep(now Round, m *Message) {
	if h := n.hold; h != nil && h.token == m.Token && h.version == m.Version {
		h.keepAt = now + keepEvery
	}
}

// dropped: another holds the token under a newer version, or it is wanted no
// more. Those served turn to their deputies.
func (n *Node) dropped(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.token != m.Token || m.Version < h.version {
		return
	}
	for i := range h.leases {
		out.send(Message{Kind: Gone, From: n.self, To: h.leases[i].Peer, Token: h.token, Peer: m.Peer})
	}
	n.stop(now, out)
}

// summoned: the registrar of this range is its rightful holder.
func (n *Node) summoned(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.token != m.Token || h.phase != resting {
		return
	}
	h.handing = append(make([]Lease, 0, len(h.leases)+1), h.leases...)
	n.offer(now, m.From, out)
}

// recordMove is phase two's first half: the record is the one place where it is
// decided who holds the token.
func (n *Node) recordMove(now Round, m *Message, out *Actions) {
	c := n.charge(m.Token)
	if c == nil || c.holder != m.From || c.version != m.Version || !n.wanted(m.Token) {
		return
	}
	c.version++
	c.holder, c.until = m.Peer, now+keepLease
	c.heirs = append([]Peer{m.From}, c.heirs...)
	out.send(Message{Kind: Confirm, From: n.self, To: m.From, Token: m.Token, Version: c.version, Peer: m.Peer})
}

func (n *Node) asked(m *Message, out *Actions) {
	c := n.charge(m.Token)
	if c == nil || c.holder == None {
		return
	}
	out.send(Message{Kind: Here, From: n.self, To: m.From, Token: m.Token, Version: c.version, Peer: c.holder})
}
