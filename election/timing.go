package election

import (
	"cmp"
	"fmt"
	"time"
)

// Timing is the network that the election may rely on (docs/sources.md, "Leader election" and "Epochs").
// The zero value of a field means its default.
type Timing struct {
	Heartbeat time.Duration // between two beats of a leader; default 100 ms
	TMax      time.Duration // longest transmission of a message, t_max; default 150 ms
	TProcess  time.Duration // longest handling of a message, t_process; default 300 ms
	Silence   time.Duration // that is borne of a member before it is suspected; default T, and no less
	Secured   bool          // a connection begins with TLS, which takes two messages more
}

// Defaults of [Timing].
const (
	DefaultHeartbeat = 100 * time.Millisecond
	DefaultTMax      = 150 * time.Millisecond
	DefaultTProcess  = 300 * time.Millisecond
)

// T is the silence after which a member is suspected: 2·t_max + t_process
// ("Leader election").
func (t Timing) T() time.Duration { return 2*t.TMax + t.TProcess }

// Bears is the silence that is borne of a member before it is suspected, and of this
// process itself before it takes itself for stopped: Silence, or T if that is zero.
// What waits for an answer waits by T all the same.
func (t Timing) Bears() time.Duration { return cmp.Or(t.Silence, t.T()) }

// DialTime bounds what goes before the first message on a connection that has yet to be
// made: TCP's handshake, a message there and one back, and TLS's, as much again.
func (t Timing) DialTime() time.Duration {
	if t.Secured {
		return 4 * t.TMax
	}
	return 2 * t.TMax
}

// IdleTime is how long nothing has come on a connection that is used no more before it
// is ended: what was on its way has arrived by then.
func (t Timing) IdleTime() time.Duration { return 2 * t.TMax }

// WithDefaults is t with the default in the place of each zero field.
func (t Timing) WithDefaults() Timing {
	if t.Heartbeat == 0 {
		t.Heartbeat = DefaultHeartbeat
	}
	if t.TMax == 0 {
		t.TMax = DefaultTMax
	}
	if t.TProcess == 0 {
		t.TProcess = DefaultTProcess
	}
	return t
}

// Validate reports what is wrong with t, or nil.
func (t Timing) Validate() error {
	if t.Heartbeat < 0 || t.TMax < 0 || t.TProcess < 0 {
		return fmt.Errorf("heartbeat %v, t_max %v, t_process %v: none may be negative", t.Heartbeat, t.TMax, t.TProcess)
	}
	if t = t.WithDefaults(); t.Heartbeat >= t.T() {
		return fmt.Errorf("heartbeat %v is not below T = 2·t_max + t_process = %v: a leader would be suspected between two beats; lower the heartbeat or raise t_max", t.Heartbeat, t.T())
	}
	if t.Silence != 0 && t.Silence < t.T() {
		return fmt.Errorf("silence %v is below T = 2·t_max + t_process = %v: an answer may take that long; raise it, or leave it out for T", t.Silence, t.T())
	}
	return nil
}
