// Package detector suspects a leader that is silent, a leader that is not received, and this
// process itself when it was stopped. It is a part of the best-effort core.
//
// It is a star, as in docs/sources.md, "Scrapper": the leader beats to every member and each
// member acknowledges. Members do not beat to each other.
//
// It assumes that a message takes t_max at most and is handled within t_process. Then it
// promises: a leader that runs and is connected is never suspected, and a leader that has
// ended is suspected within the silence that is borne. That time grows by T at most when this
// process itself was stopped. Where the assumption does not hold, a suspicion may be wrong.
// The owner therefore asks all members before it acts: see [Detector.Vouch].
//
// The package has no clock and sends nothing: its owner passes the time, reports what
// arrives, and asks what is due.
package detector

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Detector observes the present leadership. It is not safe for concurrent use. A copy
// is independent.
type Detector struct {
	timing election.Timing

	// Of a follower.
	leaderAt  time.Time   // when the leader itself was last received; zero: not in this leadership
	sparedTo  time.Time   // until then reports of members spare the leader
	voucher   election.ID // the member of the report that lasts longest
	renewAt   time.Time   // when to ask the confirming member again; zero: not
	suspected bool        // the leader is, and other members are asked
	stamp     int64       // of the last beat
	version   uint64      // of the member states in the beats
	ackAt     time.Time   // when to acknowledge although no beat has arrived; zero: not

	// Of a leader.
	beatAt  time.Time // when the next beat leaves
	heardAt time.Time // when any member was last received
	ackedAt time.Time // when the newest beat left that was acknowledged

	// Of this process.
	excusedTo time.Time // until then what has arrived may wait to be read
	resumedAt time.Time // when it last woke from a stall
}

// New returns the detector of a member without a leader. timing has no zero fields but
// Silence.
func New(timing election.Timing) Detector { return Detector{timing: timing} }

// Receive notes that a message of any member has arrived.
func (d *Detector) Receive(now time.Time) {
	if !d.Accompanied(now) {
		d.ackedAt = now // until now no member could acknowledge
	}
	d.heardAt = now
}

// Accompanied reports whether any member was received within T.
func (d *Detector) Accompanied(now time.Time) bool { return now.Sub(d.heardAt) <= d.timing.T() }

// Follow begins with a leader: when it was itself received (zero: it is only reported), and
// until when their reports spare it.
func (d *Detector) Follow(received, sparedTo time.Time) {
	d.leaderAt, d.sparedTo = received, sparedTo
}

// Settle follows the leader for good: its heartbeats are counted from now on.
func (d *Detector) Settle() {
	d.stamp, d.version, d.renewAt, d.ackAt = 0, 0, time.Time{}, time.Time{}
}

// ReceiveLeader notes that a message of the leader itself has arrived.
func (d *Detector) ReceiveLeader(now time.Time) { d.leaderAt = now }

// Greet notes that a connection to the leader was made: its first beat on it may arrive T
// later.
func (d *Detector) Greet(now time.Time) {
	if beat := now.Add(d.timing.T()); beat.After(d.sparedTo) {
		d.sparedTo = beat
	}
}

// Reported is whether the leader is known by reports of members only.
func (d *Detector) Reported() bool { return d.leaderAt.IsZero() }

// Age is the time since the leader itself was received; negative when it was not in this
// leadership.
func (d *Detector) Age(now time.Time) time.Duration {
	if d.Reported() {
		return -1
	}
	return now.Sub(d.leaderAt)
}

// Spared returns until when reports of members spare the leader.
func (d *Detector) Spared() time.Time { return d.sparedTo }

// borneTo is when the leader's own silence has lasted for as long as is borne.
func (d *Detector) borneTo() time.Time { return d.leaderAt.Add(d.timing.Bears()) }

// SilentAt returns when the leader is to be suspected, if nothing arrives before.
func (d *Detector) SilentAt() time.Time {
	at := d.borneTo()
	if d.sparedTo.After(at) {
		at = d.sparedTo
	}
	return d.Excuse(at)
}

// Suspect notes that the leader is suspected, and that all members are asked.
func (d *Detector) Suspect() { d.suspected = true }

// Suspected reports whether the leader is suspected.
func (d *Detector) Suspected() bool { return d.suspected }

// Acquit ends the suspicion if any, and reports whether it did.
func (d *Detector) Acquit() (was bool) {
	was, d.suspected = d.suspected, false
	return was
}

// Vouch notes that a member, by, received the leader age ago. That spares the leader until
// age is as much as is tolerated. The confirming member is to be asked again before that, so
// that its answer, which takes up to answer, arrives in time: a silent leader is suspected once
// and not repeatedly. renew is when that is due, zero if the report changes nothing.
func (d *Detector) Vouch(now time.Time, by election.ID, age, answer time.Duration) (renew time.Time) {
	until := now.Add(d.timing.Bears() - age)
	if !until.After(d.sparedTo) {
		return time.Time{}
	}
	d.sparedTo, d.voucher = until, by
	d.renewAt = until.Add(-answer)
	if soon := now.Add(d.timing.Heartbeat); d.renewAt.Before(soon) {
		d.renewAt = soon
	}
	return d.renewAt
}

// Renew returns the confirming member that is to be asked again now, if any.
func (d *Detector) Renew(now time.Time) (voucher election.ID, due bool) {
	if d.renewAt.IsZero() || now.Before(d.renewAt) {
		return "", false
	}
	d.renewAt = time.Time{}
	return d.voucher, !d.suspected && d.sparedTo.After(d.borneTo())
}

// RenewAt returns when the confirming member is to be asked again; zero: not.
func (d *Detector) RenewAt() time.Time { return d.renewAt }
