package quorum

import (
	"encoding/binary"
	"math"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// AppendForm appends all state that decides what this member may do from now on, between two Steps.
// Times are relative to now. Anything older than T is a passed deadline, an ended lease or a silent
// link, and its exact age does not matter. It leaves out the comparison of clocks; the states
// announced to watchers, which decide nothing; the state of a leader while this member is none, for
// raft resets it with each term; and the answers to its last request for votes (see Awaits).
func (c *Core) AppendForm(b []byte, now time.Time) []byte {
	for _, r := range c.all() {
		b = append(b, r...)
	}
	if c.node == nil {
		return b
	}
	f := form{b, now}
	st := c.status()
	gone := c.gone
	if gone < c.held.Epoch { // an epoch as old is not announced again: see follow
		gone = 0
	}
	f.putNumbers(c.applied, max(c.ahead, c.lastIndex()), c.promised, c.follows.from, c.follows.term, c.leader.term, c.to, c.resigned, gone, c.view.Epoch, c.held.Epoch, c.seen,
		uint64(st.RaftState), st.Lead, st.LeadTransferee, st.GetCommit(), uint64(len(c.noted)))
	if c.follows.due {
		f.putNumbers(uint64(c.follows.stamp))
	}
	long := c.t + 1 // some deadlines wait until T is over, some until it is exceeded
	f.times(long, c.now, c.patience, c.campaignAt, c.until, c.beatAt, c.yieldAt, c.transferAt, c.standAt, c.retryAt, c.hungAt, c.proposed, c.lowerAt)
	f.putFlags(c.asks, c.interim, c.follows.inForce, c.follows.due, c.leader.settled, c.over, c.drains)
	f.putFlags(c.outlived, c.resort, c.selfDue, c.busy(), c.halted, c.working, c.healthy, c.retired)
	f.putFlags(c.disk.Slow(), c.unsigned)
	for i := range c.peers {
		c.appendPeer(&f, &c.peers[i])
	}
	if c.term() != 0 {
		f.times(long, c.sent)
	}
	if st.RaftState == raft.StateLeader {
		c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			f.putNumbers(id, pr.Match, pr.Next, uint64(pr.State), pr.PendingSnapshot, unsent(pr, st.GetCommit()))
			f.putFlags(pr.MsgAppFlowPaused, pr.RecentActive)
		})
	}
	return f.b
}

func (c *voter) appendPeer(f *form, p *peer) {
	f.putNumbers(p.number, p.incarnation, uint64(min(p.answers, mostAnswers)))
	f.times(c.t+1, p.asked, p.pullAt)
	if p.number == c.follows.from { // otherwise it only affects when the state is announced
		f.times(c.t+1, p.heard)
	}
	if p.guest || p.rank.Above(c.cfg.Self) { // see dueGuests and preempt
		f.times(2*c.t, p.since)
	}
	if p.acked != 0 && c.term() != 0 {
		f.times(c.t+1, c.origin.Add(time.Duration(p.acked-1)))
		f.putNumbers(uint64(p.promise))
	}
	f.putFlags(p.link, p.dialing, p.down, p.barred, p.noted, p.guest, p.deferred != nil, p.acked != 0 && c.term() != 0)
	f.putFlags(p.redial.IsZero(), p.detour, p.strayed, p.elsewhere != "", c.requested(p) != nil, p.outdated)
	f.b = append(f.b, p.aside...)
	if p.deferred != nil {
		data, _ := proto.Marshal(p.deferred) // raft's own message
		f.b = append(f.b, data...)
	}
}

// unsent returns how many indexes up to a commit index raft has not sent to a member yet.
func unsent(pr tracker.Progress, commit uint64) (n uint64) {
	for pr.Next = math.MaxUint64; n < commit && pr.CanBumpCommit(commit-n); n++ {
	}
	return n
}

// form collects the parts of a state.
type form struct {
	b   []byte
	now time.Time
}

func (f *form) putNumbers(values ...uint64) {
	for _, v := range values {
		f.b = binary.LittleEndian.AppendUint64(f.b, v)
	}
}

// times appends times relative to now; all that are further in the past than long are equal.
func (f *form) times(long time.Duration, times ...time.Time) {
	for _, t := range times {
		if t.IsZero() {
			f.putNumbers(1 << 60)
			continue
		}
		f.putNumbers(uint64(max(t.Sub(f.now), -long)))
	}
}

func (f *form) putFlags(on ...bool) {
	for i, o := range on {
		if i%8 == 0 {
			f.b = append(f.b, 0)
		}
		if o {
			f.b[len(f.b)-1] |= 1 << (i % 8)
		}
	}
}
