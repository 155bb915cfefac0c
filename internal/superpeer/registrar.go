package superpeer

import "slices"

// A registrar keeps a token's record: its holder and its version. It is the node that the router
// makes responsible for the token's key, so every node finds it. If it fails a new registrar takes
// its place. That learns the record from the holder's next renewal or, if no renewal arrives,
// grants the token again. Registrars make the number of tokens exact: token t lives if and only if
// t < ⌈ρ·n⌉. A lost token is granted again, a duplicate is dropped by version.

const (
	keepEvery    Round = 2 // a holder renews at its registrar
	keepLease    Round = 4 // silence after which a registrar grants the token again
	grantWait    Round = 1 // for the answer to a grant
	maxHeirs           = 3 // clients that could take over a lost token
	registrarGap Round = 8 // how often a registrar of an unneeded token checks whether it is needed
)

// charge is a registrar's record of a token.
type charge struct {
	token     int32
	version   uint32
	holder    Peer // None: not known, or granted and not confirmed
	nominated Peer // asked to take it
	until     Round
	tries     int32
	heirs     []Peer
}

// registrar is a node's task of keeping records. It sends grants and answers, and cannot access a
// token that the node holds.
type registrar struct{ charges []charge }

// add begins a record. The holder, if there is any, has keepLease rounds to renew it.
func (r *registrar) add(now Round, token int32) {
	if r.charge(token) == nil {
		r.charges = append(r.charges, charge{token: token, holder: None, nominated: None, until: now + keepLease})
	}
}

func (r *registrar) remove(token int32) {
	r.charges = slices.DeleteFunc(r.charges, func(c charge) bool { return c.token == token })
}

func (r *registrar) stalled(rounds Round) {
	for i := range r.charges {
		r.charges[i].until += rounds
	}
}

// deadline returns the round in which to call wake next.
func (r *registrar) deadline() Round {
	d := never
	for i := range r.charges {
		d = min(d, r.charges[i].until)
	}
	return d
}

func (r *registrar) charge(token int32) *charge {
	for i := range r.charges {
		if r.charges[i].token == token {
			return &r.charges[i]
		}
	}
	return nil
}

func (r *registrar) wake(s *self, now Round, out *Actions) {
	for i := range r.charges {
		c := &r.charges[i]
		if now < c.until {
			continue
		}
		if !s.wanted(c.token) {
			c.until = now + registrarGap
			continue
		}
		c.holder = None
		r.grant(s, now, c, out)
	}
}

// grant asks a node to take a token that has no holder: an heir of the last holder, else a random
// node. With the prefix methods it asks the registrar itself, else the nodes after it.
func (r *registrar) grant(s *self, now Round, c *charge, out *Actions) {
	to, ok := r.nominee(s, c)
	if !ok {
		c.until = now + grantWait
		return
	}
	c.version++
	c.nominated, c.until = to, now+grantWait
	out.send(Message{Kind: Grant, From: s.peer, To: to, Token: c.token, Version: c.version})
}

func (r *registrar) nominee(s *self, c *charge) (Peer, bool) {
	c.tries++
	if s.cfg.Method.ranged() {
		if c.tries == 1 {
			return s.peer, true
		}
		return s.cfg.Router.Owner(s.key + 1 + uint64(c.tries-2)<<44)
	}
	if len(c.heirs) > 0 {
		heir := c.heirs[0]
		c.heirs = c.heirs[1:]
		return heir, true
	}
	if p, ok := s.cfg.Router.(Picker); ok {
		return p.Pick(s.rng.Next())
	}
	return s.cfg.Router.Owner(s.rng.Next())
}

// maxNominees is how many nodes a registrar asks to take a token in a single round.
const maxNominees = 8

// declined asks the next node, usually at once.
func (r *registrar) declined(s *self, now Round, m *Message, out *Actions) {
	c := r.charge(m.Token)
	if c == nil || c.nominated != m.From || c.version != m.Version {
		return
	}
	if c.tries%maxNominees == 0 {
		c.nominated, c.until = None, now+grantWait
		return
	}
	r.grant(s, now, c, out)
}

// kept records a holder's renewal. The record follows a newer version. An older version, or a
// second holder with the same version, is a duplicate. A node is idle if it has no token and
// expects none.
func (r *registrar) kept(s *self, now Round, m *Message, idle bool, out *Actions) {
	c := r.charge(m.Token)
	if c == nil {
		return // this node's view of the ring is not the holder's; it will ask again
	}
	known := c.holder
	if known == None {
		known = c.nominated
	}
	late := m.Version < c.version || m.Version == c.version && known != None && known != m.From
	if late || !s.wanted(m.Token) {
		out.send(Message{Kind: Drop, From: s.peer, To: m.From, Token: m.Token, Version: max(c.version, m.Version), Peer: c.holder})
		return
	}
	c.version, c.holder, c.nominated, c.tries = m.Version, m.From, None, 0
	c.heirs, c.until = m.Peers, now+keepLease
	out.send(Message{Kind: Kept, From: s.peer, To: m.From, Token: m.Token, Version: m.Version})
	if s.cfg.Method.ranged() && m.From != s.peer && idle {
		// The range is this node's; the present holder stays until it has handed over.
		out.send(Message{Kind: Summon, From: s.peer, To: m.From, Token: m.Token, Version: m.Version})
	}
}

// recordMove records the next holder, the first half of phase two. The record decides which node
// holds the token.
func (r *registrar) recordMove(s *self, now Round, m *Message, out *Actions) {
	c := r.charge(m.Token)
	if c == nil || c.holder != m.From || c.version != m.Version || !s.wanted(m.Token) {
		return
	}
	c.version++
	c.holder, c.until = m.Peer, now+keepLease
	c.heirs = append([]Peer{m.From}, c.heirs...)
	out.send(Message{Kind: Confirm, From: s.peer, To: m.From, Token: m.Token, Version: c.version, Peer: m.Peer})
}

func (r *registrar) asked(s *self, m *Message, out *Actions) {
	c := r.charge(m.Token)
	if c == nil || c.holder == None {
		return
	}
	out.send(Message{Kind: Here, From: s.peer, To: m.From, Token: m.Token, Version: c.version, Peer: c.holder})
}
