package election

import (
	"slices"
	"time"
)

// Member is an entry of the member list.
type Member struct {
	Rank
	Address string // HOST:PORT
}

// member is what a Machine knows of a member.
type member struct {
	Member
	incarnation uint64
	state       MemberState // as last notified
	down        bool        // counts as gone until it is heard again
	aside       Aside       // why it does not stand, as it last said
	epoch       uint64      // of the token it last acknowledged
	asked       bool        // its report is awaited

	link    bool          // a connection stands
	dialing bool          // a dial is under way
	redial  time.Time     // not before
	backoff time.Duration // until the dial after that
	heard   time.Time     // when it last said anything; zero: never
	version uint64        // of the member states it has acknowledged
}

// enlist makes list the members, this one among them.
func (m *Machine) enlist(list []Member) {
	m.members = m.members[:0]
	for _, e := range list {
		if e.ID == m.cfg.Self.ID {
			continue
		}
		m.members = append(m.members, member{Member: e})
	}
	m.members = append(m.members, member{Member: Member{Rank: m.cfg.Self}, incarnation: m.cfg.Incarnation, state: StateUp})
	m.rank()
}

// rank puts the members in order after any of their ranks may have changed.
func (m *Machine) rank() {
	slices.SortFunc(m.members, func(a, b member) int { return a.Compare(b.Rank) })
	m.index = make(map[ID]int, len(m.members)) // a clone may share the old one
	m.ranks = make([]Rank, len(m.members))
	for i, e := range m.members {
		m.index[e.ID], m.ranks[i] = i, e.Rank
	}
	m.me = m.index[m.cfg.Self.ID]
}

// others calls f for every member but this one, highest rank first: who is
// likeliest to lead hears first.
func (m *Machine) others(f func(i int, peer *member)) {
	for i := len(m.members) - 1; i >= 0; i-- {
		if i != m.me {
			f(i, &m.members[i])
		}
	}
}

// setState notes what is known of a member and tells when it has changed.
func (m *Machine) setState(i int, s MemberState) {
	peer := &m.members[i]
	if peer.state == s || i == m.me {
		return
	}
	peer.state = s
	m.version++
	m.do(Action{Kind: Notify, Member: peer.ID, Status: s})
}

// MemberView is what a member knows of another.
type MemberView struct {
	Member
	State       MemberState
	Epoch       uint64    // of the token it last acknowledged to the leader
	Heard       time.Time // when it last said anything to this member; zero: never
	Incarnation uint64    // 0: unknown
	Aside       Aside
}

// Members are all members as this one sees them, lowest rank first.
func (m *Machine) Members() []MemberView {
	views := make([]MemberView, len(m.members))
	for i, e := range m.members {
		views[i] = MemberView{e.Member, e.state, e.epoch, e.heard, e.incarnation, e.aside}
	}
	views[m.me].Epoch, views[m.me].Heard, views[m.me].Aside = m.view.Epoch, m.now, m.aside()
	return views
}
