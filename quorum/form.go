package quorum

import (
	"encoding/binary"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// This file is for an exhaustive search, which compares states: see sim/explore.

// Still has this member take the shortest of every random pause, but one of its own after
// a vote without a winner, and look after no change
// of the members, so that equal events lead to equal states. It is called before the first Step.
func (c *Core) Still() { c.still = true }

// AppendForm appends all that decides what this member may do from now on, between two
// Steps: with times as they lie from now, none beyond what matters. What compares the
// members' clocks is left out, since it warns and does nothing else; so are the answers to
// its last request for votes, which raft keeps to itself.
func (c *Core) AppendForm(b []byte, now time.Time) []byte {
	for _, r := range c.all() {
		b = append(b, r...)
	}
	if c.node == nil {
		return b
	}
	f := form{b, now, 2 * c.t}
	st := c.status()
	f.numbers(c.applied, c.promised, c.follows.from, c.follows.term, c.warnedBack, c.leader.term, c.to, c.resigned, c.gone, c.view.Epoch, c.held.Epoch, c.seen,
		uint64(st.RaftState), st.Lead, st.LeadTransferee, st.GetCommit(), uint64(c.known), uint64(len(c.noted)))
	if c.follows.due {
		f.numbers(uint64(c.follows.stamp))
	}
	f.times(c.now, c.patience, c.stalled, c.campaignAt, c.until, c.sent, c.beatAt, c.yieldAt, c.leader.since, c.transferAt, c.standAt, c.retryAt, c.hungAt, c.proposed)
	f.flags(c.asks, c.newer, c.interim, c.follows.inForce, c.follows.due, c.leader.settled, c.over, c.drains)
	f.flags(c.outlived, c.resort, c.settling, c.busy(), c.halted, c.working, c.healthy, c.retired)
	for i := range c.peers {
		c.appendPeer(&f, &c.peers[i])
	}
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		f.numbers(id, pr.Match, pr.Next, uint64(pr.State), pr.PendingSnapshot)
		f.flags(pr.MsgAppFlowPaused, pr.RecentActive)
	})
	return f.b
}

func (c *Core) appendPeer(f *form, p *peer) {
	f.numbers(p.number, p.incarnation, uint64(p.backoff))
	var acked time.Time
	if p.acked != 0 {
		acked = c.origin.Add(time.Duration(p.acked - 1))
	}
	f.times(acked, p.since, p.redial, p.heard, p.asked, p.pullAt)
	f.flags(p.link, p.dialing, p.down, p.barred, p.noted, p.guest, p.deferred != nil)
	f.b = append(append(f.b, p.state...), p.aside...)
	if p.deferred != nil {
		data, _ := proto.Marshal(p.deferred) // raft's own message
		f.b = append(f.b, data...)
	}
}

// form is written piece by piece.
type form struct {
	b    []byte
	now  time.Time
	long time.Duration // what is longer ago than that matters no more
}

func (f *form) numbers(values ...uint64) {
	for _, v := range values {
		f.b = binary.LittleEndian.AppendUint64(f.b, v)
	}
}

func (f *form) times(times ...time.Time) {
	for _, t := range times {
		if t.IsZero() {
			f.numbers(1 << 60)
			continue
		}
		f.numbers(uint64(max(t.Sub(f.now), -f.long)))
	}
}

func (f *form) flags(on ...bool) {
	var bits byte
	for i, o := range on {
		if o {
			bits |= 1 << i
		}
	}
	f.b = append(f.b, bits)
}
