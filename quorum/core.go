package quorum

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/pause"
	"github.com/batuta-dev/batuta/internal/core/reaper"
)

// Core is a single member of a quorum. It is pure: see [machine.Core].
type Core struct {
	cfg       machine.Config
	algorithm *Algorithm
	timing    election.Timing
	t         time.Duration // T
	random    *rand.Rand
	still     bool // see Still

	now     time.Time // of the current or last Step
	last    time.Time // of the Step before
	origin  time.Time // of the first Step; stamps count from it
	out     []election.Action
	started bool
	halted  bool

	node     *raft.RawNode // nil: it belongs to no cluster yet
	storage  *raft.MemoryStorage
	me       self
	roster   roster
	disks    map[uint64]uint64 // the disk of each number that is not this member's
	applied  uint64
	founders []election.ID // the list that the cluster began with; empty: it has joined
	selfDue  bool          // me has changed and has to be written
	unsigned bool          // me.Promise is not on disk yet: no promise is given before
	peers    []peer        // every member but this, by id

	writer
	cards
	wishes
	voter
	leader
	stance
	attest.Oaths // prove that a leadership is over

	reaper reaper.Reaper

	pause pause.Pause
	metas meta.Metas // the members' metadata

	view election.Token // the leadership that holds for this member
	held election.Token // the highest that it has announced
	seen uint64         // the highest term seen anywhere
}

// newCore creates a member from the contents of its disk.
func newCore(a *Algorithm, c machine.Config) (*Core, error) {
	if c.Election == "" {
		c.Election = "default"
	}
	m := &Core{cfg: c, algorithm: a, timing: c.Timing.WithDefaults(), disks: map[uint64]uint64{}, reaper: reaper.New(c.ReapAfter)}
	m.t = m.timing.T()
	m.random = rand.New(rand.NewPCG(c.Seed, c.Incarnation))
	m.healthy = true
	m.metas = meta.New(c.Self.ID, c.Incarnation, c.Meta)
	m.hard = &pb.HardState{}
	s, err := load(c.Records)
	switch {
	case err != nil:
		return nil, err
	case s != nil:
		return m, m.restore(s)
	case !c.Joins:
		return m, m.found()
	}
	m.roster = roster{conf: &pb.ConfState{}, index: map[election.ID]int{}}
	m.me = self{ID: c.Self.ID, Disk: m.random.Uint64N(election.MaxVersion-1) + 1, Promise: m.t}
	return m, nil
}

// restore continues with the contents of the disk.
func (c *Core) restore(s *stored) error {
	if s.self.ID != c.cfg.Self.ID {
		return config("the log in the data directory belongs to member %s, and this is member %s: give each member its own", s.self.ID, c.cfg.Self.ID)
	}
	if err := c.sameList(s.self); err != nil {
		return err
	}
	storage, err := s.storage()
	if err != nil {
		return err
	}
	c.me, c.disks, c.hard, c.storage, c.founders = s.self, s.disks, s.hard, storage, s.self.Founders
	if s.snapshot != nil {
		meta := s.snapshot.GetMetadata()
		if c.roster, err = decodeRoster(s.snapshot.GetData(), meta.GetConfState()); err != nil {
			return err
		}
		c.applied = meta.GetIndex()
	} else {
		c.roster = roster{conf: &pb.ConfState{}, index: map[election.ID]int{}}
	}
	c.held.Epoch, c.safe = c.hard.GetTerm(), c.hard.GetCommit()
	c.written = len(c.cfg.Records)
	err = c.run()
	c.configured()
	return err
}

// sameList refuses a configured list that differs from the list that the cluster began with:
// members would count majorities of different sets.
func (c *Core) sameList(s self) error {
	if c.cfg.Joins || len(s.Founders) == 0 || len(c.cfg.Members) == 0 {
		return nil
	}
	r := first(c.members())
	if digest(r) == s.Digest {
		return nil
	}
	var ids []election.ID
	for _, seat := range r.Seats {
		ids = append(ids, seat.ID)
	}
	return config("the list of members is another than at the first start (%s): members come and go by batuta members add and remove, or through Config.Join; start with the first list, %s", difference(ids, s.Founders), join(s.Founders))
}

// members returns the configured members, this member included.
func (c *Core) members() []election.Member {
	list := c.cfg.Members
	if !slices.ContainsFunc(list, func(m election.Member) bool { return m.ID == c.cfg.Self.ID }) {
		list = append(slices.Clone(list), election.Member{Rank: c.cfg.Self, Address: c.cfg.Address})
	}
	return list
}

