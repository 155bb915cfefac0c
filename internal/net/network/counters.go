package network

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/batuta-dev/batuta/election"
)

// Counters count what comes in and what is refused. The zero value works; the
// methods may be called from anywhere.
type Counters struct {
	sent atomic.Uint64 // bytes

	mu       sync.Mutex
	received map[string]uint64 // messages, by kind
	refused  map[string]uint64 // connections, by reason
	bad      map[string]uint64 // frames, by reason
}

// Sent counts bytes that are written to another member.
func (c *Counters) Sent(bytes int) { c.sent.Add(uint64(bytes)) }

// SentBytes is how many those are.
func (c *Counters) SentBytes() uint64 { return c.sent.Load() }

// Received counts a message.
func (c *Counters) Received(kind election.MessageKind) { c.count(&c.received, string(kind)) }

// Refused counts a connection that came to nothing because one end refused it.
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

// Counts gives copies of what has been counted; none is nil.
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
