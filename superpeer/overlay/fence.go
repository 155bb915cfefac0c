package overlay

import "github.com/batuta-dev/batuta/superpeer"

// fence knows the versions of tokens. They rise by one with each move, and by up to eight a
// round while a registrar looks for somebody to take a token: what rises faster has been made
// up, and would in the end leave no version for an honest holder. What is refused now is let
// through some rounds later: nobody is shut out for good.
type fence map[int32]stamp

// stamp is a token's version, and the highest that it can have come to by a round.
type stamp struct {
	version uint32
	limit   uint32
	round   superpeer.Round
}

// A version may rise by firstLeap at once and by leap for each round that passes, at every node
// alike: what one lets through the others do.
const (
	firstLeap = 64
	leap      = 16
)

func fenced(k superpeer.Kind) bool {
	switch k {
	case superpeer.Keep, superpeer.Grant, superpeer.Confirm, superpeer.Transfer, superpeer.Moved, superpeer.Accept:
		return true
	}
	return false
}

func (f fence) allow(token int32, version uint32, now superpeer.Round) bool {
	last, ok := f[token]
	if !ok {
		last = stamp{version, version + firstLeap, now}
	}
	last.limit += leap * uint32(max(0, now-last.round))
	last.round = now
	possible := version <= last.limit
	if possible {
		last.version = max(last.version, version)
	}
	f[token] = last
	return possible
}

func (f fence) expire(tokens int) {
	for t := range f {
		if int(t) >= 4*tokens+64 {
			delete(f, t)
		}
	}
}

// A liar could otherwise depose all holders, or make all super peers. What only a token's
// registrar says is believed of nobody else, as this node's list has it; and nobody speaks as the
// holder of two tokens.
func (d *driver) credible(m *superpeer.Message) error {
	switch m.Kind {
	case superpeer.Grant, superpeer.Drop, superpeer.Kept, superpeer.Confirm, superpeer.Summon, superpeer.Here:
		if owner, ok := d.ring.Owner(d.cfg.TokenKey(m.Token, d.size)); !ok || owner != m.From {
			return errBad{"its sender is not the token's registrar"}
		}
	case superpeer.Keep, superpeer.Move, superpeer.Moved:
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
	at    superpeer.Round
}

// allow tells whether holder may speak for token: it may have come to another, but is silent on
// its last for minTellGap rounds then.
func (c claims) allow(holder uid, token int32, now superpeer.Round) bool {
	if last, ok := c[holder]; ok && last.token != token && now-last.at < minTellGap {
		return false
	}
	c[holder] = claim{token, now}
	return true
}

func (c claims) expire(now superpeer.Round) {
	for u, last := range c {
		if now-last.at >= minTellGap {
			delete(c, u)
		}
	}
}
