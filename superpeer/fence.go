package superpeer

import (
	"maps"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// fence limits the versions of tokens. They rise by one with each move, and by up to eight a round
// while a registrar looks for a holder. A version that rises faster is forged, and would in the end
// leave no version for an honest holder. What is refused now is accepted some rounds later, so that
// no node is locked out permanently.
//
// For a token that is new to a node the first version is accepted, even if a malicious node sent
// it. So for some rounds a version that is far lower replaces it.
type fence map[int32]stamp

// stamp is a token's version, and the highest that it can have reached by a round.
type stamp struct {
	version uint32
	limit   uint64
	round   rules.Round
	first   rules.Round // when the token was first mentioned
}

// A version may rise by firstLeap at once and by leap for each round that passes, at every node
// alike: all nodes accept the same versions. If versions differ by absurd, one is false.
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

// allow reports whether token may have reached version. It records nothing about tokens that are
// not needed: a token may be needed later, and then begins at its first version. fooled reports
// that the recorded version was false.
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

// hearsay returns the most rounds until a token's holder has announced it.
func hearsay(tokens int) rules.Round { return 3 * tellGap(tokens) }

func (f fence) expire(tokens int) {
	maps.DeleteFunc(f, func(t int32, _ stamp) bool { return int(t) >= tokens })
}

// claims are the tokens that nodes have claimed as their own.
type claims map[uid]claim

type claim struct {
	token int32
	at    rules.Round
}

// allow reports whether holder may act for token. A holder may get a new token, but is then silent
// on its last for minTellGap rounds.
func (c claims) allow(holder uid, token int32, now rules.Round) bool {
	if last, ok := c[holder]; ok && last.token != token && now-last.at < minTellGap {
		return false
	}
	c[holder] = claim{token, now}
	return true
}

func (c claims) expire(now rules.Round) {
	maps.DeleteFunc(c, func(_ uid, last claim) bool { return now-last.at >= minTellGap })
}
