// Package explain makes sentences of the changes of leadership that a member has detected.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
		if reported(detail) {
			return "it reported that too few members acknowledged its heartbeats"
		}
		if quiet, ok := strings.CutPrefix(why["suspects"], "silent for "); ok {
			return "no heartbeat arrived for " + spaced(quiet)
		}
		if detail == "" {
			return "no heartbeat arrived in time, or too few members acknowledged its heartbeats"
		}
		return "no heartbeat arrived in time"
	case batuta.CauseResigned:
		return whyResigned(cmp.Or(why["steps down"], detail)) // a quorum's leader steps down
	case batuta.CauseSuperseded:
		token, _ := strings.CutPrefix(detail, "a higher token ")
		if epoch, leader, ok := strings.Cut(token, ":"); ok && leader != l.Leader {
			return leader + " leads under a higher epoch, " + epoch
		}
		return "a higher epoch began"
	case batuta.CauseStalled:
		if l.Leader != l.ID {
			return "it reported that its process stalled for longer than T"
		}
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

// whyResigned is why a leader gave leadership away, if the record has the reason: its own does, and
// that of a follower if the leader announced it.
func whyResigned(detail string) string {
	if heir, ok := strings.CutPrefix(detail, "it hands over to "); ok {
		return "it handed over to " + heir
	}
	switch reason, ok := strings.CutPrefix(detail, "it is no candidate: "); {
	case !ok:
	case reason == string(batuta.StandingResigned):
		return "it resigned"
	case reason == string(batuta.StandingClosing):
		return "its process was asked to end"
	default:
		return "it is no candidate any more: " + reason
	}
	switch detail {
	case "it asks for the leader": // without a reason
		return "it reported that its leadership ended"
	case "its disk refuses the log", "its disk has not answered for T", "it is unhealthy", "it is to be removed":
		return detail
	}
	return "it resigned or handed over"
}

// reported reports whether a follower has the end of a leadership from its leader.
func reported(detail string) bool {
	switch detail {
	case "it announced its end", "it replied that it has ended", "it asks for the leader":
		return true
	}
	return false
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

// Incident is what the members of a cluster have recorded, for the lab's page.
type Incident struct {
	Batuta  string     `json:"batuta"`  // "incident": the kind of file
	Status  api.Status `json:"status"`  // of the member asked
	Members []Witness  `json:"members"` // the member asked comes first
}

// Witness is what a member has recorded, or the reason why that is missing.
type Witness struct {
	ID      string       `json:"id"`
	Error   string       `json:"error,omitempty"`
	Ahead   float64      `json:"ahead"` // seconds that its clock is ahead of this machine's
	Doubt   float64      `json:"doubt"` // seconds that Ahead may be wrong by
	History *api.History `json:"history,omitempty"`
	Changes []Change     `json:"changes,omitempty"`
	Trace   []api.Record `json:"trace,omitempty"`
}

// witnessTime bounds how long a member may take to answer.
const witnessTime = 5 * time.Second

// Gather asks an agent, and the agents of the remaining members: at the addresses of also, with
// all of access. Without any it asks at those that the members publish, and sends no token there.
func Gather(ctx context.Context, asked *api.Client, also []string, access api.Access) (*Incident, error) {
	in := &Incident{Batuta: "incident"}
	first, err := witness(ctx, asked, &in.Status)
	if err != nil {
		return nil, err
	}
	in.Members = []Witness{first}
	ids := make([]string, len(also))
	if len(also) == 0 {
		access.Token = ""
		for _, m := range in.Status.Members {
			if m.ID != first.ID {
				ids, also = append(ids, m.ID), append(also, m.Meta[api.MetaHTTP])
			}
		}
	}
	others := make([]Witness, len(also))
	var asking sync.WaitGroup
	for i, addr := range also {
		asking.Go(func() { others[i] = remote(ctx, ids[i], addr, access, in.Status.Cluster) })
	}
	asking.Wait()
	for _, w := range others {
		if w.Error != "" || !slices.ContainsFunc(in.Members, func(m Witness) bool { return m.ID == w.ID }) { // two addresses may be of the same agent
			in.Members = append(in.Members, w)
		}
	}
	return in, nil
}

// remote asks the agent of a member that is not the first. id may be empty.
func remote(ctx context.Context, id, addr string, access api.Access, cluster string) Witness {
	if addr == "" {
		return Witness{ID: id, Error: "it does not publish where its HTTP API is (--http-advertise of its agent)"}
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	var status api.Status
	var w Witness
	c, err := api.NewClient(addr, access)
	if err == nil {
		w, err = witness(ctx, c, &status)
	}
	switch {
	case err != nil:
		return Witness{ID: id, Error: err.Error()}
	case status.Cluster != cluster:
		return Witness{ID: id, Error: fmt.Sprintf("the agent at %s is a member of cluster %q", addr, status.Cluster)}
	}
	return w
}

func witness(ctx context.Context, c *api.Client, status *api.Status) (w Witness, err error) {
	if err := c.Get(ctx, "/v1/status", status); err != nil {
		return w, err
	}
	var all api.History
	if err := c.Get(ctx, "/v1/history", &all); err != nil {
		return w, err
	}
	w.ID, w.History = status.ID, &all
	for range 4 { // the quickest answer has the clock most exactly
		var h api.History
		began := time.Now()
		if err := c.Get(ctx, "/v1/history?leaderships=true", &h); err != nil {
			return w, err
		}
		if trip := time.Since(began); w.Doubt == 0 || trip.Seconds() < 2*w.Doubt {
			w.Ahead, w.Doubt = h.Now.Sub(began.Add(trip/2)).Seconds(), trip.Seconds()/2
		}
	}
	w.Changes = Changes(w.History.Events)
	return w, c.Get(ctx, "/v1/trace", &w.Trace)
}
