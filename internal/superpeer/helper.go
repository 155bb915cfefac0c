package superpeer

// A holder measures only what a second token would save its own clients. Nodes that lie between
// several super peers would be overlooked. So before a promising vacancy is offered, the client
// there polls: it asks the nearby super peers for their clients, measures the round trips to these,
// and reports what they would save too.

// helper is what a node measures for super peers: tasks in sequence, and a poll. It cannot access
// the node's own search for a super peer.
type helper struct {
	task *assessment // the present task
	poll *poll       // the result in case a token comes
}

// assessment is a task: to measure the round trips to some nodes.
type assessment struct {
	from  Peer // the super peer that asked
	token int32
	peers []Peer
	times []float32
	roll  []Lease // of a poll: the clients for which to compute the gain; else nil
	next  int     // index of the answer expected next
	left  int
	until Round
	then  *assessment
}

// assess accepts a task of the node's super peer.
func (w *helper) assess(s *self, now Round, m *Message, out *Actions) {
	w.enlist(s, now, &assessment{from: m.From, token: m.Token, peers: m.Peers}, out)
}

// pending marks a round trip that is being measured. Like every negative value it means: not
// measured.
const pending = -2

// maxTasks bounds the work that peers can give a node.
const maxTasks = 16

func (w *helper) enlist(s *self, now Round, t *assessment, out *Actions) {
	t.until = now + 2
	if w.task == nil {
		w.task = t
		w.begin(s, out)
		return
	}
	last, k := w.task, 1
	for last.then != nil {
		last = last.then
		k++
	}
	if k < maxTasks {
		last.then = t
	}
}

func (w *helper) begin(s *self, out *Actions) {
	t := w.task
	t.times = make([]float32, len(t.peers))
	for i, p := range t.peers {
		if p == s.peer {
			continue
		}
		t.times[i] = pending
		t.left++
		out.Probe = append(out.Probe, p)
	}
	if t.left == 0 {
		w.finishTask(s, out)
	}
}

func (w *helper) probed(s *self, peer Peer, rtt float32, ok bool, out *Actions) {
	t := w.task
	if t == nil || peer == s.peer {
		return
	}
	for k := range t.peers {
		i := (t.next + k) % len(t.peers)
		if t.peers[i] != peer || t.times[i] != pending {
			continue // measured already, or for the search for a super peer
		}
		t.next = i + 1
		t.times[i] = -1
		if ok {
			t.times[i] = rtt
		}
		t.left--
		break
	}
	if t.left <= 0 {
		w.finishTask(s, out)
	}
}

// finishTask sends the result so far, and begins the next task.
func (w *helper) finishTask(s *self, out *Actions) {
	t := w.task
	w.task = t.then
	if t.roll == nil {
		out.send(Message{Kind: Assessed, From: s.peer, To: t.from, Token: t.token, Times: t.times})
	} else {
		w.reckon(s, t, out)
	}
	if w.task != nil {
		w.begin(s, out)
	}
}

// pollWait is how long to wait for nearby super peers. pollMemory is how long the result is kept in
// case a token comes.
const (
	pollWait   Round = 2
	pollMemory Round = 16
)

// pollShare is the share of the least known loss that a vacancy must save the clients of its
// holder to be worth a poll.
const pollShare = 0.3

// poll is what the client at a vacancy has gathered.
type poll struct {
	from    Peer // its super peer
	asked   int  // super peers whose clients are not included yet
	gains   []float32
	gainers []Lease // nodes that it would serve better; RTT is from this node
	until   Round   // report; later: forget
	done    bool
}

// polling begins a poll: a second token would help at this node. around are the super peers that it
// has measured.
func (w *helper) polling(s *self, now Round, m *Message, around []contact, out *Actions) {
	if w.poll != nil && !w.poll.done {
		return
	}
	c := &poll{from: m.From, until: now + pollWait}
	w.poll = c
	for i := range around {
		if p := around[i].peer; p != m.From {
			c.asked++
			out.send(Message{Kind: Consider, From: s.peer, To: p, At: s.at})
		}
	}
	if c.asked == 0 {
		w.report(s, now, out)
	}
}

func (w *helper) rolled(s *self, now Round, m *Message, out *Actions) {
	c := w.poll
	if c == nil || c.done {
		return
	}
	if len(m.Leases) == 0 {
		w.counted(s, now, out)
		return
	}
	t := &assessment{from: m.From, roll: m.Leases, peers: make([]Peer, len(m.Leases))}
	for i := range m.Leases {
		t.peers[i] = m.Leases[i].Peer
	}
	w.enlist(s, now, t, out)
}

// reckon adds up what the clients on a roll would save.
func (w *helper) reckon(s *self, t *assessment, out *Actions) {
	c := w.poll
	if c == nil || c.done {
		return
	}
	for i := range t.roll {
		l := t.roll[i]
		if t.times[i] >= 0 && t.times[i] < l.RTT-s.cfg.margin() {
			c.gains = append(c.gains, l.RTT-t.times[i])
			l.RTT = t.times[i]
			c.gainers = append(c.gainers, l)
		}
	}
	w.counted(s, t.until, out)
}

func (w *helper) counted(s *self, now Round, out *Actions) {
	w.poll.asked--
	if w.poll.asked <= 0 {
		w.report(s, now, out)
	}
}

func (w *helper) report(s *self, now Round, out *Actions) {
	c := w.poll
	c.done, c.until = true, now+pollMemory
	out.send(Message{Kind: Polled, From: s.peer, To: c.from, Alt: float32(s.cfg.largest(c.gains))})
}

// hush keeps the nearby super peers, except home, from offering the same vacancy again.
func (w *helper) hush(s *self, home Peer, around []contact, out *Actions) {
	if w.poll == nil {
		return
	}
	for i := range around {
		if p := around[i].peer; p != home {
			out.send(Message{Kind: Hush, From: s.peer, To: p})
		}
	}
}

// invite recommends this node, now a super peer, to the nodes that the poll has found.
func (w *helper) invite(s *self, token int32, out *Actions) {
	if w.poll == nil {
		return
	}
	for _, l := range w.poll.gainers {
		out.send(Message{Kind: Recommend, From: s.peer, To: l.Peer, Peer: s.peer, Token: token, RTT: l.RTT})
	}
	w.poll = nil
}

// deadline returns the round in which to call wake next.
func (w *helper) deadline() Round {
	d := never
	if w.task != nil {
		d = w.task.until
	}
	if w.poll != nil {
		d = min(d, w.poll.until)
	}
	return d
}

// wake does what is due: it sends partial results if answers are missing, and drops a poll after
// which no token came.
func (w *helper) wake(s *self, now Round, out *Actions) {
	if w.task != nil && now >= w.task.until {
		w.finishTask(s, out)
	}
	if w.poll == nil || now < w.poll.until {
		return
	}
	if w.poll.done {
		w.poll = nil
		return
	}
	w.report(s, now, out)
}
