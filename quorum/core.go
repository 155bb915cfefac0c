package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/reaper"
)

// Core is a single member of a quorum. It is pure: see [machine.Core]. It connects its parts, which
// have no reference to it: each is stepped with what it needs, and reports.
type Core struct {
	*ground
	*tenure
	*replica
	*writer
	*crew
	*heirs
	*stance
	*voter
	cards
	gossip
	changes

	then func() // runs when the outstanding write is on disk
}

var _ machine.Leaser = (*Core)(nil)

// assemble makes a member of its parts. A part knows those below it, and no other.
func assemble(g *ground) *Core {
	p, w := newCrew(g), &writer{ground: g}
	h, s := &heirs{p}, &stance{crew: p, writer: w, healthy: true}
	v := &voter{crew: p, writer: w, heirs: h, stance: s}
	return &Core{g, p.tenure, p.replica, w, p, h, s, v, cards{crew: p, writer: w}, gossip{p}, changes{crew: p, writer: w, heirs: h, reaper: reaper.New(g.cfg.ReapAfter)}, nil}
}

// newCore creates a member from the contents of its disk.
func newCore(a *Algorithm, cfg machine.Config) (*Core, error) {
	c := assemble(newGround(a, cfg))
	s, err := load(cfg.Records)
	switch {
	case err != nil:
		return nil, err
	case s != nil:
		c.written = len(cfg.Records)
		err = c.restore(s)
		c.held.Epoch = c.hard.GetTerm()
	case !cfg.Joins:
		c.fresh = true
		err = c.found()
	default:
		c.me = self{ID: cfg.Self.ID, Disk: c.newDisk(), Promise: c.t}
		return c, nil
	}
	if err == nil {
		err = c.run()
	}
	c.configured()
	return c, err
}

