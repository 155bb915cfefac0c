// Package tenure keeps the leadership that holds for a member, the member's own or that of the
// leader which it follows: which it is, which is being saved in its place, when and why the
// last one ended, and the phase in which the member is. It is a part of the best-effort core.
//
// It decides nothing and sends nothing: its owner weighs what arrives, saves, and reports each
// step of a leadership to it. The leadership held never goes down as long as the owner
// saves only higher ones.
package tenure

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Tenure is the leadership that holds for a member. It is not safe for concurrent use. A copy
// that is to be independent is made with Clone.
type Tenure struct {
	self  election.ID
	phase Phase
	trail []Phase // that the last step has gone through, the first of them from before it

	held    election.Token // the last leadership announced to the driver
	ended   election.Cause // why it is over; "" while it lasts
	certain bool           // its end is known, not suspected: it is never taken back
	begunAt time.Time      // when this member began to lead or to follow
	base    uint64         // the epoch under which it began; a renewal raises that of held
	size    int            // of its side, as its leader has sent it last; 0: not known
	young   bool           // that is how many may come to follow it

	next      election.Token // the leadership being saved; zero when none is
	nextBase  uint64         // the epoch under which that began
	claimedAt time.Time      // when this member's last claim began
	above     election.Token // the leadership that ended this member's last

	announcedEnd election.Token // the last that its leader has announced to be over while this member did not follow it
	announcedAt  time.Time      // when that was
}

// New takes up what the disk has. Whether that leadership still lasts is unknown, unless it was
// this member's own: a process does not outlive itself.
func New(self election.ID, saved election.Token) Tenure {
	return Tenure{self: self, held: saved, ended: election.CauseStopped, certain: saved.Leader.ID == self}
}

// Clone is an independent copy.
func (t *Tenure) Clone() Tenure {
	c := *t
	c.trail = slices.Clone(t.trail)
	return c
}

// Held is the highest leadership that was announced to the driver, ended or not.
func (t *Tenure) Held() election.Token { return t.held }

// View is that leadership, zero when it has ended.
func (t *Tenure) View() election.Token {
	if t.Live() {
		return t.held
	}
	return election.Token{}
}

// LedBy reports whether id leads at present.
func (t *Tenure) LedBy(id election.ID) bool { return t.Live() && t.held.Leader.ID == id }

// Next is the leadership that is being saved, zero without one.
func (t *Tenure) Next() election.Token { return t.next }

// Mine reports whether a leadership is this member's own.
func (t *Tenure) Mine(of election.Token) bool { return of.Leader.ID == t.self }

// Ended is why the leadership held is over, "" while it lasts.
func (t *Tenure) Ended() election.Cause { return t.ended }

// Certain reports whether that is known, not suspected.
func (t *Tenure) Certain() bool { return t.certain }

// Over reports whether it is known to be over.
func (t *Tenure) Over() bool { return t.ended != "" && t.certain }

// EndIsCertain takes note that it is known by now that the leadership held is over.
func (t *Tenure) EndIsCertain() { t.certain = true }

// Base is the epoch under which the leadership held began.
func (t *Tenure) Base() uint64 { return t.base }

// BegunAt is when it began here.
func (t *Tenure) BegunAt() time.Time { return t.begunAt }

// Lasted reports whether it makes those members candidates again, when it ends, that resigned
// before it. A shorter leadership does not: a ring's round may elect a member for a moment.
func (t *Tenure) Lasted(now time.Time, timing election.Timing) bool {
	return now.Sub(t.begunAt) >= 2*timing.T()
}

// LearnSide notes how many members follow it, as its leader sends that.
func (t *Tenure) LearnSide(size int, young bool) { t.size, t.young = size, young }

// Side is what was learned so.
func (t *Tenure) Side() (size int, young bool) { return t.size, t.young }

// Continues reports whether msg shows the leadership that this member follows, under a higher
// epoch.
func (t *Tenure) Continues(msg *election.Message) bool {
	return t.phase == PhaseFollowing && msg.Token.Leader.ID == t.held.Leader.ID && msg.Token.Above(t.held) && msg.Renews > 0 && msg.Renews <= t.held.Epoch
}

// Save begins a leadership that began under the epoch base: it holds as soon as it is on disk.
func (t *Tenure) Save(next election.Token, base uint64) { t.next, t.nextBase = next, base }

// Claim is Save for a leadership that this member claims now.
func (t *Tenure) Claim(next election.Token, now time.Time) {
	t.Save(next, next.Epoch)
	t.claimedAt = now
}

// ClaimedAt is when this member last claimed.
func (t *Tenure) ClaimedAt() time.Time { return t.claimedAt }

// Drop gives up the leadership that is being saved.
func (t *Tenure) Drop() { t.next = election.Token{} }

// Install has the leadership hold that is on disk now.
func (t *Tenure) Install(now time.Time) {
	t.held, t.next, t.ended, t.certain, t.begunAt = t.next, election.Token{}, "", false, now
	t.base, t.size, t.young = t.nextBase, 0, false
	if t.Mine(t.held) {
		t.Enter(PhaseLeading)
	} else {
		t.Enter(PhaseFollowing)
	}
}

// Renew has the present leadership go on under the epoch that is on disk now.
func (t *Tenure) Renew() { t.held, t.next = t.next, election.Token{} }

// End ends the present leadership, and the renewal that is being saved, if there is one.
func (t *Tenure) End(phase Phase, why election.Cause, certain bool) {
	t.ended, t.certain, t.next = why, certain, election.Token{}
	t.Enter(phase)
}

// Supersede notes which leadership ended this member's own.
func (t *Tenure) Supersede(above election.Token) { t.above = above }

// Superseding reports whether the leadership held is that.
func (t *Tenure) Superseding() bool { return t.held == t.above }

// Announced notes that a leader has announced the end of a leadership which this member did
// not follow: the rest may not have received that yet.
func (t *Tenure) Announced(end election.Token, now time.Time) {
	if !t.announcedEnd.Above(end) {
		t.announcedEnd, t.announcedAt = end, now
	}
}

// Past reports whether a leader has announced the end of that leadership. If the leader itself
// announces, later than what it sent before may arrive, that it leads, it does: it had been
// stopped, or it was a former process with its id that ended.
func (t *Tenure) Past(of election.Token, itself bool, now time.Time, within time.Duration) bool {
	return of == t.announcedEnd && (!itself || now.Sub(t.announcedAt) <= within)
}
