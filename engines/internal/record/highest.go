package record

import "sync/atomic"

// Highest is the highest epoch of an election that its candidate has read or claimed, for an engine that can lose
// its own count.
type Highest struct{ atomic.Uint64 }

// Note raises it.
func (h *Highest) Note(epoch uint64) {
	for last := h.Load(); epoch > last && !h.CompareAndSwap(last, epoch); last = h.Load() {
	}
}
