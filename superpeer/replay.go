package superpeer

import "time"

// numbers are those of messages: each goes to one node and counts up, so that a packet which
// somebody has recorded does nothing when it comes a second time, there or elsewhere.
type numbers struct {
	sent  map[uid]uint64 // the last, by receiver
	heard map[uid]window // by sender
}

// window is the highest number heard and which of the 63 below it were: packets overtake
// each other.
type window struct{ top, seen uint64 }

func newNumbers() numbers { return numbers{sent: map[uid]uint64{}, heard: map[uid]window{}} }

// next is the number of a message to a node. The first is the time: it is higher than all that
// we have forgotten.
func (n *numbers) next(to uid) uint64 {
	if _, ok := n.sent[to]; !ok {
		n.sent[to] = uint64(time.Now().UnixMicro())
	}
	n.sent[to]++
	return n.sent[to]
}

// fresh tells whether a message has not been heard before, and notes that it has now.
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

// forget drops those who are not listed, once there are far more than are. Nobody else's
// messages are read.
func (n *numbers) forget(nodes int, listed func(uid) bool) {
	if len(n.sent)+len(n.heard) < 4*nodes+128 {
		return
	}
	for u := range n.sent {
		if !listed(u) {
			delete(n.sent, u)
		}
	}
	for u := range n.heard {
		if !listed(u) {
			delete(n.heard, u)
		}
	}
}
