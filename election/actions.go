package election

import "time"

// Actions is what an [Algorithm] may see and do during one Step.
type Actions struct{ m *Machine }

// Self is this member.
func (a *Actions) Self() Rank { return a.m.cfg.Self }

// Members are all members, this one included, lowest rank first. Read only.
func (a *Actions) Members() []Rank { return a.m.ranks }

// Rank is a member's rank; the zero Rank for a stranger.
func (a *Actions) Rank(id ID) Rank {
	if i, ok := a.m.index[id]; ok {
		return a.m.ranks[i]
	}
	return Rank{}
}

// Stands reports whether a member may be elected as far as is known: it is not
// down and has not stepped aside. For this member: whether it may claim.
func (a *Actions) Stands(id ID) bool {
	i, ok := a.m.index[id]
	switch {
	case !ok:
		return false
	case i == a.m.me:
		return a.m.aside() == Stands
	}
	return a.m.standsFor(&a.m.members[i])
}

// Down reports whether a member counts as down.
func (a *Actions) Down(id ID) bool {
	i, ok := a.m.index[id]
	return !ok || a.m.members[i].down
}

// Leader is the current leadership, zero while it is undefined.
func (a *Actions) Leader() Token { return a.m.View() }

// Highest is the highest epoch this member knows of.
func (a *Actions) Highest() uint64 { return a.m.highest }

// Timing is the configured timing, defaults filled in.
func (a *Actions) Timing() Timing { return a.m.cfg.Timing }

// Send sends msg to another member. The Machine fills in From, To, Election,
// Highest and Aside. What goes to a stranger or to this member is dropped.
func (a *Actions) Send(to ID, msg Message) {
	if i, ok := a.m.index[to]; ok && i != a.m.me {
		a.m.send(i, msg)
	}
}

// SetTimer arms the named timer to fire after d, replacing its earlier setting.
func (a *Actions) SetTimer(name string, d time.Duration) { a.m.set(name, d) }

// CancelTimer disarms the named timer, if it is armed.
func (a *Actions) CancelTimer(name string) { a.m.cancel(name) }

// Claim makes this member the leader, under an epoch above the highest it knows.
// Once the epoch is saved the Algorithm gets Settled and announces it. A claim
// is ignored while this member does not stand, still asks for the highest
// epoch, already saves a leadership, or its detector finds a leader alive.
func (a *Actions) Claim() { a.m.claim("it won the contest") }

// Accept takes the leadership t that a message from from announces, if its token
// is good: higher than the one held, or equal and not known to have ended. A
// sender with a lower one is told so. Once saved, the Algorithm gets Settled.
func (a *Actions) Accept(t Token, from ID) {
	if i, ok := a.m.index[from]; ok && i != a.m.me {
		a.m.accept(t, i)
	}
}

// Vouch tells a member that calls an election which leadership this one follows
// and how long ago it heard that leader. It does nothing without a detector.
func (a *Actions) Vouch(to ID) {
	if !a.m.cfg.NoDetector && a.m.live() {
		a.m.report(to)
	}
}

// Inquire asks everyone what leadership they know, because a contest has come to
// nothing. Nothing is claimed until the answers are in, for T at most. The Algorithm
// gets Started when nobody knows any: before Inquire returns if nobody can be asked.
func (a *Actions) Inquire() { a.m.inquire("the contest has come to nothing") }

// Watch has the detector watch one more member beside the leader, such as the
// successor in a ring; None watches nobody. Its end is told as PeerDown within a
// round trip of a crash, or T of silence.
func (a *Actions) Watch(id ID) { a.m.watchToo(id) }

// Note adds a line to the trace: what was done, about whom, and why.
func (a *Actions) Note(what string, peer ID, why string) {
	a.m.note(what, peer, Token{}, why)
}
