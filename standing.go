package batuta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// Standing says whether a member stands for election, and if not, why.
type Standing string

// Standings.
const (
	StandingEligible  Standing = "eligible"  // it stands, or leads
	StandingUnhealthy Standing = "unhealthy" // its own check has failed; it leads as a last resort at most
	StandingResigned  Standing = "resigned"  // it stepped down; until a later leader's time ends, or nobody leads for 2·T
	StandingObserver  Standing = "observer"  // it is set up to follow only
	StandingDraining  Standing = "draining"  // its work of an earlier leadership has not stopped yet
	StandingUnsaved   Standing = "unsaved"   // its disk does not save its state
	StandingJoining   Standing = "joining"   // it awaits the leader of the cluster that it joins, or that there is one
	StandingRefused   Standing = "refused"   // a live member of its list refuses its connections
	StandingClosing   Standing = "closing"   // its process is about to end
	StandingRemoved   Standing = "removed"   // it is no member any more
)

// standings are the Machine's words for them.
var standings = map[election.Eligibility]Standing{
	election.Eligible:            StandingEligible,
	election.IneligibleUnhealthy: StandingUnhealthy,
	election.LastResort:          StandingUnhealthy,
	election.IneligibleResigned:  StandingResigned,
	election.StandsNext:          StandingResigned,
	election.IneligibleObserver:  StandingObserver,
	election.IneligibleWorking:   StandingDraining,
	election.IneligibleUnsaved:   StandingUnsaved,
	election.IneligibleJoining:   StandingJoining,
	election.IneligibleUnfounded: StandingJoining,
	election.IneligibleRefused:   StandingRefused,
	election.IneligibleClosing:   StandingClosing,
	election.IneligibleGone:      StandingRemoved,
}

// diskHealth is how saving goes. It belongs to the loop.
type diskHealth struct {
	began  time.Duration // when the outstanding save did, on the node's clock; 0: none is
	err    error         // of the last save
	failed uint64        // saves, all told
}

// saveBegins takes note that a save begins.
func (n *Node) saveBegins() { n.disk.began = max(n.clock.Now(), 1) }

// wasSaved takes note of how it ended, and logs what has changed.
func (n *Node) wasSaved(err error) {
	was := n.disk.err
	n.disk.began, n.disk.err = 0, err
	switch {
	case err != nil:
		if n.disk.failed++; was == nil || was.Error() != err.Error() {
			n.cfg.Logger.Warn("the state cannot be saved: this member follows, and does not stand for election until it can", "error", err)
		}
	case was != nil:
		n.cfg.Logger.Warn("the state can be saved again", "failed", n.disk.failed)
	}
}

// trouble says what is wrong with the disk; "" when nothing is known to be.
func (n *Node) trouble() string {
	if since := n.clock.Now() - n.disk.began; n.disk.began > 0 && since > n.timeout {
		return fmt.Sprintf("a save has not ended in %v", since.Round(time.Millisecond))
	}
	if n.disk.err != nil {
		return n.disk.err.Error()
	}
	return ""
}

// whyIneligible says in words why this member does not stand; "" when it does.
func (n *Node) whyIneligible() string {
	switch standings[n.machine.Standing()] {
	case StandingUnhealthy:
		return cmp.Or(n.healthError, "its first check has not ended yet")
	case StandingResigned:
		if n.retired {
			return "Lead has returned, so no work of a leader runs here: it stands again when Lead is called again, or it is asked to campaign"
		}
		return "it was asked to step down, and stands again when a later leader's time ends, or nobody leads"
	case StandingObserver:
		return "it is set up to follow only"
	case StandingDraining:
		return "what it ran as leader " + n.machine.Held().String() + " has not stopped yet"
	case StandingUnsaved:
		return n.trouble()
	case StandingJoining:
		return cmp.Or(n.awaited(), "it has just joined and awaits the leader")
	case StandingRefused:
		return n.whyRefused()
	case StandingClosing:
		return "it closes"
	case StandingRemoved:
		return "it is on nobody's list any more"
	}
	return ""
}

// whyRefused reports the members for which this one does not lead, and what to do.
func (n *Node) whyRefused() string {
	m, ok := n.machine.(interface{ RefusedBy() []election.ID })
	if !ok {
		return ""
	}
	var words, remedies []string
	for _, id := range m.RefusedBy() {
		why := n.net.Refusal(id)
		if why == "" {
			continue // it has let this one in since
		}
		words = append(words, fmt.Sprintf("member %s (%s)", id, why))
		reason, _, _ := strings.Cut(why, ":")
		if remedy := remedyOf(wire.Reason(reason)); !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	return "it does not lead next to members that refuse it: " + strings.Join(words, ", ") + ": " + strings.Join(remedies, "; ")
}

// remedyOf is what to do about a member that refuses this one.
func remedyOf(why wire.Reason) string {
	switch why {
	case wire.ReasonNotMember:
		return "add this member to their list with \"batuta members add\", or correct the lists"
	case wire.ReasonSecurity:
		return "give all members one secret, or certificates of one authority"
	case wire.ReasonTimes:
		return "give all members the same --t-max and --t-process"
	}
	return "give all members the same " + string(why)
}

// noteStanding logs and tells a standing that has changed.
func (n *Node) noteStanding() {
	now := standings[n.machine.Standing()]
	if now == n.standing || n.closing {
		return
	}
	why := n.whyIneligible()
	n.cfg.Logger.Info("standing", "was", string(n.standing), "is", string(now), "why", why)
	n.standing, n.stood = now, time.Now()
	n.history.add(Event{Time: n.stood, Kind: EventStanding, View: n.view(), Standing: now, Why: why})
	if now == StandingUnsaved && n.disk.err == nil {
		n.cfg.Logger.Warn("the disk does not answer: this member does not stand for election until it does", "error", n.trouble())
	}
}
