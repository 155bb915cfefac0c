package machine

// This file keeps a cluster from being founded by accident: of three machines that do
// not reach each other yet, each would lead a cluster of its own.

// founding is whether this member may be the first leader that there is.
type founding struct {
	unfounded bool // it may not, yet
}

// foundLater has this member wait, if it has to.
func (m *Machine) foundLater() { m.unfounded = !m.founds() }

// founds reports whether this member may be the first leader that there is: no, while
// it has heard of no leadership, in this life or an earlier one, and knows too few.
func (m *Machine) founds() bool {
	switch {
	case m.seen.Highest() > 0 || m.cfg.NoDetector:
		return true
	case m.cfg.Expect > 0:
		return m.acquainted() >= m.cfg.Expect
	}
	return !m.cfg.Newcomer
}

// acquainted counts the members that this one hears, itself included.
func (m *Machine) acquainted() int {
	n := 1
	for i := range m.members {
		if peer := &m.members[i]; i != m.me && !peer.down && !peer.heard.IsZero() {
			n++
		}
	}
	return n
}

// endUnfounded has this member stand as soon as it may.
func (m *Machine) endUnfounded() {
	if m.unfounded && m.started() && m.founds() {
		m.unfounded = false
		m.standAgain("it knows of the cluster, or of enough members to found one")
	}
}
