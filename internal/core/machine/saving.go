package machine

import "github.com/batuta-dev/batuta/election"

// This file keeps the newest leadership, and the member list, on disk. A disk may
// refuse, be slow, or not answer at all: who cannot save in time does not lead, says
// so, and leaves the lead to the others.

// disk is what is safe on disk, and what is on its way there.
type disk struct {
	onDisk  election.Token // what a Save has made safe
	writing election.Token // what the outstanding Save writes
	saving  bool           // a Save is outstanding
	listed  bool           // the member list is on disk
	unsaved bool           // the disk refused the last Save
	hung    bool           // the outstanding Save has not been answered for T
	slow    bool           // the last one took longer than T: see slowly
	dropped election.Token // our claim that was given up while it was being saved
}

// restore takes up what the disk has.
func (d *disk) restore(t election.Token) { d.onDisk = t }

// listSaved and listChanged say whether the disk has the member list as it is.
func (d *disk) listSaved()   { d.listed = true }
func (d *disk) listChanged() { d.listed = false }

// forgiveSlowness: nobody else has led, for as long as a slow disk waits for that.
func (d *disk) forgiveSlowness() { d.slow = false }

// cannotSave reports whether this member has to leave the lead to the others.
func (d *disk) cannotSave() bool { return d.unsaved || d.hung || d.slow }

// save writes the newest leadership. One Save is outstanding at most, and none
// writes less than the disk has.
func (m *Machine) save() {
	if m.saving {
		if m.hung {
			m.followUnsaved()
		}
		return
	}
	if m.next.Defined() && !m.unsaved && !m.next.Above(m.onDisk) {
		m.install()
		if m.listed || m.saving {
			return
		}
	}
	m.writing = m.onDisk
	for _, t := range [...]election.Token{m.view, m.next} { // view may have been followed unsaved
		if t.Above(m.writing) {
			m.writing = t
		}
	}
	m.saving, m.listed = true, true
	if !m.cfg.NoDetector {
		m.set(timerHung, m.cfg.Timing.T())
	}
	m.do(election.Action{Kind: election.Save, State: election.State{ID: m.cfg.Self.ID, Incarnation: m.cfg.Incarnation, Token: m.writing, Members: m.roster.All()}})
}

// followUnsaved takes a leadership of another's although the disk does not take it.
func (m *Machine) followUnsaved() {
	if m.next.Defined() && !m.isMine(m.next) {
		m.install()
	}
}

// saved goes on once the disk has answered. Who cannot write does not claim,
// but follows all the same.
func (m *Machine) saved(err error) {
	if !m.saving {
		return
	}
	hung := m.hung
	m.saving, m.hung = false, false
	m.cancel(timerHung)
	if err != nil {
		m.refused(err)
	} else {
		m.onDisk = m.writing
	}
	written := m.isMine(m.next) && !m.next.Above(m.writing)
	overtaken := written && m.overtaken()
	if overtaken || written && m.holdsContest() {
		m.drop() // its turn comes when the other has stopped, or led
	}
	switch {
	case m.next.Defined() && m.next.Above(m.writing):
		m.save()
	case m.next.Defined():
		m.install()
	}
	if err == nil && !m.saving && (!m.listed || m.live() && m.view.Above(m.onDisk)) {
		m.save()
	}
	m.endYield()
	if err == nil {
		m.wrote(hung)
	}
	if overtaken && m.undecided() {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.view})
	}
}

// refused takes note that the disk does not take what is written.
func (m *Machine) refused(err error) {
	if !m.unsaved {
		m.note("cannot save", election.None, m.writing, err.Error())
	}
	m.unsaved = true
	m.set(timerSave, saveRetry)
	m.withdraw()
}

// waited: the outstanding Save has not been answered for T.
func (m *Machine) waited() {
	m.hung = true
	if !m.slow {
		m.note("cannot save", election.None, m.writing, "the disk has not answered for T")
	}
	m.followUnsaved()
	if m.isMine(m.next) {
		m.dropped = m.next
	}
	m.withdraw()
}

// wrote goes on after a Save that has succeeded. hung: it took longer than T.
func (m *Machine) wrote(hung bool) {
	switch was := m.unsaved || m.slow || hung; {
	case hung && !m.leaderless():
		m.slowly()
	case was:
		m.unsaved, m.slow = false, false
		m.note("saves again", election.None, m.writing, "")
		if m.mode == asks && m.leaderless() {
			m.discover("the others go on without it since it last asked")
			return
		}
		m.standAgain("its disk works again")
	}
}

// slowly: a Save took longer than T, and another leads meanwhile. It would have to
// wait for this disk as long again if we took its place, so that we stand only after
// a Save that took less; or if nobody else has led for 2·T.
func (m *Machine) slowly() {
	first := !m.slow
	m.unsaved, m.slow = false, true
	switch {
	case m.saving:
		// Another is under way: it tells.
	case first:
		m.save()
	default:
		m.set(timerSave, saveRetry)
	}
}

// withdraw gives up our claim, if there is one: this member has ceased to stand. Those
// who wait for it to lead are told, and go on at once.
func (m *Machine) withdraw() {
	mine := m.isMine(m.next)
	if mine {
		m.drop()
		m.reconsider()
	}
	if !m.leaderless() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link {
			m.send(i, election.Message{Kind: election.ProbeReply, Token: m.view, Ended: m.ended != "" && m.certain, Age: -1})
		}
	})
	if mine {
		m.step(election.Event{Kind: election.Withdrawn, Peer: m.cfg.Self.ID})
	}
}

// nextToken is what a claim of ours leads under: the next epoch, or the one of an
// earlier claim that was given up, has reached the disk since, and is above all that
// anybody holds.
func (m *Machine) nextToken() election.Token {
	if d := m.dropped; d.Defined() && d == m.onDisk && d.Leader == m.cfg.Self && d.Epoch > max(m.heldEpoch, m.view.Epoch) {
		return d
	}
	return election.Token{Epoch: m.highest + 1, Leader: m.cfg.Self}
}
