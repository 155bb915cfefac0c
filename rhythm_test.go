package batuta

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

func TestAPeakIsKeptForAWhile(t *testing.T) {
	var p peak
	const span = time.Minute
	p.add(10*time.Second, 5, span)
	p.add(20*time.Second, 3, span)
	for now, want := range []time.Duration{5, 5, 5} { // minutes 0, 1 of it at least
		if got := p.of(time.Duration(now)*30*time.Second+20*time.Second, span); got != want {
			t.Errorf("after %d half minutes: %v, want %v", now, got, want)
		}
	}
	if got := p.of(3*time.Minute, span); got != 0 {
		t.Errorf("after three minutes: %v", got)
	}
}

// The silence that is seen is a heartbeat and what the network takes, whoever leads;
// what ends in a suspicion is seen in full, and old leaderships count for nothing.
func TestTheRhythmOfACluster(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		time.Sleep(10 * time.Second)
		for id, n := range c.nodes {
			r := statusOf(n).Rhythm
			if r.Silence < 100*time.Millisecond || r.Silence > 120*time.Millisecond || r.RecentSilence < 100*time.Millisecond || r.Stall != 0 {
				t.Errorf("member %s: %+v, want a heartbeat of silence", id, r)
			}
			if rtt := 2 * oneWay; (id == "3") != (r.RoundTrip == rtt) || r.RecentRoundTrip != r.RoundTrip {
				t.Errorf("member %s: a round trip of %v, and %v takes it there and back", id, r.RoundTrip, rtt)
			}
			if h := r.Headroom(statusOf(n).Timing.T()); h < 0.8 || h > 0.84 {
				t.Errorf("member %s has a headroom of %v", id, h)
			}
		}
		c.kill("3")
		c.agree("2")
		time.Sleep(10 * time.Second)
		if r := statusOf(c.nodes["1"]).Rhythm; r.Silence > 120*time.Millisecond {
			t.Errorf("the leader that died counts as silent: %+v", r)
		}
	})
}

// A turn of what arrives does what is due, and notes how late that is.
func TestATurnDoesWhatIsDue(t *testing.T) {
	for name, arrives := range map[string]func(n *Node){
		"nothing for the Machine": func(*Node) {},
		"an event":                func(n *Node) { n.emit(election.Event{Kind: election.Woke}) },
	} {
		t.Run(name, func(t *testing.T) {
			onStrange(t, func(t *testing.T, n *Node, m *strange) {
				m.set(0, n.timeout/2) // the timer has still to run
				site := n.site()
				<-site.Turn
				arrives(n)
				site.Settle()
				stepped, now := n.stepped, n.clock.Now()
				site.Turn <- struct{}{}
				if stepped != now {
					t.Errorf("stepped at %v, want at %v", stepped, now)
				}
				if r := statusOf(n).Rhythm; r.Stall < n.timeout/4 || r.Stall > n.timeout/2 {
					t.Errorf("a stall of %v, want up to %v", r.Stall, n.timeout/2)
				}
			})
		})
	}
}

// So does a turn of a call.
func TestATurnOfACallDoesWhatIsDue(t *testing.T) {
	onStrange(t, func(t *testing.T, n *Node, m *strange) {
		m.set(0, n.timeout/2) // the timer has still to run
		err := n.links.call(t.Context(), func() { n.emit(election.Event{Kind: election.Woke}) })
		if r := statusOf(n).Rhythm; err != nil || r.Stall < n.timeout/4 || r.Stall > n.timeout/2 {
			t.Errorf("a stall of %v, want up to %v: %v", r.Stall, n.timeout/2, err)
		}
	})
}

// What still arrives while the network is shut steps nothing.
func TestNothingSettlesOnceTheMachineHasEnded(t *testing.T) {
	onStrange(t, func(t *testing.T, n *Node, m *strange) {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		was := n.stepped
		m.set(0, n.timeout)
		n.emit(election.Event{Kind: election.Woke})
		n.site().Settle()
		if n.stepped != was || n.timer.Stop() {
			t.Errorf("stepped at %v, and last at %v before the end", n.stepped, was)
		}
	})
}
