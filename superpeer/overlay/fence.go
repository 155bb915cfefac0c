package overlay

import "github.com/batuta-dev/batuta/superpeer"

// fence knows the versions of tokens. They rise by one with each move, and by up to eight a
// round while a registrar looks for somebody to take a token: what rises faster has been made
// up, and would in the end leave no version for an honest holder. What is refused now is let
// through some rounds later: nobody is shut out for good.
type fence map[int32]stamp

// stamp is a token's version, and what it was when the round began in which it last rose.
type stamp struct {
	version uint32
	limit   uint32 // in that round
	round   superpeer.Round
}

// A version may rise by firstLeap in a round, and by leap for each round since it last rose.
const (
	firstLeap = 64
	leap      = 16
)

func fenced(k superpeer.Kind) bool {
	switch k {
	case superpeer.Keep, superpeer.Grant, superpeer.Confirm, superpeer.Transfer, superpeer.Drop, superpeer.Moved, superpeer.Accept:
		return true
	}
	return false
}

func (f fence) allow(token int32, version uint32, now superpeer.Round) bool {
	last, ok := f[token]
	switch {
	case !ok:
		last = stamp{limit: version + firstLeap}
	case version <= last.version:
		return true // the protocol knows what is old
	case now > last.round:
		last.limit = last.version + firstLeap + leap*uint32(now-last.round)
	}
	if ok && version > last.limit {
		return false
	}
	f[token] = stamp{version, last.limit, now}
	return true
}

func (f fence) expire(tokens int) {
	for t := range f {
		if int(t) >= 4*tokens+64 {
			delete(f, t)
		}
	}
}
