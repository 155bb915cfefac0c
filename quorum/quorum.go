package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

// DefaultDrift is the default for [Drift]: one hundredth.
const DefaultDrift = 0.01

// maxDrift bounds the drift that may be configured: the lease must stay positive.
const maxDrift = 0.5

// Takeover is the condition for the next leader after a leader that did not resign.
type Takeover string

// Takeovers.
const (
	// TakeoverLease makes the next leader wait until the old lease cannot be in force.
	TakeoverLease Takeover = "lease"
	// TakeoverRefused makes a member forget the leader as soon as its connection to it has ended
	// and the leader's own address has refused a new connection. It assumes that only the kernel of
	// the leader's machine refuses connections to that address: no firewall that answers with a
	// reset, no proxy, address translation or load balancer in between, and no second machine with
	// that address. Otherwise two may lead for as long as a lease. Processes that the leader
	// started and that outlive it are not waited for.
	TakeoverRefused Takeover = "refused"
	// TakeoverAttested makes a member forget the leader as soon as the leader's guard attests that
	// its process is dead and that nothing of its work is left. The guard is a process on the
	// leader's machine. Without a guard, or without its attestation, this is [TakeoverLease].
	TakeoverAttested Takeover = "attested"
)

// Takeovers returns the values of [Takeover].
func Takeovers() []string {
	return []string{string(TakeoverAttested), string(TakeoverLease), string(TakeoverRefused)}
}

// Algorithm is the election by quorum. Use [New].
type Algorithm struct {
	drift    float64
	takeover Takeover
	guard    attest.Guard // nil: there is none
}

// Option changes what [New] returns.
type Option func(*Algorithm)

// Drift sets the largest difference in rate between any two members' clocks, as a fraction: 0.01,
// the default, is one hundredth. It must be the same for all members, at least 0 and at most 0.5.
func Drift(part float64) Option { return func(a *Algorithm) { a.drift = part } }

// WithTakeover sets the condition for the next leader; the default is [TakeoverLease].
func WithTakeover(t Takeover) Option { return func(a *Algorithm) { a.takeover = t } }

// WithGuard makes g attest the end of this member's leaderships, for [TakeoverAttested]. Package
// batutaguard starts such a guard; without a guard the members wait for the lease.
func WithGuard(g attest.Guard) Option { return func(a *Algorithm) { a.guard = g } }

// New returns a value that many nodes can have, unless it has [WithGuard]: a guard attests the end of a
// single member.
func New(options ...Option) *Algorithm {
	a := &Algorithm{drift: DefaultDrift, takeover: TakeoverLease}
	for _, o := range options {
		o(a)
	}
	return a
}

// Clone returns a copy for a further node; a itself if it has a guard, which two nodes must not share.
func (a *Algorithm) Clone() election.Algorithm {
	if a.guard != nil {
		return a
	}
	c := *a
	return &c
}

// Name returns "quorum".
func (a *Algorithm) Name() string { return "quorum" }

// Step does nothing: the algorithm has a core of its own, see [Algorithm.NewCore].
func (a *Algorithm) Step(election.Event, election.Actions) {}

// Promises returns what this algorithm guarantees, and true: its epoch is a fencing token.
func (a *Algorithm) Promises() (guarantee string, fencing bool) { return "one-leader", true }

// Drift returns the largest allowed difference in rate between two clocks, as a fraction.
func (a *Algorithm) Drift() float64 { return a.drift }

// Takeover returns the condition for the next leader.
func (a *Algorithm) Takeover() Takeover { return a.takeover }

// Guard returns the guard that attests the end of this member's leaderships; nil: none.
func (a *Algorithm) Guard() attest.Guard {
	if a.takeover != TakeoverAttested {
		return nil
	}
	return a.guard
}

// Leasing returns the takeover and the drift, for a status.
func (a *Algorithm) Leasing() (takeover string, drift float64) { return string(a.takeover), a.drift }

// Durable returns true: the algorithm needs a disk to keep its promise.
func (a *Algorithm) Durable() bool { return true }

// Validate reports what is wrong with the options, or nil.
func (a *Algorithm) Validate() error {
	var faults []error
	if !(a.drift >= 0 && a.drift <= maxDrift) {
		faults = append(faults, fmt.Errorf("clock drift %v: it is a part, at least 0 and at most %v; 0.01 is one hundredth", a.drift, maxDrift))
	}
	if !slices.Contains(Takeovers(), string(a.takeover)) {
		faults = append(faults, fmt.Errorf("takeover %q: it is one of %q", a.takeover, Takeovers()))
	}
	return errors.Join(faults...)
}

// margin is subtracted from a lease of T·(1 − drift), because timers are not exact.
func margin(t time.Duration) time.Duration { return t / 500 }

// Lease returns how long a leadership is in force after the leader sent a round of heartbeats that
// a majority has acknowledged.
func (a *Algorithm) Lease(t time.Duration) time.Duration {
	return t - time.Duration(float64(t)*a.drift) - margin(t)
}
