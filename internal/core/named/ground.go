package named

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// ground is the state below all parts: the configuration, the time and the actions of the present
// step.
type ground struct {
	core
	self        election.ID
	election    string
	incarnation uint64
	timing      election.Timing
	hold        time.Duration // how long a holder counts on an echo
	wait        time.Duration // how long the coordinator counts on it
	leased      bool          // leaderships are leases: a refused dial frees nothing
	partBytes   int
	trace       func(election.Record)

	now, last, origin time.Time
	out               []election.Action
	changes           []Change
	replies           []Reply
	view              election.Token // the coordinator, as of the last step
	flushAt, flushed  time.Time
}

// core is what the parts ask the member's own core. They cannot step it.
type core interface {
	Self() election.Rank
	Standing() election.Eligibility
	View() election.Token
	Highest() uint64
	Members() []machine.MemberView
	Knows(election.ID) bool
	AdmitTransfer(to election.ID) error
}

func newGround(own core, c machine.Config, partBytes int) *ground {
	t := c.Timing.WithDefaults()
	g := &ground{core: own, self: own.Self().ID, election: cmp.Or(c.Election, "default"), incarnation: c.Incarnation, timing: t, trace: c.Trace, partBytes: partBytes}
	g.wait = 2*t.Bears() + t.Heartbeat
	g.hold = g.wait
	if l, ok := c.Algorithm.(interface {
		Lease(time.Duration) time.Duration
	}); ok {
		g.hold, g.leased = l.Lease(g.wait), true
	}
	return g
}

// settles is how long a new coordinator waits for what is held under an earlier coordinator: the
// times of the earlier coordinator may differ.
func (g *ground) settles() time.Duration {
	if e, ok := g.core.(machine.Leaser); ok {
		return max(g.wait, 3*e.Earlier()) // 2·T and a heartbeat, which is below T, by the times of then
	}
	return g.wait
}

func (g *ground) passed(at time.Time) bool { return !at.IsZero() && !g.now.Before(at) }

// flushSoon schedules the sending of what has changed: at once if nothing was sent recently,
// else with what comes meanwhile.
func (g *ground) flushSoon() {
	if g.flushAt.IsZero() {
		g.flushAt = g.now
		if next := g.flushed.Add(g.timing.Heartbeat / 20); next.After(g.now) {
			g.flushAt = next
		}
	}
}

// stamp is this member's own time; never 0.
func (g *ground) stamp() int64 { return int64(g.now.Sub(g.origin)) + 1 }

// send sends a frame of the present coordinator's time. A member that was removed meanwhile
// cannot be reached any more.
func (g *ground) send(to election.ID, f *frame) {
	if !g.Knows(to) {
		return
	}
	g.out = append(g.out, election.Action{Kind: election.Send, To: to, Message: &election.Message{
		Kind: election.Named, Election: g.election, From: g.self, To: to, Token: g.view, Highest: g.Highest(), Data: f.encode()}})
}

func (g *ground) note(what, name string, peer election.ID, t election.Token, why string) {
	if g.trace != nil {
		g.trace(election.Record{At: g.now, Member: g.self, Election: name, What: what, Peer: peer, Token: t, Why: why})
	}
}

func (g *ground) noteName(what, name string, id election.ID, epoch uint64, why string) {
	g.note(what, name, id, election.Token{Epoch: epoch, Leader: election.Rank{ID: id}}, why)
}

// same reports whether two tokens mean the same leadership. Its leader's priority may change
// meanwhile.
func same(a, b election.Token) bool { return a.Epoch == b.Epoch && a.Leader.ID == b.Leader.ID }
