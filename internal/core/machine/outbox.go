package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps what has been sent to a member until it is taken to have come, and resends it
// when the connection ends before that: message delivery is reliable (docs/sources.md, "Epochs").
// Everything in it is dropped where it is late, or comes twice.
//
// To the member that the algorithm watches, the algorithm's messages are kept until an answer to
// something later proves that they have come: what a ring has lost would be missed for a whole turn
// of its slowest. Of all else the newest is kept, until that member is received.

// mostUnconfirmed bounds what is kept for a member; the oldest is dropped.
const mostUnconfirmed = 8

// outbox is what went to a member, heartbeats and the like apart.
type outbox struct {
	used        time.Time // when the last of it went
	comes       time.Time // when that will have come, at the latest
	pending     time.Time // when the first went since which the member was not received; zero: it was
	unconfirmed []sent    // until it shows that it has come; never changed, but replaced
}

// sent is a message that may not have come.
type sent struct {
	msg         *election.Message
	first, last time.Time // when it left: at first, and over the newest connection
	proof       bool      // it is kept until there is proof
	lost        bool      // it went with a dial that failed
}

// sends takes note of a message that leaves now, comes at the latest then, and first left at first;
// proof: it is kept until there is proof.
func (b *outbox) sends(msg *election.Message, first, now, comes time.Time, proof bool) {
	b.used, b.comes = now, comes
	if b.pending.IsZero() {
		b.pending = now
	}
	b.keep(needsProof)
	b.unconfirmed = append(b.unconfirmed, sent{msg: msg, first: first, last: now, proof: proof})
	if excess := len(b.unconfirmed) - mostUnconfirmed; excess > 0 {
		b.unconfirmed = b.unconfirmed[excess:]
	}
}

// which gives those. Copies of a Machine share the list: it is never changed.
func (b *outbox) which(those func(sent) bool) (list []sent) {
	for _, s := range b.unconfirmed {
		if those(s) {
			list = append(list, s)
		}
	}
	return list
}

// keep forgets all but those.
func (b *outbox) keep(those func(sent) bool) { b.unconfirmed = b.which(those) }

// heardAnything takes note that a member lives.
func (b *outbox) heardAnything() {
	b.pending = time.Time{}
	b.keep(needsProof)
}

// confirms takes note of an answer to what left at asked: all that left before that has come.
func (b *outbox) confirms(asked time.Time) {
	b.keep(func(s sent) bool { return !s.last.Before(asked) })
}

// dialLost takes note that a dial has failed, and all that went with it. What needs proof is kept for
// no longer than within.
func (b *outbox) dialLost(now time.Time, within time.Duration) {
	b.keep(func(s sent) bool { return !s.lost || s.proof && now.Sub(s.first) <= within })
	b.loses(func(sent) bool { return true })
}

// loses records that those are lost, until they are resent.
func (b *outbox) loses(those func(sent) bool) {
	b.unconfirmed = slices.Clone(b.unconfirmed)
	for i, s := range b.unconfirmed {
		b.unconfirmed[i].lost = s.lost || those(s)
	}
}

func isLost(s sent) bool { return s.lost }

func needsProof(s sent) bool { return s.proof }

func isQuestion(s sent) bool { return s.msg.Kind == election.Probe }

// asked reports whether something of this member's own was lost with a dial that has failed: a dial
// made as a relay is not its concern.
func (b *outbox) asked(self election.ID) bool {
	return slices.ContainsFunc(b.unconfirmed, func(s sent) bool {
		return s.lost && !s.proof && (s.msg.Kind != election.Relay || s.msg.Carried.From == self)
	})
}
