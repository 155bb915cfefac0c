package network

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/batuta-dev/batuta/election"
)

// Counters count received and refused traffic. The zero value is ready; the methods may be called
// from any goroutine.
type Counters struct {
	sent atomic.Uint64 // bytes

	mu       sync.Mutex
	received map[string]uint64 // messages, by kind
	refused  map[string]uint64 // connections, by reason
	bad      map[string]uint64 // frames, by reason
}

// Sent counts bytes that are written to a peer.
func (c *Counters) Sent(bytes int) { c.sent.Add(uint64(bytes)) }

// SentBytes returns the number of bytes sent.
func (c *Counters) SentBytes() uint64 { return c.sent.Load() }

// Received counts a message.
func (c *Counters) Received(kind election.MessageKind) { c.count(&c.received, string(kind)) }

// Refused counts a connection that one of its ends refused.
func (c *Counters) Refused(reason string) { c.count(&c.refused, reason) }

// Bad counts a frame that was dropped.
func (c *Counters) Bad(reason string) { c.count(&c.bad, reason) }

func (c *Counters) count(counts *map[string]uint64, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *counts == nil {
		*counts = map[string]uint64{}
	}
	(*counts)[name]++
}

// Counts returns copies of the counts; none is nil.
func (c *Counters) Counts() (received, refused, bad map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clone := func(counts map[string]uint64) map[string]uint64 {
		if counts == nil {
			return map[string]uint64{}
		}
		return maps.Clone(counts)
	}
	return clone(c.received), clone(c.refused), clone(c.bad)
}
