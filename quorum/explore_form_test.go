package quorum

import (
	"encoding/binary"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// This file compares the states of a search: see explore_test.go.

// form is all that decides what may follow.
func (w *explored) form(b []byte) []byte {
	num := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	b = append(b, byte(w.crashes), byte(w.restarts), byte(w.stops))
	for i, p := range w.procs {
		num(p.votes)
		b = append(b, byte(p.life), bits(w.linked[i*len(w.procs):(i+1)*len(w.procs)]...), bits(p.core != nil, p.stopped))
		if p.core == nil {
			b = append(b, p.durable...)
			continue
		}
		b = w.formOf(b, p.core)
	}
	for at, pipe := range w.pipes {
		num(uint64(len(pipe)))
		for _, m := range pipe {
			if m == nil {
				b = append(b, 0)
				continue
			}
			b = append(append(b, m.Kind...), m.Eligibility...)
			num(m.Token.Epoch)
			data := m.Data
			switch m.Kind {
			case election.Beat:
				num(w.since(w.procs[at/len(w.procs)].origin, m.Stamp))
			case election.Ack:
				num(w.since(w.procs[at%len(w.procs)].origin, m.Stamp))
				data = data[:2] // and not the clock of who answers
			default:
				num(uint64(m.Stamp))
			}
			b = append(append(b, data...), bits(m.Draining))
		}
	}
	return b
}

func bits(on ...bool) (b byte) {
	for i, o := range on {
		if o {
			b |= 1 << i
		}
	}
	return b
}

// since gives a stamp as how long ago it was, not beyond what matters.
func (w *explored) since(origin time.Time, stamp int64) uint64 {
	if stamp == 0 {
		return 1 << 60
	}
	return w.from(origin.Add(time.Duration(stamp - 1)))
}

func (w *explored) from(t time.Time) uint64 {
	if t.IsZero() {
		return 1 << 60
	}
	return uint64(max(t.Sub(w.now), -2*w.t)) // what is longer ago than that matters no more
}

func (w *explored) formOf(b []byte, c *Core) []byte {
	num := func(v ...uint64) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	at := func(t ...time.Time) {
		for _, t := range t {
			num(w.from(t))
		}
	}
	for _, r := range c.all() {
		b = append(b, r...)
	}
	st := c.status()
	num(c.applied, c.promised, c.follows.from, c.follows.term, c.warnedBack, c.leader.term, c.to, c.resigned, c.gone, c.view.Epoch, c.held.Epoch, c.seen,
		uint64(st.RaftState), st.Lead, st.LeadTransferee, st.GetCommit(), uint64(c.known), uint64(len(c.noted)))
	if p := c.peerBy(c.follows.from); p != nil {
		num(w.since(w.procs[w.index(p.rank.ID)].origin, c.follows.stamp))
	}
	at(c.now, c.patience, c.stalled, c.campaignAt, c.until, c.sent, c.beatAt, c.yieldAt, c.leader.since, c.transferAt, c.standAt, c.retryAt, c.hungAt, c.proposed)
	b = append(b, bits(c.asks, c.newer, c.interim, c.follows.inForce, c.follows.due, c.leader.settled, c.over, c.drains), bits(c.outlived, c.resort, c.settling, c.busy(), c.halted))
	for i := range c.peers {
		p := &c.peers[i]
		num(p.incarnation, uint64(p.backoff), w.since(c.origin, p.acked))
		at(p.since, p.redial, p.heard, p.asked, p.pullAt)
		b = append(b, bits(p.link, p.dialing, p.down, p.barred, p.noted, p.deferred != nil))
		b = append(append(b, p.state...), p.aside...)
		if p.deferred != nil {
			data, _ := proto.Marshal(p.deferred)
			b = append(b, data...)
		}
	}
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		num(id, pr.Match, pr.Next, uint64(pr.State), pr.PendingSnapshot)
		b = append(b, bits(pr.MsgAppFlowPaused, pr.RecentActive))
	})
	return b
}
