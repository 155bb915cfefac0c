package machine

import "github.com/batuta-dev/batuta/election"

// This file keeps the newest leadership and the member list on disk. A member that cannot
// save in time does not lead and reports that: see [epoch.Health].

// save writes the newest leadership. At most a single Save is outstanding, and none writes less
// than the disk has.
func (m *Machine) save() {
	if m.disk.Busy() {
		if m.disk.Hung() {
			m.followUnsaved()
		}
		return
	}
	if m.tenure.Next().Defined() && !m.disk.Failing() && m.disk.Has(m.tenure.Next()) {
		m.install()
		if m.disk.Listed() || m.disk.Busy() {
			return
		}
	}
	newest := m.disk.Write(m.tenure.Held(), m.tenure.Next()) // view may have been followed unsaved
	if !m.cfg.NoDetector {
		m.alarms.Set(timerHung, m.now.Add(m.cfg.Timing.T()))
	}
	m.do(election.Action{Kind: election.Save, State: election.State{ID: m.cfg.Self.ID, Incarnation: m.cfg.Incarnation, Token: newest, Members: m.roster.All()}})
}

// followUnsaved follows a leader although the disk does not take its leadership.
func (m *Machine) followUnsaved() {
	if m.tenure.Next().Defined() && !m.tenure.Mine(m.tenure.Next()) {
		m.install()
	}
}

// saved goes on once the disk has answered. A member that cannot write does not claim, but
// follows all the same.
func (m *Machine) saved(err error) {
	if !m.disk.Busy() {
		return
	}
	failing, hung := m.disk.Failing(), m.disk.Saved(err)
	m.alarms.Cancel(timerHung)
	if err != nil {
		if !failing {
			m.note("cannot save", election.None, m.disk.Writing(), err.Error())
		}
		m.alarms.Set(timerSave, m.now.Add(saveRetry))
		m.withdraw()
	}
	written := m.tenure.Mine(m.tenure.Next()) && !m.tenure.Next().Above(m.disk.Writing()) && !m.tenure.Live() // else it leads already
	overtaken := written && m.overtaken()
	if overtaken || written && m.holdsContest() {
		m.drop() // its turn comes when the present leader has stopped, or led
	}
	switch {
	case m.tenure.Next().Defined() && m.tenure.Next().Above(m.disk.Writing()):
		m.save()
	case m.tenure.Next().Defined():
		m.install()
	}
	if err == nil && !m.disk.Busy() && (!m.disk.Listed() || m.tenure.Live() && !m.disk.Has(m.tenure.Held())) {
		m.save()
	}
	m.endYield()
	if err == nil {
		m.wrote(hung)
	}
	if overtaken && m.undecided() {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	}
}

// waited: the outstanding Save has not been answered for T.
func (m *Machine) waited() {
	m.disk.Hang()
	if !m.disk.Slow() {
		m.note("cannot save", election.None, m.disk.Writing(), "the disk has not answered for T")
	}
	m.followUnsaved()
	if m.tenure.Mine(m.tenure.Next()) {
		m.disk.Drop(m.tenure.Next())
	}
	m.withdraw()
}

// wrote goes on after a Save that has succeeded. hung: it took longer than T.
func (m *Machine) wrote(hung bool) {
	switch was := m.disk.Failing() || m.disk.Slow() || hung; {
	case hung && !m.tenure.Leaderless():
		m.slowly()
	case was:
		m.disk.Work(false)
		m.note("saves again", election.None, m.disk.Writing(), "")
		if m.mode == asks && m.tenure.Leaderless() {
			m.discover("the others go on without it since it last asked")
			return
		}
		m.standAgain("its disk works again")
	}
}

// slowly tries the disk again: a Save took longer than T, and a leader was elected meanwhile.
func (m *Machine) slowly() {
	first := !m.disk.Slow()
	m.disk.Work(true)
	switch {
	case m.disk.Busy():
		// The Save that is under way shows it.
	case first:
		m.save()
	default:
		m.alarms.Set(timerSave, m.now.Add(saveRetry))
	}
}

// withdraw gives up our claim, if there is any: this member is no candidate now. Members that wait
// for it to lead receive that, and go on at once.
func (m *Machine) withdraw() {
	mine := m.tenure.Mine(m.tenure.Next())
	if mine {
		m.drop()
		m.reconsider()
	}
	if !m.tenure.Leaderless() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link {
			m.send(i, election.Message{Kind: election.ProbeReply, Token: m.tenure.Held(), Ended: m.tenure.Over(), Age: -1})
		}
	})
	if mine {
		m.step(election.Event{Kind: election.Withdrawn, Peer: m.cfg.Self.ID})
	}
}