// run begins to take part with the contents of the storage.
func (c *Core) run() error {
	if err := c.open(); err != nil {
		return err
	}
	c.seen = max(c.seen, c.hard.GetTerm())
	c.seatPeers()
	return nil
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
		if c.leads() {
			c.pause.Hold(c.now, c.cfg.Self.ID)
		}
		if c.cfg.ReapAfter > 0 {
			c.reap()
		}
		c.dueAll()
		c.advance()
	}
	return c.out
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
		c.resigned, c.outlived, c.retired = 0, false, false
		c.standAgain()
	case election.Resigned:
		c.resign("it is asked to")
	case election.Closing:
		c.closing = true // this process ends once its work has stopped
		c.note("closes", c.cfg.Self.ID, election.Token{}, "")
		c.leave(0, "it closes")
	case election.Pausing:
		c.pause.Set(c.now, ev.Age, c.view.Leader.ID)
	case election.Transfer:
		c.transfer(ev.Peer)
	case election.JoinRequested:
		c.handOver(c.joined(ev.Member))
	case election.JoinAccepted:
		c.welcomed(ev.List)
	case election.MemberAdded:
		c.handOver(c.wish(change{ID: ev.Member.ID, Address: ev.Member.Address, Observer: ev.Member.Observer, Ranked: ev.On, Priority: ev.Member.Priority}))
	case election.MemberRemoved:
		c.handOver(c.wish(change{Remove: true, ID: ev.Peer, Force: ev.On}))
	case election.Leaving:
		c.handOver(c.wish(change{Remove: true, ID: c.cfg.Self.ID}))
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
			c.sendBeats()
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
		c.write(c.all(), true, func() {
			c.fresh = false
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
	if c.unsure = c.recasts(c.applied); !c.unsure {
		c.warnEven()
	}
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
	for _, t := range [...]time.Time{c.patience, c.campaignAt, c.beatAt, c.until, c.yieldAt, c.transferAt, c.tryAt(c.serves()), c.hungAt, c.standAt, c.pursueAt, c.lowerAt} {
		wake(t)
	}
	for i := range c.peers {
		wake(c.peers[i].redial)
	}
	ends, _ := c.pause.Until(c.now)
	wake(ends)
	return at, true
}

// dueAll does all work for which the time has come.
func (c *Core) dueAll() {
	if turned, ends := c.pause.Turned(c.now); turned && ends.IsZero() {
		c.note("resumes", c.cfg.Self.ID, c.view, "the pause has ended")
		c.standAgain()
		c.endUnhealthy()
		c.pursueAt = c.now // all peers receive it
	} else if turned {
		c.note("pauses", c.cfg.Self.ID, c.view, "for "+ends.Sub(c.now).Round(time.Millisecond).String())
	}
	c.dueVoter()
	c.dueLeader()
	c.dueDisk()
	if c.passed(c.pursueAt) {
		c.pursueAt = c.now.Add(c.t)
		c.handOver(c.settleAddress())
		c.handOver(c.pursue())
		c.tellCommitted(c.Standing())
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

// halt ends this member's participation because of err.
func (c *Core) halt(err error) {
	if !c.halted {
		c.halted = true
		cause := election.CauseStopped
		if errors.Is(err, election.ErrRemoved) {
			cause = election.CauseRemoved
		}
		c.unview(cause)
		c.until = time.Time{}
		c.do(election.Action{Kind: election.Halt, Err: err})
	}
}

func (c *Core) setWorking(on bool) {
	c.working = on
	if on {
		return
	}
	if c.drains {
		c.end(election.CauseResigned, "its work has stopped")
	}
	if c.term() == 0 && c.patience.IsZero() && c.campaignAt.IsZero() {
		c.awaitVotes()
	}
}

func (c *Core) setHealth(on bool) {
	if c.healthy == on {
		return
	}
	c.healthy, c.resort = on, false
	c.endUnhealthy()
	if on {
		c.standAgain()
	}
}

// endUnhealthy ends the leadership of an unhealthy member; during a pause, when that ends.
func (c *Core) endUnhealthy() {
	if !c.healthy && !c.resort && !c.pause.On(c.now) {
		c.leave(0, "it is unhealthy")
	}
}

// setCandidacy handles whether there is work for this member as a leader.
func (c *Core) setCandidacy(on bool) {
	if c.retired == !on {
		return
	}
	c.retired = !on
	if on {
		c.standAgain()
	} else {
		c.leave(0, "there is nothing to do for it as a leader")
	}
}

// resign makes this member give up leadership. It is a candidate again when a later leadership has
// ended, when it is asked to campaign, or when no member has led for 2·T.
func (c *Core) resign(why string) {
	if !c.serves() || c.drains {
		return
	}
	c.resigned, c.outlived = c.term(), false
	c.pause.Hold(c.now, election.None)
	c.leave(0, why)
}

// leave gives up leadership once the work has stopped; to 0: to the best candidate. The lease
// continues meanwhile. A leadership that has not begun has no work: work that still runs is of an
// earlier leadership, and no reason to announce this leadership.
func (c *Core) leave(to uint64, why string) {
	if !c.serves() || c.drains {
		return
	}
	c.to = to
	if c.leads() {
		c.unview(election.CauseResigned)
		if c.working {
			c.drains = true
			return
		}
	}
	c.end(election.CauseResigned, why)
}

// transfer hands leadership over to a member, if that is allowed.
func (c *Core) transfer(to election.ID) {
	if err := c.AdmitTransfer(to); err != nil {
		c.note("refuses", to, c.view, "to hand over: "+err.Error())
		return
	}
	if p := c.peer(to); p != nil {
		c.resigned, c.outlived = c.term(), false
		c.pause.Hold(c.now, election.None)
		c.note("transfers", to, c.view, "it was asked to")
		c.leave(p.number, "it hands over to "+string(to))
	}
}

// preempt hands leadership to a higher-ranked member that has been connected for 2·T.
func (c *Core) preempt() {
	if c.cfg.NoPreempt && c.healthy || !c.leads() || c.changing() || c.pause.On(c.now) {
		return // while the members change, the best may be the member that is removed
	}
	if best := c.better(c.healthy); best != nil {
		c.note("yields to", best.rank.ID, c.view, "it outranks this member and has been there for 2·T")
		c.leave(best.number, "a higher-ranked member is there")
	}
}

// handOver gives up leadership if this member is to be removed.
func (c *Core) handOver(goes bool) {
	if goes {
		c.leave(0, "it is to be removed")
	}
}

// NewCore checks c and returns the member that it describes. Its types are internal: batuta's own
// drivers call it.
func (a *Algorithm) NewCore(c machine.Config) (machine.Core, error) {
	if err := errors.Join(c.Validate(), a.Validate()); err != nil {
		return nil, err
	}
	t := c.Timing.WithDefaults()
	if lease := a.Lease(t.T()); t.Heartbeat+2*t.TMax > lease {
		return nil, fmt.Errorf("heartbeat %v and 2·t_max, %v, are above the lease of %v: a leadership would end before its heartbeats are answered; lower the heartbeat or raise t_process", t.Heartbeat, 2*t.TMax, lease)
	}
	return newCore(a, c)
}
