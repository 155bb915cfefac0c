// Package outbox keeps what has been sent to a member until it is taken to have come. Its owner
// resends it when the connection ends before that: message delivery is reliable (docs/sources.md,
// "Epochs"). Everything in it is dropped where it is late, or comes twice.
//
// To the member that the algorithm watches, the algorithm's messages are kept until an answer to
// something later proves that they have come: what a ring has lost would be missed for a whole turn
// of its slowest. Otherwise the newest of the algorithm's messages is kept, and the newest of all others,
// until that member is received.
//
// It is a part of the best-effort core. It has no clock and sends nothing.
package outbox

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// mostUnconfirmed bounds what is kept for a member; the oldest is dropped.
const mostUnconfirmed = 8

// Outbox is what went to a member, heartbeats and the like apart.
type Outbox struct {
	Used        time.Time // when the last of it went
	Comes       time.Time // when that will have come, at the latest
	Pending     time.Time // when the first went since which the member was not received; zero: it was
	Unconfirmed []Sent    // until it shows that it has come; never changed, but replaced
}

// Sent is a message that may not have come.
type Sent struct {
	Message     *election.Message
	First, Last time.Time // when it left: at first, and over the newest connection
	Lost        bool      // it went with a dial that failed
	contest     bool      // it is the algorithm's
	proof       bool      // it is kept until there is proof
}

// Sends takes note of a message that leaves now, comes at the latest then, and first left at first;
// contest: it is the algorithm's; watched: it goes to the member that the algorithm watches.
func (b *Outbox) Sends(msg *election.Message, first, now, comes time.Time, contest, watched bool) {
	b.Used, b.Comes = now, comes
	if b.Pending.IsZero() {
		b.Pending = now
	}
	b.Keep(func(s Sent) bool { return s.proof || s.contest != contest })
	b.Unconfirmed = append(b.Unconfirmed, Sent{Message: msg, First: first, Last: now, contest: contest, proof: contest && watched})
	if excess := len(b.Unconfirmed) - mostUnconfirmed; excess > 0 {
		b.Unconfirmed = b.Unconfirmed[excess:]
	}
}

// Which gives those. Copies of a Machine share the list: it is never changed.
func (b *Outbox) Which(those func(Sent) bool) (list []Sent) {
	for _, s := range b.Unconfirmed {
		if those(s) {
			list = append(list, s)
		}
	}
	return list
}

// Keep forgets all but those.
func (b *Outbox) Keep(those func(Sent) bool) { b.Unconfirmed = b.Which(those) }

// Received takes note that a member lives.
func (b *Outbox) Received() {
	b.Pending = time.Time{}
	b.Keep(NeedsProof)
}

// Confirms takes note of an answer to what left at asked: all that left before that has come.
func (b *Outbox) Confirms(asked time.Time) {
	b.Keep(func(s Sent) bool { return !s.Last.Before(asked) })
}

// DialLost takes note that a dial has failed, and all that went with it. What needs proof is kept for
// no longer than within.
func (b *Outbox) DialLost(now time.Time, within time.Duration) {
	b.Keep(func(s Sent) bool { return !s.Lost || s.proof && now.Sub(s.First) <= within })
	b.Loses(func(Sent) bool { return true })
}

// Loses records that those are lost, until they are resent.
func (b *Outbox) Loses(those func(Sent) bool) {
	b.Unconfirmed = slices.Clone(b.Unconfirmed)
	for i, s := range b.Unconfirmed {
		b.Unconfirmed[i].Lost = s.Lost || those(s)
	}
}

// IsLost is for [Outbox.Which]: it went with a dial that failed.
func IsLost(s Sent) bool { return s.Lost }

// NeedsProof is for [Outbox.Which]: it is kept until there is proof.
func NeedsProof(s Sent) bool { return s.proof }

// IsQuestion reports whether a leader is asked for.
func IsQuestion(s Sent) bool { return s.Message.Kind == election.Probe }

// Asked reports whether something of this member's own was lost with a dial that has failed: a dial
// made as a relay is not its concern.
func (b *Outbox) Asked(self election.ID) bool {
	return slices.ContainsFunc(b.Unconfirmed, func(s Sent) bool {
		return s.Lost && !s.proof && (s.Message.Kind != election.Relay || s.Message.Carried.From == self)
	})
}
