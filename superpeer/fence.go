package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// fence knows the versions of tokens. They rise by one with each move, and by up to eight a
// round while a registrar looks for somebody to take a token: what rises faster has been made
// up, and would in the end leave no version for an honest holder. What is refused now is let
// through some rounds later: nobody is shut out for good.
//
// Of a token that is new to a node the first version told is believed, and a liar may have told
// it. So for some rounds one that is lower by far is believed in its place.
type fence map[int32]stamp

// stamp is a token's version, and the highest that it can have come to by a round.
type stamp struct {
	version uint32
	limit   uint64
	round   rules.Round
	first   rules.Round // when the token was first spoken of
}

// A version may rise by firstLeap at once and by leap for each round that passes, at every node
// alike: what one lets through the others do. Versions that differ by absurd are not both true.
const (
	firstLeap = 64
	leap      = 16
	absurd    = 1 << 12
)

func fenced(k rules.Kind) bool {
	switch k {
	case rules.Keep, rules.Grant, rules.Confirm, rules.Transfer, rules.Moved, rules.Accept:
		return true
	}
	return false
}

// allow tells whether token may have come to version. Nothing is learned of tokens that are
// not wanted: who is not needed now may be tomorrow, and begins at its first version. fooled
// says that what was believed of token so far was not true.
func (f fence) allow(token int32, version uint32, now rules.Round, tokens int) (possible, fooled bool) {
	if int(token) >= tokens {
		return true, false
	}
	last, ok := f[token]
	if !ok {
		last = stamp{version, uint64(version) + firstLeap, now, now}
	}
	last.limit += leap * uint64(max(0, now-last.round))
	last.round = now
	if now-last.first <= hearsay(tokens) && uint64(last.version) > uint64(version)+absurd {
		last.version, last.limit, fooled = version, uint64(version)+firstLeap, true
	}
	possible = uint64(version) <= last.limit
	if possible {
		last.version = max(last.version, version)
	}
	f[token] = last
	return possible, fooled
}

// hearsay is how many rounds it takes at most to hear of a token from its holder.
func hearsay(tokens int) rules.Round { return 3 * tellGap(tokens) }

func (f fence) expire(tokens int) {
	for t := range f {
		if int(t) >= tokens {
			delete(f, t)
		}
	}
}

// A liar could otherwise depose all holders, or make all super peers. What only a token's
// registrar says is believed of nobody else, as this node's list has it; and nobody speaks as the
// holder of two tokens.
func (d *driver) credible(m *rules.Message) error {
	switch m.Kind {
	case rules.Grant, rules.Drop, rules.Kept, rules.Confirm, rules.Summon, rules.Here:
		if owner, ok := d.ring.Owner(d.cfg.TokenKey(m.Token, d.size)); !ok || owner != m.From {
			return errBad{"its sender is not the token's registrar"}
		}
	case rules.Keep, rules.Move, rules.Moved:
		if !d.claims.allow(uid(m.Key), m.Token, d.round) {
			return errBad{"its sender holds another token"}
		}
	}
	return nil
}

// claims are the tokens that nodes have spoken of as their own.
type claims map[uid]claim

type claim struct {
	token int32
	at    rules.Round
}

// allow tells whether holder may speak for token: it may have come to another, but is silent on
// its last for minTellGap rounds then.
func (c claims) allow(holder uid, token int32, now rules.Round) bool {
	if last, ok := c[holder]; ok && last.token != token && now-last.at < minTellGap {
		return false
	}
	c[holder] = claim{token, now}
	return true
}

func (c claims) expire(now rules.Round) {
	for u, last := range c {
		if now-last.at >= minTellGap {
			delete(c, u)
		}
	}
}

// allow is the fence's. A record that rests on what was not true is begun anew: its holder
// will show itself.
func (d *driver) allow(token int32, version uint32) bool {
	possible, fooled := d.fence.allow(token, version, d.round, d.cfg.Count(d.size))
	if fooled {
		d.m.book.doubt(token)
	}
	if fooled && d.charged[token] {
		d.node.Relieved(token)
		delete(d.charged, token)
		d.charge(token)
	}
	return possible
}
