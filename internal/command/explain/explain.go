// Package explain makes sentences of the changes of leadership that a member has detected.
package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
)

// Change is a change of leadership as a member has detected it.
type Change struct {
	Time      api.Stamp `json:"time"`       // of the loss; where nothing was lost, of the new leadership
	Lost      *string   `json:"lost"`       // the leader until then; null: none was known
	LostEpoch uint64    `json:"lost_epoch"` // 0: none was known
	Cause     string    `json:"cause"`      // as in the event lost; renewed: nothing was lost, and the epoch rose
	Why       string    `json:"why"`
	Leader    *string   `json:"leader"` // the next; null: none yet
	Epoch     uint64    `json:"epoch"`
	After     float64   `json:"after_seconds"` // from the loss to the next leader
	Sentence  string    `json:"sentence"`
}

// Changes makes of a history the changes of leadership, the oldest first.
func Changes(events []api.Reason) []Change {
	changes := []Change{}
	last := map[int]int{}  // by seat, its last change; counted from 1
	var steps []api.Record // of the member, since the last change
	for _, e := range events {
		steps = append(steps, e.Records...)
		seat := 0
		if e.Seat != nil {
			seat = *e.Seat
		}
		switch e.Event {
		case string(batuta.EventLost):
			changes = append(changes, Change{Time: e.Time, Lost: &e.Leader, LostEpoch: e.Epoch, Cause: e.Cause, Why: whyLost(e.Line, steps)})
			last[seat] = len(changes)
		case string(batuta.EventLeader):
			n := last[seat] - 1
			if n < 0 || changes[n].Leader != nil {
				changes = append(changes, Change{Time: e.Time, Why: whyBegun(e.Line)})
				n = len(changes) - 1
				last[seat] = len(changes)
			}
			changes[n].Leader, changes[n].Epoch = &e.Leader, e.Epoch
			changes[n].After = max(0, e.Time.Sub(changes[n].Time.Time)).Seconds()
			steps = nil
		case string(batuta.EventRenewed):
			if n := len(changes) - 1; n >= 0 && changes[n].Leader != nil {
				lost := changes[n]
				changes = append(changes, Change{Time: e.Time, Lost: lost.Leader, LostEpoch: lost.Epoch, Cause: e.Event, Why: whyRenewed(steps), Leader: &e.Leader, Epoch: e.Epoch})
				last[seat] = len(changes)
			}
			steps = nil
		}
	}
	for i := range changes {
		changes[i].Sentence = changes[i].sentence()
	}
	return changes
}

// whyLost is the cause of a loss for a person. l.ID is the member that detected it.
func whyLost(l api.Line, steps []api.Record) string {
	why := map[string]string{} // by step, the last of each
	for _, s := range steps {
		if s.What != "loses" || s.Peer == l.Leader {
			why[s.What] = s.Why
		}
	}
	detail := strings.TrimPrefix(why["loses"], l.Cause+": ")
	switch batuta.Cause(l.Cause) {
	case batuta.CauseCrashed:
		if detail == "it refuses the connection" {
			return "its process ended, and its address refused the connection"
		}
		return "its process ended"
	case batuta.CauseSilent:
		if l.Leader == l.ID {
			return "too few members acknowledged its heartbeats"
		}
		if quiet, ok := strings.CutPrefix(why["suspects"], "silent for "); ok {
			return "no heartbeat arrived for " + spaced(quiet)
		}
		return "no heartbeat arrived in time"
	case batuta.CauseResigned:
		if heir, ok := strings.CutPrefix(detail, "it hands over to "); ok {
			return "it handed over to " + heir
		}
		return "it resigned or handed over"
	case batuta.CauseSuperseded:
		token, _ := strings.CutPrefix(detail, "a higher token ")
		if epoch, leader, ok := strings.Cut(token, ":"); ok && leader != l.Leader {
			return leader + " leads under a higher epoch, " + epoch
		}
		return "a higher epoch began"
	case batuta.CauseStalled:
		if long, ok := strings.CutPrefix(why["stalled"], "for "); ok {
			return "the process of " + l.ID + " stalled for " + spaced(long)
		}
		return "the process of " + l.ID + " stalled for longer than T"
	case batuta.CauseRemoved:
		return "it was removed from the cluster"
	case batuta.CauseStopped:
		return "the process of " + l.ID + " was stopped"
	}
	return cmp.Or(detail, l.Cause, "the agent reports no cause")
}

// whyRenewed is why a leadership went on under a higher epoch.
func whyRenewed(steps []api.Record) string {
	for _, s := range steps {
		if s.What == "renews" {
			return "a partition has healed, and the side that " + s.Peer + " led is the lesser"
		}
	}
	return "a partition has healed, and the other side is the lesser"
}

// whyBegun is how a leadership began that follows none.
func whyBegun(l api.Line) string {
	if l.Leader == l.ID {
		return "it won the election"
	}
	return l.ID + " accepts it as its first leader"
}

// spaced puts a space between the number and the unit of a duration.
func spaced(s string) string {
	d, err := time.ParseDuration(s)
	if err != nil {
		return s
	}
	return short(d)
}

// short writes a duration with as many digits as matter to a person: 0.4 ms, 14 ms, 2.3 s.
func short(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Moment is a time for a person: RFC 3339 in UTC, to the millisecond.
func Moment(s api.Stamp) string { return s.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func (c Change) sentence() string {
	if c.Lost == nil {
		return fmt.Sprintf("%s became leader at %s, epoch %d: %s", *c.Leader, Moment(c.Time), c.Epoch, c.Why)
	}
	if c.Cause == string(batuta.EventRenewed) {
		return fmt.Sprintf("%s still led at %s, and goes on under epoch %d instead of %d: %s", *c.Leader, Moment(c.Time), c.Epoch, c.LostEpoch, c.Why)
	}
	text := fmt.Sprintf("%s lost leadership at %s: %s; ", *c.Lost, Moment(c.Time), c.Why)
	after := short(time.Duration(c.After * float64(time.Second)))
	switch {
	case c.Leader == nil:
		return text + "no leader is known since"
	case *c.Leader == *c.Lost:
		return text + fmt.Sprintf("it leads again %s later, epoch %d", after, c.Epoch)
	}
	return text + fmt.Sprintf("%s took over %s later, epoch %d", *c.Leader, after, c.Epoch)
}
