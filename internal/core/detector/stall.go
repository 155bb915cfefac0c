package detector

import "time"

// This file has this process's own stalls. They look like the silence of a leader: what has
// arrived meanwhile waits to be read.

// Oversleep notes that the step of now was due at deadline (zero: no step was). A step that is
// later by more than half a heartbeat shows that this process was stopped. A member then
// counts as silent only after as much time again, a heartbeat at most. Less is the noise of
// any machine.
func (d *Detector) Oversleep(now, deadline time.Time) {
	late := now.Sub(deadline)
	if deadline.IsZero() || late <= d.timing.Heartbeat/2 {
		return
	}
	if until := now.Add(min(late, d.timing.Heartbeat)); until.After(d.excusedTo) {
		d.excusedTo = until
	}
}

// Excuse puts off the moment from which a silence counts, by T at most: a machine that is
// always late still detects a silence within 2·T.
func (d *Detector) Excuse(at time.Time) time.Time {
	if !d.excusedTo.After(at) {
		return at
	}
	if latest := at.Add(d.timing.T()); d.excusedTo.After(latest) {
		return latest
	}
	return d.excusedTo
}

// Stalled reports whether this process was stopped until now for longer than members
// bear. Its last step was at last, and the next was due at deadline (zero: never). A process
// that beats steps at every beat, any other at its deadline.
func (d *Detector) Stalled(last, now, deadline time.Time, beats bool) bool {
	bears := d.timing.Bears()
	if beats {
		return now.Sub(last) > bears
	}
	return !deadline.IsZero() && now.Sub(deadline) > bears-d.timing.Heartbeat
}

// Resume wakes from a stall: silence is counted from now.
func (d *Detector) Resume(now time.Time) { d.heardAt, d.ackedAt, d.resumedAt = now, now, now }

// ResumeFollowing goes on to follow after a stall. The leader is spared for as long as is
// borne, and receives from this member at once. That is no receipt of the leader: members
// rely on its [Detector.Age].
func (d *Detector) ResumeFollowing(now time.Time) {
	d.sparedTo, d.ackAt = now.Add(d.timing.Bears()), now
}

// Resumed returns when this process last woke from a stall; zero: never.
func (d *Detector) Resumed() time.Time { return d.resumedAt }
