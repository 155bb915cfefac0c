package superpeer

// assessment is a node's task: measure the round trips to some others. A node
// does one after the other.
type assessment struct {
	from  Peer // who asked
	token int32
	peers []Peer
	times []float32
	roll  []Lease // of a poll: whose gain is reckoned; else nil
	next  int     // where the answer expected next belongs
	left  int
	until Round
	then  *assessment
}

// assess takes on a task of the node's super peer.
func (n *Node) assess(now Round, m *Message, out *Actions) {
	if n.hold != nil {
		return // the asker does without
	}
	n.enlist(now, &assessment{from: m.From, token: m.Token, peers: m.Peers}, out)
}

// pending stands for a round trip that is still being measured. Like every negative one
// it means: not measured.
const pending = -2

// maxTasks bounds what others can make a node do.
const maxTasks = 16

func (n *Node) enlist(now Round, t *assessment, out *Actions) {
	t.until = now + 2
	if n.task == nil {
		n.task = t
		n.begin(out)
		return
	}
	last, k := n.task, 1
	for last.then != nil {
		last = last.then
		k++
	}
	if k < maxTasks {
		last.then = t
	}
}

func (n *Node) begin(out *Actions) {
	t := n.task
	t.times = make([]float32, len(t.peers))
	for i, p := range t.peers {
		if p == n.self {
			continue
		}
		t.times[i] = pending
		t.left++
		out.Probe = append(out.Probe, p)
	}
	if t.left == 0 {
		n.finishTask(out)
	}
}

func (n *Node) taskProbed(peer Peer, rtt float32, ok bool, out *Actions) {
	t := n.task
	if t == nil || peer == n.self {
		return
	}
	for k := range t.peers {
		i := (t.next + k) % len(t.peers)
		if t.peers[i] != peer || t.times[i] != pending {
			continue // another's answer, or one more to what a search for a super peer asked too
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
		n.finishTask(out)
	}
}

// finishTask hands in what there is and begins the next.
func (n *Node) finishTask(out *Actions) {
	t := n.task
	n.task = t.then
	if t.roll == nil {
		out.send(Message{Kind: Assessed, From: n.self, To: t.from, Token: t.token, Times: t.times})
	} else {
		n.reckon(t, out)
	}
	if n.task != nil {
		n.begin(out)
	}
}
