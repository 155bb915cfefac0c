package superpeer

// A holder sees only what a second token would save its own clients. Those who
// live between several super peers would be overlooked that way, so before a
// promising vacancy is offered, the client there polls: it asks the super
// peers around it for their clients, measures how far those are from itself, and
// reports what they too would save.

// pollWait is how long the super peers around are waited for, and
// pollMemory how long the result is kept for the case that a token comes.
const (
	pollWait   Round = 2
	pollMemory Round = 16
)

// pollShare is how much of the least loss heard of a vacancy must save its
// finder's clients to be worth a poll.
const pollShare = 0.3

// poll is what the client at a vacancy has gathered.
type poll struct {
	from    Peer // its super peer
	asked   int  // super peers that have not been reckoned with yet
	gains   []float32
	gainers []Lease // whom it would serve better; RTT is from here
	until   Round   // report; later: forget
	done    bool
}

// askAround begins a poll of this holder's vacancy, if it may come to
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
	if least < 0 || v.gain < pollShare*least {
		return
	}
	out.send(Message{Kind: Poll, From: n.self, To: v.at, Token: h.token})
}

// polling: this node is where a second token would help.
func (n *Node) polling(now Round, m *Message, out *Actions) {
	if n.hold != nil || n.poll != nil && !n.poll.done {
		return
	}
	c := &poll{from: m.From, until: now + pollWait}
	n.poll = c
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
	c := n.poll
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
	c := n.poll
	if c == nil || c.done {
		return
	}
	for i := range t.roll {
		l := t.roll[i]
		if t.times[i] >= 0 && t.times[i] < l.RTT-n.cfg.margin() {
			c.gains = append(c.gains, l.RTT-t.times[i])
			l.RTT = t.times[i]
			c.gainers = append(c.gainers, l)
		}
	}
	n.counted(t.until, out)
}

func (n *Node) counted(now Round, out *Actions) {
	n.poll.asked--
	if n.poll.asked <= 0 {
		n.report(now, out)
	}
}

func (n *Node) report(now Round, out *Actions) {
	c := n.poll
	c.done, c.until = true, now+pollMemory
	out.send(Message{Kind: Polled, From: n.self, To: c.from, Alt: float32(n.cfg.largest(c.gains))})
}

// wakePoll reports what there is when super peers have not answered, and
// forgets what has come to nothing.
func (n *Node) wakePoll(now Round, out *Actions) {
	if n.poll == nil || now < n.poll.until {
		return
	}
	if n.poll.done {
		n.poll = nil
		return
	}
	n.report(now, out)
}

// polled: the vacancy is worth more than this holder could see.
func (n *Node) polled(now Round, m *Message) {
	if h := n.hold; h != nil && h.vacancy.at == m.From && !h.vacancy.pooled {
		h.vacancy.gain += m.Alt
		h.vacancy.pooled, h.vacancy.asOf = true, now
	}
}

// hush keeps the super peers around from offering the same gap once more.
func (n *Node) hush(out *Actions) {
	if n.poll == nil {
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

// invite tells those whom the poll found that this node now is a super peer.
func (n *Node) invite(out *Actions) {
	if n.poll == nil {
		return
	}
	for _, l := range n.poll.gainers {
		out.send(Message{Kind: Recommend, From: n.self, To: l.Peer, Peer: n.self, Token: n.hold.token, RTT: l.RTT})
	}
	n.poll = nil
}
