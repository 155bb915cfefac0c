package invariant

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Order: when a member saves, notifies its watchers and sends messages.
const (
	Lost    = "every leadership is lost, once, before the next begins"
	Tells   = "a leader loses its leadership before it sends that leadership is free"
	Saved   = "a token is on disk before any message or watcher has it"
	Kept    = "what a member acts on is on its disk, once its writes have ended"
	Lower   = "nothing is done for a COORDINATOR or heartbeat with a lower token"
	Vouch   = "no member accepts a confirmation that was longer on its way than any answer may be"
	Stalled = "a member that was stopped for longer than T loses its leadership before it does anything else"
)

// GivesAway reports whether a receiver of m may assume that the leadership t is over. That
// holds if m announces the end or the drain of t, or names a higher leadership.
func GivesAway(t election.Token, m *election.Message) bool {
	return m.Token.Above(t) || m.Token == t && (m.Ended || m.Draining || m.Kind == election.Resign)
}

// LateVouch reports whether a confirmation that the leader is alive came too late. It may take
// as long as a question and its answer over a link that has yet to be made. A relayed
// confirmation has 2·t_max more. Differing clocks are allowed 1/256.
func LateVouch(t election.Timing, took time.Duration, relayed bool) bool {
	longest := t.DialTime() + 2*t.TMax + t.TProcess
	if relayed {
		longest += 2 * t.TMax
	}
	return took > longest+longest/256
}

// BeforeLosing describes what a member that was stopped while it led as t does, in the actions of
// its first step, before it reports the loss. It returns "" if the loss comes first.
func BeforeLosing(t election.Token, actions []election.Action) string {
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case election.NotifyElected:
			return fmt.Sprintf("announces %v first", a.Token)
		case election.NotifyLost:
			return ""
		case election.Send:
			return fmt.Sprintf("sends a %s first", a.Message.Kind)
		}
	}
	return fmt.Sprintf("goes on leading as %v", t)
}
