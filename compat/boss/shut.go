package boss

import (
	"sync"
	"time"
)

// Shut implements network.Network. Incoming events meanwhile are dropped.
func (n *connections) Shut(wait time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.shut(wait)
	}()
	n.Discard(done)
}

// shut lets the exchanges end before the persistent connections. A foreign member that reads its
// boss's question only after it has lost that boss takes it for the boss again.
func (n *connections) shut(wait time.Duration) {
	n.listener.Close()
	await(&n.out, wait)
	var ending sync.WaitGroup
	for _, p := range n.peers {
		if l := p.persistent; l != nil {
			l.finish()
			ending.Go(func() { <-l.done })
		}
	}
	await(&ending, wait)
	n.cancel()
	for _, p := range n.peers {
		p.endPersistent()
	}
	n.live.Wait()
}

// await waits for those, but no longer than most.
func await(those *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() { those.Wait(); close(done) }()
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case <-done:
	case <-over.C:
	}
}
