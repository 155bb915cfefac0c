package quorum

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

// tenure is the leadership that this member has in its term, and the one that holds for it, its own
// or its leader's. It decides neither: its owner reports each step of a leadership to it.
type tenure struct {
	*ground
	leader
	attest.Oaths // prove that a leadership is over

	view election.Token // the leadership that holds for this member
	held election.Token // the highest that it has announced
	gone uint64         // the last epoch that it announced as ended
	seen uint64         // the highest term seen anywhere

	resigned uint64 // the term in which it resigned; until a later leadership ends
	outlived bool   // a later leader existed
}

// serves reports whether this member is raft's leader, and its lease has not ended permanently.
func (c *tenure) serves() bool { return c.term() != 0 && !c.over }

// leads reports whether the leadership that holds is this member's own. It is announced while its
// lease is in force, and not after it has ended or begun to drain.
func (c *tenure) leads() bool { return c.view.Leader.ID == c.cfg.Self.ID }

// announce announces a leadership that is in force, of any member. It reports whether it holds now.
func (c *tenure) announce(t election.Token) bool {
	if t.Epoch <= c.view.Epoch || t.Epoch < c.held.Epoch {
		return false
	}
	if t.Leader.ID != c.cfg.Self.ID && c.gone == t.Epoch {
		return false // its end has been announced
	}
	c.unview(election.CauseSuperseded)
	c.view, c.held = t, t
	c.outlived = c.resigned != 0
	what := "follows"
	if c.leads() {
		what = "leads"
	}
	c.note(what, t.Leader.ID, t, "")
	c.do(election.Action{Kind: election.NotifyElected, Token: t})
	return true
}

// term returns the term in which this member is raft's leader; 0: it is not.
func (c *tenure) term() uint64 { return c.leader.term }

// leadership returns this member's term as the token that is announced.
func (c *tenure) leadership() election.Token {
	return election.Token{Epoch: c.leader.term, Leader: c.leader.rank}
}

// Lease returns until when this member's leadership is in force, if it leads. It ends then unless a
// majority acknowledges another round.
func (c *tenure) Lease() (until time.Time, leads bool) {
	return c.until, c.leads()
}

// Guard returns until when work that this member's leaderships have begun may still run, which
// includes the time after a leadership while its work stops. Zero: no work may run.
func (c *tenure) Guard() time.Time {
	if !c.serves() || !c.leads() && !c.drains {
		return time.Time{}
	}
	return c.until
}

// View returns the leadership that holds for this member.
func (c *tenure) View() election.Token { return c.view }

// Held returns the highest leadership that it has announced, or the term on disk if it has
// announced none.
func (c *tenure) Held() election.Token { return c.held }

// Highest returns the highest term that it has seen.
func (c *tenure) Highest() uint64 { return c.seen }

// unview announces that the present leadership has ended. A follower that only receives nothing
// from its leader, or is refused by its address, cannot be certain of that.
func (c *tenure) unview(cause election.Cause) {
	c.unviewFor(cause, c.leads() || cause != election.CauseSilent && cause != election.CauseCrashed, string(cause))
}

func (c *tenure) unviewFor(cause election.Cause, certain bool, why string) {
	if !c.view.Defined() {
		return
	}
	t := c.view
	c.view = election.Token{}
	if certain {
		c.gone = t.Epoch // otherwise it may still exist
	}
	if c.outlived {
		c.resigned, c.outlived = 0, false
	}
	c.note("loses", t.Leader.ID, t, why)
	c.do(election.Action{Kind: election.NotifyLost, Token: t, Cause: cause})
}
