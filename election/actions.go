package election

import "time"

// Actions is what an [Algorithm] may see and do during one Step.
type Actions struct{ m *Machine }

// Self is this member.
func (a *Actions) Self() Rank { return Rank{} }

// Members are all members, this one included, lowest rank first. Read only.
func (a *Actions) Members() []Rank { return nil }

// Stands reports whether a member may be elected as far as is known: it is not
// down and has not stepped aside. For this member: whether it may claim.
func (a *Actions) Stands(id ID) bool { return false }

// Down reports whether a member counts as down.
func (a *Actions) Down(id ID) bool { return false }

// Leader is the current leadership, zero while it is undefined.
func (a *Actions) Leader() Token { return Token{} }

// Highest is the highest epoch this member knows of.
func (a *Actions) Highest() uint64 { return 0 }

// Timing is the configured timing, defaults filled in.
func (a *Actions) Timing() Timing { return Timing{} }

// Send sends msg to a member. The Machine fills in From, To, Election, Highest
// and Aside.
func (a *Actions) Send(to ID, msg Message) {}

// SetTimer arms the named timer to fire after d, replacing its earlier setting.
func (a *Actions) SetTimer(name string, d time.Duration) {}

// CancelTimer disarms the named timer, if it is armed.
func (a *Actions) CancelTimer(name string) {}

// Claim makes this member the leader, under an epoch above the highest it knows.
// Once the epoch is saved the Algorithm gets Settled and announces it. A claim
// is ignored while this member does not stand or still asks for the highest epoch.
func (a *Actions) Claim() {}

// Accept takes the leadership that from announced, if its token is good: higher
// than the one held, or equal and not known to have ended. A sender with a lower
// one is told so. Once saved, the Algorithm gets Settled.
func (a *Actions) Accept(t Token, from ID) {}

// Note adds a line to the trace: what was done, about whom, and why.
func (a *Actions) Note(what string, peer ID, why string) {}
