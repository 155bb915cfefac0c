package quorum

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// The log records where each member listens, and only a leader can change it. When members move
// while none leads, a member also uses the claim of a process that presents a member's number and
// disk and listens elsewhere. That address is only dialed, in turn with the address of the log. The
// dial itself shows which member answers.

// moved reports whether a process that asks to join is a member by its number and its disk. If no
// card has shown the member's disk yet, the number is enough.
func (c *Core) moved(e election.Member) bool {
	s := c.roster.of(e.ID)
	if s == nil || s.Number != e.Number {
		return false
	}
	disk := c.diskOf(s.Number)
	return disk == 0 || disk == e.Disk
}

// sight records an address, besides that of the log, at which a member may listen.
func (c *Core) sight(id election.ID, number uint64, address string) {
	p := c.peer(id)
	if p == nil || p.guest || p.number != number || address == "" || !election.Printable(address, election.MaxAddress) {
		return
	}
	p.elsewhere, p.detour = "", false
	if address == p.address {
		return
	}
	p.elsewhere, p.detour = address, true
	c.note("may have moved", id, election.Token{}, address)
	c.dial(p)
}

// dialedAt returns the address at which to dial a member next; empty: the driver has it.
func (p *peer) dialedAt() string {
	switch {
	case p.elsewhere != "" && p.detour:
		p.strayed = true
		return p.elsewhere
	case p.elsewhere != "", p.strayed:
		p.strayed = false
		return p.address
	}
	return ""
}

// settleAddress asks the leader to correct this member's address in the log if it differs from
// where this member listens.
func (c *Core) settleAddress() {
	s := c.roster.of(c.cfg.Self.ID)
	if s == nil || !c.view.Defined() || c.cfg.Address == "" || s.Address == c.cfg.Address || slices.ContainsFunc(c.wanted, func(w wish) bool { return w.ID == c.cfg.Self.ID }) {
		return
	}
	// A configured list with a different address names a route that this process does not see, such
	// as a translated address.
	if slices.ContainsFunc(c.cfg.Members, func(m election.Member) bool { return m.ID == c.cfg.Self.ID && m.Address != c.cfg.Address }) {
		return
	}
	c.wish(change{ID: c.cfg.Self.ID, Address: c.cfg.Address})
}

// configured takes over addresses of the configured list, which may be newer than the log's.
func (c *Core) configured() {
	for _, m := range c.cfg.Members {
		if p := c.peer(m.ID); p != nil && m.Address != p.address {
			p.elsewhere = m.Address
		}
	}
}

// listens returns where a member of the roster listens, as far as this member knows.
func (c *Core) listens(s *seat) string {
	if s.ID == c.cfg.Self.ID && c.cfg.Address != "" {
		return c.cfg.Address
	}
	if p := c.peer(s.ID); p != nil && p.elsewhere != "" && !c.view.Defined() {
		return p.elsewhere
	}
	return s.Address
}
