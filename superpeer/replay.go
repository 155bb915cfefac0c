package superpeer

import (
	"maps"
	"time"
)

// numbers are the numbers of messages. Each number is for a single receiver and increases, so that
// replayed packets have no effect on any node.
type numbers struct {
	sent  map[uid]uint64 // the last, by receiver
	heard map[uid]window // by sender
}

// window is the highest number received, and which of the 63 numbers below it were: packets can be
// reordered.
type window struct{ top, seen uint64 }

// next returns the number of a message to a node. The first is the time, which is higher than all
// numbers that were forgotten.
func (n *numbers) next(to uid) uint64 {
	if _, ok := n.sent[to]; !ok {
		n.sent[to] = uint64(time.Now().UnixMicro())
	}
	n.sent[to]++
	return n.sent[to]
}

// fresh reports whether a message is new, and records it.
func (n *numbers) fresh(from uid, number uint64) bool {
	w := n.heard[from]
	switch {
	case number > w.top:
		if w.seen <<= min(number-w.top, 64); w.top == 0 {
			w.seen = 0
		}
		w = window{number, w.seen | 1}
	case w.top-number >= 64 || w.seen>>(w.top-number)&1 == 1:
		return false
	default:
		w.seen |= 1 << (w.top - number)
	}
	n.heard[from] = w
	return true
}

// forget removes unlisted nodes once there are far more than listed nodes. Messages of unlisted
// nodes are not read.
func (n *numbers) forget(nodes int, listed func(uid) bool) {
	if len(n.sent)+len(n.heard) < 4*nodes+128 {
		return
	}
	maps.DeleteFunc(n.sent, func(u uid, _ uint64) bool { return !listed(u) })
	maps.DeleteFunc(n.heard, func(u uid, _ window) bool { return !listed(u) })
}