// found creates a cluster of the configured members. No message is sent before that is on disk: see
// start.
func (c *Core) found() error {
	members := c.members()
	if len(members) > MaxMembers {
		return config("%d members: at most %d vote and learn in one cluster", len(members), MaxMembers)
	}
	c.roster = first(members)
	c.me = self{Number: c.roster.of(c.cfg.Self.ID).Number, ID: c.cfg.Self.ID, Disk: c.random.Uint64N(election.MaxVersion-1) + 1, Digest: digest(c.roster), Promise: c.t}
	for _, s := range c.roster.Seats {
		c.me.Founders = append(c.me.Founders, s.ID)
	}
	c.founders = c.me.Founders
	c.me.Settled = len(c.roster.Seats) == 1
	c.roster.Founded = c.me.Digest
	c.storage = raft.NewMemoryStorage()
	snapshot := &pb.Snapshot{Data: encode(c.roster), Metadata: &pb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: c.roster.conf}}
	if err := c.storage.ApplySnapshot(snapshot); err != nil {
		return err
	}
	c.hard = &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}
	c.applied, c.fresh = 1, true
	if err := c.storage.SetHardState(c.hard); err != nil {
		return err
	}
	return c.run()
}

// run creates raft's node from the contents of the storage.
func (c *Core) run() error {
	node, err := newNode(c.me.Number, snapshots{c.storage, c}, c.applied)
	if err != nil {
		return err
	}
	c.node = node
	c.seen = max(c.seen, c.hard.GetTerm())
	c.seatPeers()
	return nil
}

func newNode(number uint64, storage raft.Storage, applied uint64) (*raft.RawNode, error) {
	return raft.NewRawNode(&raft.Config{
		ID: number, Storage: storage, Applied: applied,
		// The node is never ticked: raft's random election timeout is not used.
		ElectionTick: 10, HeartbeatTick: 1,
		MaxSizePerMsg: 64 << 10, MaxInflightMsgs: 16, MaxUncommittedEntriesSize: 1 << 20,
		PreVote: true, DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: quiet{},
	})
}

// Step handles an event and returns the actions that follow from it, in order.
func (c *Core) Step(now time.Time, ev election.Event) []election.Action {
	c.out = c.out[:0]
	if now.Before(c.now) {
		now = c.now
	}
	c.last, c.now = c.now, now
	if c.halted {
		return c.out
	}
	if c.started {
		c.stall()
		c.expire()
	}
	c.handle(ev)
	if c.started && !c.halted {
		if c.cfg.ReapAfter > 0 {
			reap(c)
		}
		c.due()
		c.advance()
	}
	return c.out
}

// stall handles time that passed without a Step. The process was stopped, or its wall clock ran
// ahead of its peers', so that maybe no time passed at all. All promises of this member are counted
// from now.
func (c *Core) stall() {
	if c.now.Sub(c.last) < c.t {
		return
	}
	c.forgetPaces()
	if !c.patience.IsZero() {
		c.patience = c.now.Add(c.me.Promise)
	}
	if !c.campaignAt.IsZero() {
		c.campaignAt = c.now.Add(c.t)
	}
	if !c.lowerAt.IsZero() {
		c.lowerAt = c.now.Add(3 * c.me.Promise)
	}
}

func (c *Core) handle(ev election.Event) {
	switch ev.Kind {
	case election.Started:
		c.start(ev)
	case election.Received:
		c.receive(ev.Message)
	case election.LinkUp:
		c.linkUp(ev.Rank, ev.Incarnation)
	case election.LinkDown:
		c.linkDown(ev.Peer)
	case election.DialFailed:
		c.dialFailed(ev.Peer, ev.Refused, ev.Err)
	case election.Saved:
		c.saved(ev.Err)
	case election.Working:
		c.setWorking(ev.On)
	case election.Campaign:
		c.askedToCampaign()
	case election.Resigned:
		c.resign("it is asked to")
	case election.Closing:
		c.close()
	case election.Pausing:
		c.pause.Set(c.now, ev.Age, c.view.Leader.ID)
	case election.Transfer:
		c.transfer(ev.Peer)
	case election.JoinRequested:
		c.joined(ev.Member)
	case election.JoinAccepted:
		c.welcomed(ev.List)
	case election.MemberAdded:
		c.wish(change{ID: ev.Member.ID, Address: ev.Member.Address, Observer: ev.Member.Observer, Ranked: ev.On, Priority: ev.Member.Priority})
	case election.MemberRemoved:
		c.wish(change{Remove: true, ID: ev.Peer, Force: ev.On})
	case election.Leaving:
		c.wish(change{Remove: true, ID: c.cfg.Self.ID})
	case election.Health:
		c.setHealth(ev.On)
	case election.Candidacy:
		c.setCandidacy(ev.On)
	case election.Tells:
		if c.metas.Set(ev.Meta) {
			c.learned(c.metas.Own())
		}
	case election.Sworn:
		if ev.Token == c.leadership() && c.view == ev.Token && len(ev.Proof) == attest.Size && c.Swears(c.term(), attest.Commitment(ev.Proof)) {
			c.beat()
		}
	case election.Attested:
		if p := c.peerBy(c.follows.from); p != nil && c.algorithm.takeover == TakeoverAttested && c.promised == c.follows.term && c.Ends(c.promised, ev.Proof) {
			c.crashed(p, true)
		}
	}
}

