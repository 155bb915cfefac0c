package quorum

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// A timer ends late by a tenth of its time where the clock is slewed. A leader whose beats are no more
// answered ends its lease in time all the same, with the longest heartbeat that may be set too.
func TestALeaseEndsInTimeByALateTimer(t *testing.T) {
	for _, heartbeat := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 292 * time.Millisecond} {
		n := &network{t: t, now: begin, cores: map[election.ID]*Core{}, ids: []election.ID{"1", "2", "3"}, disks: map[election.ID][][]byte{}, halted: map[election.ID]error{}}
		for _, id := range n.ids {
			cfg := configured(id, n.ids, nil)
			cfg.Timing.Heartbeat = heartbeat
			core, err := New().NewCore(cfg)
			if err != nil {
				t.Fatal(err)
			}
			n.cores[id] = core.(*Core)
			n.step(id, election.Event{Kind: election.Started})
		}
		n.settle()
		n.run(3 * time.Second)
		c, now := n.cores[n.leader()], n.now
		until, leads := c.Lease()
		for steps := 0; leads; steps++ {
			at, ok := c.Deadline()
			if !ok || steps > 1000 {
				t.Fatalf("heartbeat %v: it still leads after %d steps", heartbeat, steps)
			}
			now = now.Add(at.Sub(now) * 11 / 10)
			c.Step(now, election.Event{Kind: election.Woke})
			_, leads = c.Lease()
		}
		if late := now.Sub(until); late > margin(c.t) {
			t.Errorf("heartbeat %v: its lease ended %v late, more than the margin, %v", heartbeat, late, margin(c.t))
		}
	}
}
