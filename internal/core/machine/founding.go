package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps a cluster from being founded by accident: of three machines that do not reach
// each other yet, each would lead a cluster of its own.

// founding is whether this member may be the first leader that there is.
type founding struct {
	unfounded bool // it may not, yet
}

// company is whether this member receives too few members to lead, as it last found.
type company struct{ few bool }

// finds takes note of that.
func (c *company) finds(few bool) { c.few = few }

// founds reports whether this member may be the first leader that there is: no, while it knows of
// no leadership, in this life or an earlier life, and knows too few members.
func (m *Machine) founds() bool {
	switch {
	case m.seen.Highest() > 0 || m.cfg.NoDetector:
		return true
	case m.cfg.Expect > 0:
		return m.acquainted() >= m.cfg.Expect
	}
	return !m.cfg.Newcomer
}

// acquainted counts the members that this member receives, itself included.
func (r *roll) acquainted() int {
	n := 1
	for i := range r.members {
		if peer := &r.members[i]; i != r.me && !peer.down && !peer.heard.IsZero() {
			n++
		}
	}
	return n
}

// tooFew reports whether this member receives fewer members than it needs to lead. A leader has received a member
// within T. A new leader has that time, and time to connect. A member without a leader hangs up links that
// are silent for T: it has time to connect again. A follower goes by the beats of its leader,
// until that leader receives too few.
func (m *Machine) tooFew() bool {
	need, within := m.cfg.MinMembers, m.farT()
	if need <= 1 || m.cfg.NoDetector || m.tenure.Leading() && m.now.Sub(m.tenure.BegunAt()) <= within {
		return false
	}
	if m.tenure.Leading() || m.few {
		within = m.cfg.Timing.Bears()
	}
	leader, listed := m.index[m.tenure.Held().Leader.ID]
	reports := listed && !m.detector.Reported() && m.members[leader].eligibility != election.IneligibleFew
	m.others(func(_ int, peer *member) {
		at := peer.heard
		if !peer.viaAt.IsZero() { // it is asked by relays after each dial in vain
			at = later(at, peer.viaAt.Add(maxBackoff+m.farT()))
		}
		if reports && peer.state == election.StateUp {
			at = later(at, m.now.Add(-m.detector.Age(m.now)))
		}
		if (m.tenure.Leading() || !peer.down) && !m.now.After(m.detector.Excuse(at.Add(within))) {
			need--
		}
	})
	return need > 1
}

// endUnfounded has this member be a candidate as soon as it may, and not while it receives too few members or
// while the cluster is paused.
func (m *Machine) endUnfounded() {
	if m.unfounded && m.tenure.Started() && m.founds() {
		m.unfounded = false
		m.standAgain("it knows of the cluster, or of enough members to found one")
	}
	turned, ends := m.maintenance.Turned(m.now)
	if turned && ends.IsZero() {
		m.note("resumes", m.cfg.Self.ID, m.tenure.Held(), "the pause has ended")
		if m.alarms.Cancel(timerPause); m.tenure.Leading() && m.eligibility() == election.IneligibleUnhealthy {
			m.makeWay("it is unhealthy")
		}
		if m.mayPreempt() { // by then each member has received that the members are candidates again
			m.alarms.Set(timerHandover, m.now.Add(3*m.cfg.Timing.Heartbeat))
		} else {
			m.standAgain("the pause has ended")
		}
	} else if turned {
		m.note("pauses", m.cfg.Self.ID, m.tenure.Held(), "for "+ends.Sub(m.now).Round(time.Millisecond).String())
	}
	if !ends.IsZero() {
		m.alarms.Set(timerPause, m.now.Add(ends.Sub(m.now)))
	}
	if few := m.tenure.Started() && m.tooFew(); few != m.few && !m.tenure.Leading() {
		m.finds(few)
		if !few {
			m.standAgain("it receives enough members")
		}
	}
}