// start begins. A voter that has just started grants no vote for as long as a promise of its
// previous process may last: it has no record of when that was given.
func (c *Core) start(ev election.Event) {
	c.started, c.origin = true, c.now
	if !c.still {
		c.pursueAt = c.now.Add(c.t)
	}
	c.sign()
	c.patience = c.now.Add(c.me.Promise)
	if c.fresh {
		c.fresh = false
		c.write(c.all(), true, func() {
			if c.me.Settled {
				c.release(election.CauseSilent)
			}
			for i := range c.peers {
				if p := &c.peers[i]; p.link {
					c.showCard(p)
				}
			}
		})
	}
	c.warnEven()
	c.welcomed(ev.List)
	for i := range c.peers {
		c.dial(&c.peers[i])
	}
}

// Deadline returns when to call Step next.
func (c *Core) Deadline() (time.Time, bool) {
	if !c.started || c.halted {
		return time.Time{}, false
	}
	at := c.now.Add(c.t / 2) // a longer pause shows that the process was stopped
	wake := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if !c.until.IsZero() && !c.still {
		// A driver's timer may run on a slewed clock, and end late by up to a tenth of its time. So
		// the last timer before the end of a lease is short, and no earlier timer, however long,
		// may end after the lease.
		if left := c.until.Sub(c.now); left > c.t/50 {
			wake(c.until.Add(-left * 11 / 100))
		}
	}
	for _, t := range [...]time.Time{c.patience, c.campaignAt, c.beatAt, c.until, c.yieldAt, c.transferAt, c.tryAt(), c.hungAt, c.standAt, c.pursueAt, c.lowerAt} {
		wake(t)
	}
	for i := range c.peers {
		wake(c.peers[i].redial)
	}
	ends, _ := c.pause.Until(c.now)
	wake(ends)
	return at, true
}

// due does all work for which the time has come.
func (c *Core) due() {
	if turned, ends := c.pause.Turned(c.now); turned && ends.IsZero() {
		c.note("resumes", c.cfg.Self.ID, c.view, "the pause has ended")
		c.standAgain()
		c.pursueAt = c.now // all peers receive it
	} else if turned {
		c.note("pauses", c.cfg.Self.ID, c.view, "for "+ends.Sub(c.now).Round(time.Millisecond).String())
	}
	c.dueVoter()
	c.dueLeader()
	c.dueDisk()
	if c.passed(c.pursueAt) {
		c.pursueAt = c.now.Add(c.t)
		c.settleAddress()
		c.pursue()
		c.tellCommitted()
		c.askWhoKnows()
		c.askAgain()
		c.dueGuests()
	}
	for i := range c.peers {
		if p := &c.peers[i]; c.passed(p.redial) {
			c.dial(p)
		}
	}
}

// Paused returns when a pause ends, zero without a pause, and the member that keeps leadership
// until then.
func (c *Core) Paused() (time.Time, election.ID) { return c.pause.Until(c.now) }

// passed reports whether a time is set and has come.
func (c *Core) passed(at time.Time) bool { return !at.IsZero() && !c.now.Before(at) }

func (c *Core) do(a election.Action) { c.out = append(c.out, a) }

// halt ends this member's participation because of err.
func (c *Core) halt(err error) {
	if !c.halted {
		c.halted = true
		c.unview(election.CauseRemoved)
		c.until = time.Time{}
		c.do(election.Action{Kind: election.Halt, Err: err})
	}
}

func (c *Core) note(what string, peer election.ID, t election.Token, why string) {
	if c.cfg.Trace != nil {
		c.cfg.Trace(election.Record{At: c.now, Member: c.cfg.Self.ID, Election: c.cfg.Election, What: what, Peer: peer, Token: t, Why: why})
	}
}

// stamp returns this member's own time for heartbeats, in nanoseconds since its start, plus 1.
func (c *Core) stamp() int64 { return int64(c.now.Sub(c.origin)) + 1 }

// between returns a random time from 0 to d.
func (c *Core) between(d time.Duration) time.Duration {
	if d <= 0 || c.still {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(d)))
}

func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }
