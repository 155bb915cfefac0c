package batuta

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/eventlog"
)

// View is the leader as a member sees it.
//
// LastSeen is the last sign of the leadership that ended. If the leader resigned, closed or was
// removed, that is the message that announced it. Otherwise it is the last message that this
// member received from the leader, or the loss itself if there was none; for the leader itself,
// when its loop ran last. It is zero for named elections.
type View struct {
	Election string
	Seat     int       // of an election with several leaders at once: which, from 0; see [Seats]
	Token    Token     // zero: undefined
	Address  string    // of the leader, HOST:PORT
	Since    time.Time // when this view began
	Lost     Token     // while undefined: the leadership that ended; zero at first
	Cause    Cause     // while undefined: why it ended
	LastSeen time.Time // in what Watch and Events yield while undefined: the last sign of that leadership; see above

	Meta map[string]string // what the leader publishes of itself, as far as it was received; not to be changed

	unready bool // the work of this leadership does not serve yet
}

// Ready reports whether the view names a leader whose work serves: it has called [Node.Ready], or has no
// [Config.AwaitReady]. Views of named elections and of engines are ready when they are defined.
func (v View) Ready() bool { return v.Defined() && !v.unready }

// Defined reports whether the view names a leader.
func (v View) Defined() bool { return v.Token.Defined() }

// Same reports whether v and of show a single leadership. Its epoch may differ: see
// [EventRenewed].
func (v View) Same(of View) bool {
	return v.Defined() && v.Token.Leader.ID == of.Token.Leader.ID && v.Since.Equal(of.Since)
}

// EventKind is the kind of an [Event].
type EventKind string

// Kinds of Event.
const (
	EventLeader   EventKind = "leader"   // View names a leader
	EventLost     EventKind = "lost"     // View.Lost has ended by View.Cause
	EventMember   EventKind = "member"   // Member's State has changed
	EventMeta     EventKind = "meta"     // Member, which may be this member, publishes Meta now
	EventReady    EventKind = "ready"    // the work of View's leader serves now; only of a leader with [Config.AwaitReady]
	EventStanding EventKind = "standing" // whether this member is a candidate has changed; at first it is

	// EventRenewed is of best effort only: a partition has healed, and the leadership of the
	// View goes on under a higher epoch than the smaller side had. Nothing was lost. Work goes on
	// under the Token that it began with.
	EventRenewed EventKind = "renewed"
)

// Event is a change that a member has seen.
type Event struct {
	Time     time.Time
	Kind     EventKind
	View     View        // the view after the event
	Member   ID          // EventMember, EventMeta
	State    MemberState // EventMember
	Address  string      // EventMember: HOST:PORT
	Standing Standing    // EventStanding
	Why      string      // EventStanding: the reason; "" when it is StandingEligible

	Meta map[string]string // EventMeta; not to be changed
}

// MaxBacklog is how many events a reader of [Node.Events] or [Node.Watch] may be
// behind, and a reader of [Node.Elections] by two more for each election: all may change hands at
// once. A reader that is further behind is ended by [ErrBehind].
const MaxBacklog = 16384

// ErrBehind is the last thing that [Node.Events] and [Node.Watch] yield to a reader
// that has stopped reading, or reads too slowly: more than [MaxBacklog] events were
// waiting for it, and it has missed them. Call Events or Watch again to go on from
// the present view.
var ErrBehind = fmt.Errorf("the reader of events was more than %d behind and has missed them: read faster, or begin again at the present view", MaxBacklog)

// Watch yields this member's views in order, none skipped, the present view first,
// until ctx or the node ends. A view whose leader publishes new metadata
// comes again, with the same Token and the new Meta; so does one whose leadership goes on under a
// higher epoch, with that Token: see [View.Same]. Its place is taken when Watch is called. The error is
// nil but for a reader that falls behind: to that the last thing yielded is the zero
// View with [ErrBehind]. A slow reader delays no member.
func (n *Node) Watch(ctx context.Context) iter.Seq2[View, error] {
	return n.history.views(ctx)
}

