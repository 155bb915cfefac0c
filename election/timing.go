package election

import (
	"cmp"
	"fmt"
	"time"
)

// Timing is the network that the election may rely on (docs/sources.md, "Leader election" and
// "Epochs"). The zero value of a field means its default.
type Timing struct {
	Heartbeat time.Duration // between two heartbeats of a leader; default 100 ms
	TMax      time.Duration // longest transmission of a message, t_max; default 150 ms
	TProcess  time.Duration // longest handling of a message, t_process; default 300 ms
	Silence   time.Duration // tolerated silence before a member is suspected; default T, and no less
	Secured   bool          // a connection begins with TLS, which takes two more messages
}

// Defaults of [Timing].
const (
	DefaultHeartbeat = 100 * time.Millisecond
	DefaultTMax      = 150 * time.Millisecond
	DefaultTProcess  = 300 * time.Millisecond
)

// T returns the silence after which a member is suspected: 2·t_max + t_process ("Leader election").
func (t Timing) T() time.Duration { return 2*t.TMax + t.TProcess }

// Bears returns how long a member may be silent before it is suspected: the longer of Silence and T.
// This process counts itself as stopped after as long. Waits for an answer still use T.
func (t Timing) Bears() time.Duration { return max(t.Silence, t.T()) }

// DialTime returns the longest time before the first message on a new connection: TCP's
// handshake, which is a round trip, and TLS's, as much again.
func (t Timing) DialTime() time.Duration {
	if t.Secured {
		return 4 * t.TMax
	}
	return 2 * t.TMax
}

// IdleTime returns how long a connection out of use must be idle before it is ended. What was on
// its way has arrived by then.
func (t Timing) IdleTime() time.Duration { return 2 * t.TMax }

// WithDefaults returns t with the default in place of each zero field.
func (t Timing) WithDefaults() Timing {
	t.Heartbeat = cmp.Or(t.Heartbeat, DefaultHeartbeat)
	t.TMax = cmp.Or(t.TMax, DefaultTMax)
	t.TProcess = cmp.Or(t.TProcess, DefaultTProcess)
	return t
}

// Validate returns what is wrong with t, or nil.
func (t Timing) Validate() error {
	if t.Heartbeat < 0 || t.TMax < 0 || t.TProcess < 0 {
		return fmt.Errorf("heartbeat %v, t_max %v, t_process %v: none may be negative", t.Heartbeat, t.TMax, t.TProcess)
	}
	if t = t.WithDefaults(); t.Heartbeat >= t.T() {
		return fmt.Errorf("heartbeat %v is not below T = 2·t_max + t_process = %v: a leader would be suspected between two heartbeats; lower the heartbeat or raise t_max", t.Heartbeat, t.T())
	}
	if t.Silence != 0 && t.Silence < t.T() {
		return fmt.Errorf("silence %v is below T = 2·t_max + t_process = %v: an answer may take that long; raise it, or leave it out for T", t.Silence, t.T())
	}
	return nil
}
