package quorum

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// peer is a member of the cluster, as this member sees it.
type peer struct {
	number      uint64 // in raft; 0: not known yet
	rank        election.Rank
	address     string // by the log
	elsewhere   string // an address that it may have moved to: see addresses.go
	detour      bool   // it is dialed at elsewhere next
	strayed     bool   // the driver dials it at elsewhere
	observer    bool
	incarnation uint64

	link    bool
	mute    bool // no message has arrived over it yet
	dialing bool
	since   time.Time // when the link was made
	redial  time.Time // when to dial it again; zero: not at all
	backoff time.Duration
	heard   time.Time
	asked   time.Time // since when an answer is due; zero: none is
	down    bool
	state   election.MemberState
	aside   election.Eligibility
	barred  bool      // its messages are ignored: it has a different disk
	noted   bool      // it has noted this member's disk
	pullAt  time.Time // when its metadata may be requested again
	pace    pace      // of its clock
	guest   bool      // it is on no list here: see guests.go
	voids   bool      // it has reported that this member was removed
	changed uint64    // with voids, the last change in its log: see [roster]

	acked    int64         // the latest stamp of this term that it acknowledged
	promise  time.Duration // with it: the longer T of an earlier process; 0: it has none
	match    uint64        // up to where its log matches the leader's, for a heartbeat
	request  *pb.Message   // the last request for its vote
	deferred *pb.Message   // its request for a vote, which waits until a promise ends
}

// maxBackoff bounds the pause between two dials.
const maxBackoff = time.Second

// seatPeers makes a peer for every member of the roster except this.
func (c *Core) seatPeers() {
	old := c.peers
	c.peers = make([]peer, 0, len(c.roster.Seats))
	for _, s := range c.roster.Seats {
		if s.ID == c.cfg.Self.ID {
			continue
		}
		p := peer{rank: election.Rank{ID: s.ID}}
		if i := slices.IndexFunc(old, func(p peer) bool { return p.rank.ID == s.ID }); i >= 0 {
			p = old[i]
			old = slices.Delete(old, i, i+1)
		}
		p.number, p.address, p.observer, p.guest = max(s.Number, p.number), s.Address, s.Observer, false
		if p.elsewhere == p.address {
			p.elsewhere, p.detour = "", false
		}
		c.peers = append(c.peers, p)
	}
	for _, p := range old {
		switch {
		case !p.guest:
		case p.number == 0 || p.number >= c.roster.Next:
			c.peers = append(c.peers, p)
		default:
			c.do(election.Action{Kind: election.Hangup, To: p.rank.ID})
		}
	}
	slices.SortFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
}

func (c *Core) peer(id election.ID) *peer {
	for i := range c.peers {
		if c.peers[i].rank.ID == id {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *Core) peerBy(number uint64) *peer {
	for i := range c.peers {
		if c.peers[i].number == number && number != 0 {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *Core) setState(p *peer, s election.MemberState) {
	if p.state != s {
		p.state = s
		c.do(election.Action{Kind: election.Notify, Member: p.rank.ID, Status: s})
	}
}

func (c *Core) dial(p *peer) {
	p.redial = time.Time{}
	if !p.link && !p.dialing && !p.guest {
		p.dialing = true
		c.do(election.Action{Kind: election.Dial, To: p.rank.ID, Address: p.dialedAt()})
	}
}

func (c *Core) linkUp(rank election.Rank, incarnation uint64) {
	p := c.peer(rank.ID)
	if p == nil {
		p = c.visit(rank)
	}
	if p == nil {
		return
	}
	if !p.link || p.incarnation != incarnation {
		p.since = c.now
	}
	if p.incarnation != incarnation {
		p.pace = pace{} // its stamps count from its start
	}
	p.rank, p.incarnation = rank, incarnation
	c.rerank()
	p.link, p.mute, p.dialing, p.down, p.redial = true, true, false, false, time.Time{}
	p.heard, p.asked = c.now, time.Time{}
	if p.guest {
		return // it shows its card first
	}
	c.setState(p, election.StateUp)
	if !c.fresh && !(c.replace && c.busy()) {
		c.showCard(p)
	}
	c.greetMeta(p)
	if c.term() != 0 && !c.over {
		c.beat()
	}
	if m := c.requested(p); m != nil {
		c.post(m) // it, or its answer, may be lost with an earlier connection
	}
}

// usable reports whether a link exists and works. A link on which nothing has arrived for T, though
// an answer is due, is closed and made again.
func (c *Core) usable(p *peer) bool {
	if !p.link {
		return false
	}
	if p.asked.IsZero() {
		p.asked = c.now
	}
	if c.now.Sub(p.asked) < c.t {
		return true
	}
	p.asked = time.Time{}
	c.hangUp(p)
	return false
}

// hangUp closes the link to a silent member, and dials it again.
func (c *Core) hangUp(p *peer) {
	p.link, p.dialing = false, false
	c.do(election.Action{Kind: election.Hangup, To: p.rank.ID})
	if p.guest {
		c.sendOff(p.rank.ID)
		return
	}
	c.setState(p, election.StateUnreachable)
	c.unreachable(p)
	c.dial(p)
}

func (c *Core) linkDown(id election.ID) {
	p := c.peer(id)
	if p == nil {
		return
	}
	if p.guest {
		c.sendOff(id)
		return
	}
	p.link, p.dialing = false, false
	c.unreachable(p)
	if p.mute && !c.still { // a process that has yet to join closes all links at once
		c.delayRedial(p)
	} else {
		c.dial(p)
	}
}

func (c *Core) unreachable(p *peer) {
	if c.node != nil && p.number != 0 {
		c.node.ReportUnreachable(p.number)
	}
}

func (c *Core) dialFailed(id election.ID, refused bool, why error) {
	p := c.peer(id)
	if p == nil {
		return
	}
	p.dialing = false
	if errors.Is(why, election.ErrRemoved) && c.node != nil && c.term() == 0 {
		c.halt(fmt.Errorf("%s says: %w", id, election.ErrRemoved))
		return
	}
	if p.link {
		return
	}
	c.delayRedial(p)
	detour := p.detour
	p.detour = p.elsewhere != "" && !detour
	switch {
	case detour: // it may still be where the log has it
	case refused:
		p.down = true
		c.setState(p, election.StateDown)
		c.crashed(p, c.algorithm.takeover == TakeoverRefused)
	case (why == nil || why == election.ErrForeign) && c.now.Sub(p.heard) >= c.t:
		c.setState(p, election.StateUnreachable)
	}
}

// delayRedial schedules a dial of an unreachable member after a pause, which grows until a message
// arrives from it. In a search the pause never ends: the search makes the link itself once both
// run.
func (c *Core) delayRedial(p *peer) {
	if c.still {
		p.redial = c.now.Add(math.MaxInt64)
		return
	}
	if p.backoff = min(max(2*p.backoff, c.timing.Heartbeat/2), maxBackoff); p.backoff == 0 {
		p.backoff = maxBackoff
	}
	p.redial = c.now.Add(p.backoff/2 + c.between(p.backoff/2))
}

// send sends a message to a member whose link exists or is being made.
func (c *Core) send(p *peer, m election.Message) {
	if !p.link && !p.dialing {
		if p.guest {
			return
		}
		if !p.redial.IsZero() {
			return // it was unreachable just now
		}
		p.dialing = true
	}
	m.From, m.To, m.Election, m.MetaDigest = c.cfg.Self.ID, p.rank.ID, c.cfg.Election, c.metas.Digest()
	m.Pause = c.pause.Report(c.now)
	c.do(election.Action{Kind: election.Send, To: p.rank.ID, Message: &m})
}
