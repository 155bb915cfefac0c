package superpeer

// Node is a process in the election of super peers: a client, and at times the holder of a token,
// the registrar of some, or both. Its parts cannot access each other: the Node passes a message to
// the part that it is for. A Node is not safe for concurrent use; make it with [New].
type Node struct {
	self
	hold      *holder   // nil while it is an ordinary node
	registrar registrar // of the tokens that the router gives it
	helper    helper
	free      promise // the token for which it keeps itself free
	client    client
}

// promise binds a node that has sent Ready: it takes no further token meanwhile.
type promise struct {
	token int32
	until Round
}

// New makes a node that has just started. cfg must be valid and stays shared; key is its identifier
// on the router's ring, seed determines its random choices.
func New(cfg *Config, peer Peer, key, seed uint64) Node {
	return Node{self: self{cfg: cfg, peer: peer, key: key, rng: Draw(seed)}, client: client{home: None, trying: None, lookGap: 1, lookedAt: -1, renewAt: never}}
}

// Locate sets the node's position. Call it before the first step and when the position has changed.
func (n *Node) Locate(at Position) { n.at = at }

// Deadline returns the round in which to call Wake next, unless a step changes it.
func (n *Node) Deadline() Round {
	if n.hold != nil {
		return 0 // every round
	}
	return min(n.client.deadline(), n.registrar.deadline(), n.helper.deadline())
}

// Holding returns the token that the node holds, and its version.
func (n *Node) Holding() (token int32, version uint32, ok bool) {
	if n.hold == nil {
		return 0, 0, false
	}
	return n.hold.token, n.hold.version, true
}

// Serving returns the leases of the node's clients; nil if it is no super peer. The caller must not
// change them.
func (n *Node) Serving() []Lease {
	if n.hold == nil {
		return nil
	}
	return n.hold.leases
}

// Home returns the super peer that serves the node, None while there is none.
func (n *Node) Home() Peer { return n.client.home }

// HomeRTT returns the round trip to Home in milliseconds, negative while it is not measured.
func (n *Node) HomeRTT() float32 {
	if n.client.home == None {
		return -1
	}
	return n.client.homeRTT
}

// Charged makes the node the registrar of token, by the router. It waits for the holder, if there
// is any, to renew.
func (n *Node) Charged(now Round, token int32) { n.registrar.add(now, token) }

// Relieved ends the node's task as the registrar of token.
func (n *Node) Relieved(token int32) { n.registrar.remove(token) }

// Stalled postpones by rounds what the node does because of others' silence: the process did not run
// in these rounds, and what was sent to it meanwhile may still wait.
func (n *Node) Stalled(rounds Round) { n.registrar.stalled(rounds) }

// Wake does what is due. size is the present number of nodes in the driver's membership, this node
// included.
func (n *Node) Wake(now Round, size int, out *Actions) {
	n.size = int32(size)
	n.registrar.wake(&n.self, now, out)
	n.helper.wake(&n.self, now, out)
	if n.hold != nil {
		n.hold.wake(&n.self, now, out)
	} else {
		n.client.wake(&n.self, now, out)
	}
}

// Receive handles m, which was sent to this node. It drops a message with a round trip that is not
// a number.
func (n *Node) Receive(now Round, m *Message, out *Actions) {
	if m.RTT != m.RTT || m.Alt != m.Alt {
		return
	}
	switch {
	case m.Kind < Offer:
		n.receiveAttach(now, m, out)
	case m.Kind < Assess:
		n.receiveTransfer(now, m, out)
	case m.Kind < Grant:
		n.receiveMotion(now, m, out)
	default:
		n.receiveRegistrar(now, m, out)
	}
}

func (n *Node) receiveAttach(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Attach:
		if n.hold != nil {
			n.hold.admit(&n.self, now, m, out)
		} else {
			n.client.refer(&n.self, m, out)
		}
	case Renew:
		if n.hold == nil || !n.hold.renewed(&n.self, now, m, out) {
			n.client.refer(&n.self, m, out)
		}
	case Detach:
		if n.hold != nil {
			n.hold.detached(&n.self, m, out)
		}
	case Accept:
		n.client.accepted(&n.self, now, m, out)
	case Full:
		n.client.full(&n.self, now, m, out)
	case Gone:
		n.client.gone(&n.self, now, m, n.hold != nil, out)
	case Redirect:
		n.client.redirected(&n.self, now, m, out)
	case Moved:
		n.client.moved(&n.self, now, m, out)
	case Recommend:
		if n.hold == nil {
			n.client.recommended(&n.self, now, m, out)
		}
	}
}

func (n *Node) receiveTransfer(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Offer:
		n.offered(now, m, out)
	case Ready:
		n.hold.ready(&n.self, now, m, out)
	case Decline:
		n.hold.declined(&n.self, now, m)
		n.registrar.declined(&n.self, now, m, out)
	case Move:
		n.registrar.recordMove(&n.self, now, m, out)
	case Confirm:
		n.confirmed(now, m, out)
	case Transfer:
		n.transferred(now, m, out)
	}
}

func (n *Node) receiveMotion(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Assess:
		if n.hold == nil { // the sender proceeds without an answer
			n.helper.assess(&n.self, now, m, out)
		}
	case Assessed:
		n.hold.assessed(&n.self, now, m, out)
	case Bid:
		n.hold.bidden(&n.self, now, m, out)
	case Vacant:
		n.hold.vacated(&n.self, now, m, out)
	case Poll:
		if n.hold == nil {
			n.helper.polling(&n.self, now, m, n.client.measured(), out)
		}
	case Consider:
		n.hold.considered(&n.self, m, out)
	case Roll:
		n.helper.rolled(&n.self, now, m, out)
	case Polled:
		n.hold.polled(now, m)
	case Hush:
		n.hold.hushed(now)
	}
}

func (n *Node) receiveRegistrar(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Grant:
		n.granted(now, m, out)
	case Keep:
		n.registrar.kept(&n.self, now, m, n.hold == nil && n.free.until <= now, out)
	case Kept:
		n.hold.renewedToken(now, m)
	case Drop:
		n.dropped(now, m, out)
	case Summon:
		n.hold.summoned(&n.self, now, m, out)
	case Where:
		n.registrar.asked(&n.self, m, out)
	case Here:
		n.client.found(&n.self, now, m, out)
	}
}

// Heard handles announcements: the answer to Actions.Look.
func (n *Node) Heard(now Round, list []Announcement, out *Actions) {
	if n.hold != nil {
		n.hold.seen = append(n.hold.seen[:0], list...)
	}
	n.client.learn(&n.self, list, out)
	if n.hold != nil {
		n.hold.steer(&n.self, now, n.client.nearest(), out)
	} else if n.client.waiting == 0 {
		n.client.choose(&n.self, now, out)
	}
}

// Probed handles a measured round trip in milliseconds; ok is false if peer did not answer.
func (n *Node) Probed(now Round, peer Peer, rtt float32, ok bool, out *Actions) {
	n.helper.probed(&n.self, peer, rtt, ok, out)
	if n.client.probed(peer, rtt, ok) && n.hold == nil && n.client.waiting == 0 {
		n.client.choose(&n.self, now, out)
	}
}
