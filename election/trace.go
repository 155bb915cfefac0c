package election

import "time"

// Record is one line of the trace: what a Machine did and why. Drivers log it,
// the simulator prints and draws it.
type Record struct {
	At       time.Time
	Member   ID
	Election string
	What     string // "suspects", "asks", "claims", "leads", "follows", "loses", "sends", "receives", …
	Peer     ID
	Token    Token
	Message  *Message // of "sends" and "receives"
	Why      string
}

func (m *Machine) trace(r Record) {
	if m.cfg.Trace == nil {
		return
	}
	r.At, r.Member, r.Election = m.now, m.cfg.Self.ID, m.cfg.Election
	m.cfg.Trace(r)
}

func (m *Machine) note(what string, peer ID, t Token, why string) {
	m.trace(Record{What: what, Peer: peer, Token: t, Why: why})
}
