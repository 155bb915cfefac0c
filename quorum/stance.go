package quorum

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// stance is this member's eligibility.
type stance struct {
	*crew
	*writer

	healthy bool
	closing bool // its process is about to end
	working bool
	retired bool // there is no work for this member as a leader
	resort  bool // it is a candidate though unhealthy
}

// Standing returns why this member is not a candidate.
func (c *stance) Standing() election.Eligibility {
	switch {
	case c.halted, c.removed():
		return election.IneligibleGone
	case c.closing:
		return election.IneligibleClosing
	case c.cfg.Observer:
		return election.IneligibleObserver
	case c.node == nil:
		return election.IneligibleJoining
	case !c.healthy && !c.resort: // before the reasons that concern only the cluster's own leadership
		return election.IneligibleUnhealthy
	case c.disk.Unfit():
		return election.IneligibleUnsaved
	case c.working && !c.leads():
		return election.IneligibleWorking
	case c.pause.Bars(c.now, c.cfg.Self.ID, c.Knows):
		return election.IneligiblePaused
	case c.resigned != 0 || c.retired:
		return election.IneligibleResigned
	case !c.healthy:
		return election.LastResort
	}
	return election.Eligible
}

// eligible reports whether this member may be elected, as far as it can detect.
func (c *stance) eligible() bool {
	if c.node == nil || !c.me.Settled || !slices.Contains(c.roster.conf.GetVoters(), c.me.Number) {
		return false
	}
	s := c.Standing()
	return s == election.Eligible || s == election.LastResort
}
