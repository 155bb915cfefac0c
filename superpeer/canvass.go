package superpeer

// A holder sees only what a second token would save its own clients. Those who
// live between several super peers would be overlooked that way, so before a
// promising vacancy is offered, the client there canvasses: it asks the super
// peers around it for their clients, measures how far those are from itself, and
// reports what they too would save.

// canvassWait is how long the super peers around are waited for, and
// canvassMemory how long the result is kept for the case that a token comes.
const (
	canvassWait   Round = 2
	canvassMemory Round = 16
)

// canvassShare is how much of the least loss heard of a vacancy must save its
// finder's clients to be worth a canvass.
const canvassShare = 0.3

// canvass is what the client at a vacancy has gathered.
type canvass struct {
	from    Peer // its super peer
	asked   int  // super peers that have not been reckoned with yet
	gains   []float32
	gainers []Lease // whom it would serve better; RTT is from here
	until   Round   // report; later: forget
	done    bool
}

// askAround begins a canvass of this holder's vacancy, if it may come to
// anything.
func (n *Node) askAround(now Round, out *Actions) {
	h := n.hold
	v := &h.vacancy
	if v.at == None || v.asOf != now || v.pooled {
		return
	}
	least := float32(-1)
	for i := range h.seen {
		if a := &h.seen[i]; a.Loss >= 0 && a.Holder != n.self && (least < 0 || a.Loss < least) {
			least = a.Loss
		}
	}
	if least < 0 || v.gain < canvassShare*least {
		return
	}
	out.send(Message{Kind: Canvass, From: n.self, To: v.at, Token: h.token})
}

// canvassing: this node is where a second token would help.
func (n *Node) canvassing(now Round, m *Message, out *Actions) {
	if n.hold != nil || n.canvass != nil && !n.canvass.done {
		return
	}
	c := &canvass{from: m.From, until: now + canvassWait}
	n.canvass = c
	for i := range n.client.contacts[:n.client.known] {
		if p := n.client.contacts[i].peer; p != m.From {
			c.asked++
			out.send(Message{Kind: Consider, From: n.self, To: p, At: n.at})
		}
	}
	if c.asked == 0 {
		n.report(now, out)
	}
}

// considered answers with this holder's clients; where positions are true, with
// those alone that might gain.
func (n *Node) considered(m *Message, out *Actions) {
	answer := Message{Kind: Roll, From: n.self, To: m.From}
	if h := n.hold; h != nil {
		price := n.price()
		for i := range h.leases {
			l := &h.leases[i]
			if l.RTT >= 0 && l.Peer != m.From && !(n.cfg.Metric.Exact && n.cfg.Metric.Estimate(&m.At, &l.At) >= l.RTT+price) {
				answer.Leases = append(answer.Leases, *l)
				answer.Leases[len(answer.Leases)-1].RTT += price // its place is worth that
			}
		}
	}
	out.send(answer)
}

func (n *Node) rolled(now Round, m *Message, out *Actions) {
	c := n.canvass
	if c == nil || c.done {
		return
	}
	if len(m.Leases) == 0 {
		n.counted(now, out)
		return
	}
	t := &assessment{from: m.From, roll: m.Leases, peers: make([]Peer, len(m.Leases))}
	for i := range m.Leases {
		t.peers[i] = m.Leases[i].Peer
	}
	n.enlist(now, t, out)
}

// reckon adds up what the clients on a roll would save.
func (n *Node) reckon(t *assessment, out *Actions) {
	c := n.canvass
	if c == nil || c.done {
		return
	}
	for i := range t.roll {
		l := t.roll[i]
		if t.times[i] >= 0 && t.times[i] < l.RTT {
			c.gains = append(c.gains, l.RTT-t.times[i])
			l.RTT = t.times[i]
			c.gainers = append(c.gainers, l)
		}
	}
	n.counted(t.until, out)
}

func (n *Node) counted(now Round, out *Actions) {
	n.canvass.asked--
	if n.canvass.asked <= 0 {
		n.report(now, out)
	}
}

func (n *Node) report(now Round, out *Actions) {
	c := n.canvass
	c.done, c.until = true, now+canvassMemory
	out.send(Message{Kind: Canvassed, From: n.self, To: c.from, Alt: float32(n.cfg.largest(c.gains))})
}

// wakeCanvass reports what there is when super peers have not answered, and
// forgets what has come to nothing.
func (n *Node) wakeCanvass(now Round, out *Actions) {
	if n.canvass == nil || now < n.canvass.until {
		return
	}
	if n.canvass.done {
		n.canvass = nil
		return
	}
	n.report(now, out)
}

// canvassed: the vacancy is worth more than this holder could see.
func (n *Node) canvassed(now Round, m *Message) {
	if h := n.hold; h != nil && h.vacancy.at == m.From && !h.vacancy.pooled {
		h.vacancy.gain += m.Alt
		h.vacancy.pooled, h.vacancy.asOf = true, now
	}
}

// hush keeps the super peers around from offering the same gap once more.
func (n *Node) hush(out *Actions) {
	if n.canvass == nil {
		return
	}
	for i := range n.client.contacts[:n.client.known] {
		if p := n.client.contacts[i].peer; p != n.client.home {
			out.send(Message{Kind: Hush, From: n.self, To: p})
		}
	}
}

// hushed forgets this holder's vacancy until the next survey.
func (n *Node) hushed(now Round) {
	if h := n.hold; h != nil && !h.vacancy.lockedAt(now) {
		h.vacancy = vacancy{at: None}
		h.moveAt = max(h.moveAt, now+patience)
	}
}

// invite tells those whom the canvass found that this node now is a super peer.
func (n *Node) invite(out *Actions) {
	if n.canvass == nil {
		return
	}
	for _, l := range n.canvass.gainers {
		out.send(Message{Kind: Recommend, From: n.self, To: l.Peer, Peer: n.self, Token: n.hold.token, RTT: l.RTT})
	}
	n.canvass = nil
}
