package machine

import "github.com/batuta-dev/batuta/election"

// This file finds the second process of an id: a machine was replaced under its id, and the old
// machine is back. The list has a single address for an id, so the process that listens elsewhere
// asks at that address, and of the two the process that started later ends. Two processes that know
// each other need no third to decide, and cannot both end.

// duplicate is what this member knows of the address at which the list has its id, where
// that is not its own.
type duplicate struct {
	asking    bool   // a dial there is under way
	leadsBack string // an address that was found to be this process's own
}

// elsewhere is the address at which the list has this member, "" if that is its own. What each
// configuration has for itself does not count.
func (m *Machine) elsewhere() string {
	own, _ := m.Entry(m.cfg.Self.ID)
	switch {
	case m.cfg.NoDetector, m.cfg.Address == "", m.place != onList, own.Version == 0, own.Fixed:
		return ""
	case own.Address == m.cfg.Address, own.Address == m.leadsBack:
		return ""
	}
	return own.Address
}

// askElsewhere asks at the address that the list has for this member's id.
func (m *Machine) askElsewhere() {
	if at := m.elsewhere(); at != "" && !m.asking {
		m.note("asks who it is", m.cfg.Self.ID, election.Token{}, "the list has this member at "+at)
		m.asking = true
		m.do(election.Action{Kind: election.Dial, To: m.cfg.Self.ID})
	}
}

// answeredElsewhere handles what has come of that. That process's own entry comes first: when both
// have gone on the list again, the newest entry decides which of them has the place.
func (m *Machine) answeredElsewhere(ev election.Event) {
	m.asking = false
	found := ev.Kind == election.DialFailed && ev.Err == election.ErrSameID
	if found && ev.Member.ID == m.cfg.Self.ID {
		m.merge([]election.Member{ev.Member}, election.None)
	}
	at := m.elsewhere()
	switch own, _ := m.Entry(m.cfg.Self.ID); {
	case at == "" || m.asking:
	case !found:
		m.alarms.Set(timerElsewhere, m.now.Add(maxBackoff)) // no process is there, or that of a different member
	case ev.Incarnation == m.cfg.Incarnation:
		m.leadsBack = at
	case ev.Incarnation < m.cfg.Incarnation || m.refusedByAll():
		m.note("is a duplicate", m.cfg.Self.ID, election.Token{}, "the process at "+at+" has this id")
		m.do(election.Action{Kind: election.Halt, Err: election.ErrSameID, Address: at})
	default:
		own.Address = m.cfg.Address // that process is the second, and finds us by this
		m.change(own)
	}
}

// refusedByAll reports whether a member knows a second process with our id, and none has a
// connection to this process.
func (r *roll) refusedByAll() bool {
	refused := false
	for i := range r.members {
		refused = refused || !r.members[i].rebuffedAt.IsZero()
	}
	return refused && !r.linked()
}