// Events yields everything this member sees, in order, none skipped, until ctx or
// the node ends. Its place is taken when Events is called: between
// [New] and [Node.Run] that is the beginning of the node. The present view comes first, as
// the leader event that began it, and the lost event that ended it if no member leads;
// nothing when no leader was ever known. So the first event of a leadership is
// always its leader event. The error is nil but for a reader that falls behind: to
// that the last thing yielded is the zero Event with [ErrBehind]. A slow reader
// delays no member.
func (n *Node) Events(ctx context.Context) iter.Seq2[Event, error] {
	h := n.history
	return eventlog.Walk(ctx, h.List, h.Place(), ErrBehind, seen.origin, func(s seen) (Event, bool) { return s.Event, true })
}

// isView reports whether the view differs after the event.
func (ev Event) isView() bool {
	return ev.Kind == EventLeader || ev.Kind == EventLost || ev.Kind == EventRenewed || ev.Kind == EventMeta && ev.Member == ev.View.Token.Leader.ID
}

// history is what a member has seen, for any number of readers.
type history struct{ *eventlog.List[seen] }

// happening is an entry of it.
type happening = eventlog.Entry[seen]

// seen is an event, with those that have led to the view after it.
type seen struct {
	Event
	led, lost *Event // the last that began a leadership, and the last that ended a leadership; nil: there was none
}

func newHistory(first View) *history {
	return &history{eventlog.New(seen{Event: Event{View: first}}, MaxBacklog)}
}

// add appends an event. A single goroutine at a time may call it.
func (h *history) add(ev Event) {
	last := h.Last().Event
	now := seen{ev, last.led, last.lost}
	switch ev.Kind {
	case EventLeader:
		now.led = &ev
	case EventRenewed: // a reader that begins here receives it as the leader event
		now.led = &Event{Time: ev.Time, Kind: EventLeader, View: ev.View}
	case EventLost:
		now.lost = &ev
	}
	h.Add(now)
}

// origin is what a reader that begins here receives first.
func (s seen) origin() (first []Event) {
	v := s.View
	if s.led != nil && (v.Defined() || v.Lost.Defined()) {
		first = append(first, *s.led)
	}
	switch {
	case v.Defined() && len(first) > 0:
		first[0].View.Meta, first[0].View.unready = v.Meta, v.unready // as it is by now
		if v.Ready() && v.Meta[readyKey] != "" {
			first = append(first, Event{Time: s.Time, Kind: EventReady, View: v})
		}
	case v.Lost.Defined() && s.lost != nil:
		first = append(first, *s.lost)
	}
	return first
}

// views yields the views of a history from the present view on. Its place is taken now.
func (h *history) views(ctx context.Context) iter.Seq2[View, error] {
	return eventlog.Walk(ctx, h.List, h.Place(), ErrBehind,
		func(s seen) []View { return []View{s.View} }, func(s seen) (View, bool) { return s.View, s.isView() })
}

// Leader is this member's present view. It names this member itself only while
// IsLeader does: before the end of a stalled leadership is known it is undefined.
func (n *Node) Leader() View {
	v := n.view()
	if late := n.late(); v.Token.Leader.ID == n.id && late > 0 {
		return View{Election: v.Election, Since: time.Now().Add(-late), Lost: v.Token, Cause: election.CauseStalled}
	}
	return v
}

// IsLeader reports whether this member leads right now. It compares clocks: after
// the process, its machine or only its node has been stopped for longer than T (on
// a different [Wire] for longer than its silence; with a quorum, for as long as its lease) it is false at once, in a paused virtual machine as soon as its wall clock is set right.
func (n *Node) IsLeader() bool {
	return n.view().Token.Leader.ID == n.id && n.late() <= 0
}

// waits reports whether the leader publishes that its work does not serve yet. A leader that is ready publishes a
// renewed epoch before its followers have that.
func (v View) waits() bool {
	ready, used := v.Meta[readyKey]
	epoch, err := strconv.ParseUint(ready, 10, 64)
	return used && (err != nil || epoch < v.Token.Epoch)
}
