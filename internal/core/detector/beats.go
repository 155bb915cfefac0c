package detector

import "time"

// This file has the beats of a leader and their acknowledgements. "Beats are acknowledged":
// a leader that receives members but is not received by any of them gives leadership up. A
// leader that receives none of them leads a group without followers.

// Lead begins to lead: acknowledgements are due from now on.
func (d *Detector) Lead(now time.Time) {
	d.Follow(time.Time{}, time.Time{})
	d.CountFrom(now)
}

// CountFrom notes that no beat that left before at could be acknowledged.
func (d *Detector) CountFrom(at time.Time) { d.ackedAt = at }

// Announce notes that a leader's announcement leaves now. Members acknowledge beats only. The first
// beat leaves at once where its acknowledgement, a heartbeat later, could take longer than is borne.
func (d *Detector) Announce(now time.Time) {
	d.Beat(now)
	if d.nextAnswer() > d.timing.Bears() {
		d.beatAt = now
	}
}

// nextAnswer is how long the acknowledgement of the next beat may take.
func (d *Detector) nextAnswer() time.Duration { return d.timing.Heartbeat + 2*d.timing.TMax }

// Beat notes that a leader's beat leaves now.
func (d *Detector) Beat(now time.Time) { d.beatAt = now.Add(d.timing.Heartbeat) }

// BeatAt returns when the next beat is due.
func (d *Detector) BeatAt() time.Time { return d.beatAt }

// Acked notes the acknowledgement of a beat that left at. A stamp that is
// older than the newest, or from the future, changes nothing.
func (d *Detector) Acked(now, at time.Time) {
	if at.After(d.ackedAt) && !at.After(now) {
		d.CountFrom(at)
	}
}

// Unheard reports whether members are received although none has acknowledged for as long
// as is borne, or where beats are rare for what an answer and the next beat take.
func (d *Detector) Unheard(now time.Time) bool {
	return d.Accompanied(now) && now.After(d.UnheardAt())
}

// UnheardAt returns until when an acknowledgement must arrive.
func (d *Detector) UnheardAt() time.Time {
	return d.Excuse(d.ackedAt.Add(max(d.timing.Bears(), d.nextAnswer())))
}

// TakeBeat notes a heartbeat of the leader, to be acknowledged by its stamp.
func (d *Detector) TakeBeat(now time.Time, stamp int64) {
	d.stamp, d.ackAt = stamp, now.Add(2*d.timing.Heartbeat)
}

// TakeStates notes the version of the member states in a beat.
func (d *Detector) TakeStates(version uint64) { d.version = version }

// Ack returns what an acknowledgement carries: the stamp of the last beat, and the version of
// the last member states.
func (d *Detector) Ack() (stamp int64, version uint64) { return d.stamp, d.version }

// AckDue reports whether an acknowledgement is due although no beat has arrived. It has an
// old stamp: this member runs, but does not receive the leader. The next is due a heartbeat
// later.
func (d *Detector) AckDue(now time.Time) bool {
	if d.ackAt.IsZero() || now.Before(d.ackAt) {
		return false
	}
	d.ackAt = now.Add(d.timing.Heartbeat)
	return true
}

// AckAt returns when such an acknowledgement is due; zero: not.
func (d *Detector) AckAt() time.Time { return d.ackAt }
