package overlay

import "github.com/batuta-dev/batuta/superpeer"

// fence knows the versions of tokens. They rise by one with each move: what rises faster
// has been made up, and would in the end leave no version for an honest holder.
type fence map[int32]stamp

type stamp struct {
	version uint32
	round   superpeer.Round
}

// maxLeap is by how much a version may rise at once, beside one for each round since.
const maxLeap = 16

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
	case ok && version <= last.version:
		return true // the protocol knows what is old
	case ok && last.round == now && version > last.version+1:
		return false
	case ok && version > last.version+maxLeap+uint32(now-last.round):
		return false
	}
	f[token] = stamp{version, now}
	return true
}

func (f fence) expire(tokens int) {
	for t := range f {
		if int(t) >= 4*tokens+64 {
			delete(f, t)
		}
	}
}
