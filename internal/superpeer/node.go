package superpeer

// Node is one process's part in the election of super peers: a client, and at
// times a holder of a token, a registrar of some, or both. A Node is not safe for
// concurrent use; make it with [New].
type Node struct {
	cfg     *Config
	hold    *holder     // nil while it is an ordinary node
	charges []charge    // tokens it is the registrar of
	task    *assessment // round trips it measures for others
	poll    *poll       // what it found out about a token that might come
	key     uint64
	rng     draw
	self    Peer
	size    int32 // nodes in the overlay, as last told
	at      Position
	free    promise // the token it keeps itself free for
	client  client
}

// promise binds a node that has said Ready: it takes no other token meanwhile.
type promise struct {
	token int32
	until Round
}

// New makes a node that has just started. cfg must be valid and stays shared;
// key is its identifier on the router's ring, seed makes its choices its own.
func New(cfg *Config, self Peer, key, seed uint64) Node {
	n := Node{cfg: cfg, self: self, key: key, rng: draw(seed)}
	n.client = newClient()
	return n
}

// Locate tells the node its position. Call it before the first step and when
// the position has changed.
func (n *Node) Locate(at Position) { n.at = at }

// Deadline is the round in which to call Wake next, unless a step changes it.
func (n *Node) Deadline() Round {
	if n.hold != nil {
		return 0 // every round
	}
	d := n.client.deadline()
	for i := range n.charges {
		d = min(d, n.charges[i].until)
	}
	if n.task != nil {
		d = min(d, n.task.until)
	}
	if n.poll != nil {
		d = min(d, n.poll.until)
	}
	return d
}

// Holding is the token that the node holds and under which version.
func (n *Node) Holding() (token int32, version uint32, ok bool) {
	if n.hold == nil {
		return 0, 0, false
	}
	return n.hold.token, n.hold.version, true
}

// Serving is what the node serves as a super peer; nil when it is not one. It
// must not be changed.
func (n *Node) Serving() []Lease {
	if n.hold == nil {
		return nil
	}
	return n.hold.leases
}

// Home is the super peer that serves the node, None while there is none.
func (n *Node) Home() Peer { return n.client.home }

// HomeRTT is the round trip to Home in milliseconds, negative while it is not measured.
func (n *Node) HomeRTT() float32 {
	if n.client.home == None {
		return -1
	}
	return n.client.homeRTT
}

// Moves is how often the token that the node holds has moved so far.
func (n *Node) Moves() int {
	if n.hold == nil {
		return 0
	}
	return int(n.hold.moves)
}

// Wake does what is due. size is the number of nodes that the driver's
// membership counts now, this one included.
func (n *Node) Wake(now Round, size int, out *Actions) {
	n.size = int32(size)
	n.wakeRegistrar(now, out)
	if n.task != nil && now >= n.task.until {
		n.finishTask(out)
	}
	n.wakePoll(now, out)
	if n.hold != nil {
		n.wakeHolder(now, out)
	} else {
		n.wakeClient(now, out)
	}
}

// Receive handles m, which was sent to this node. A message that claims a round
// trip which is no number is dropped.
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
		n.admit(now, m, out)
	case Renew:
		n.renewed(now, m, out)
	case Detach:
		n.detached(m, out)
	case Accept:
		n.accepted(now, m, out)
	case Full:
		n.full(now, m, out)
	case Gone:
		n.gone(now, m, out)
	case Redirect:
		n.redirected(now, m, out)
	case Moved:
		n.moved(now, m, out)
	case Recommend:
		n.recommended(now, m, out)
	}
}

func (n *Node) receiveTransfer(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Offer:
		n.offered(now, m, out)
	case Ready:
		n.ready(now, m, out)
	case Decline:
		n.declined(now, m, out)
	case Move:
		n.recordMove(now, m, out)
	case Confirm:
		n.confirmed(now, m, out)
	case Transfer:
		n.transferred(now, m, out)
	}
}

func (n *Node) receiveMotion(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Assess:
		n.assess(now, m, out)
	case Assessed:
		n.assessed(now, m, out)
	case Bid:
		n.bidden(now, m, out)
	case Vacant:
		n.vacated(now, m, out)
	case Poll:
		n.polling(now, m, out)
	case Consider:
		n.considered(m, out)
	case Roll:
		n.rolled(now, m, out)
	case Polled:
		n.polled(now, m)
	case Hush:
		n.hushed(now)
	}
}

func (n *Node) receiveRegistrar(now Round, m *Message, out *Actions) {
	switch m.Kind {
	case Grant:
		n.granted(now, m, out)
	case Keep:
		n.kept(now, m, out)
	case Kept:
		n.confirmedKeep(now, m)
	case Drop:
		n.dropped(now, m, out)
	case Summon:
		n.summoned(now, m, out)
	case Where:
		n.asked(m, out)
	case Here:
		n.found(now, m, out)
	}
}

// Heard gives the node what gossip has brought: the answer to Actions.Look.
func (n *Node) Heard(now Round, list []Announcement, out *Actions) {
	if n.hold != nil {
		n.hold.seen = append(n.hold.seen[:0], list...)
	}
	n.learn(list, out)
	if n.hold != nil {
		n.steer(now, out)
	} else if n.client.waiting == 0 {
		n.choose(now, out)
	}
}

// Probed gives the node a measured round trip in milliseconds; ok is false when
// peer did not answer.
func (n *Node) Probed(now Round, peer Peer, rtt float32, ok bool, out *Actions) {
	n.taskProbed(peer, rtt, ok, out)
	if n.contactProbed(peer, rtt, ok) && n.hold == nil && n.client.waiting == 0 {
		n.choose(now, out)
	}
}
