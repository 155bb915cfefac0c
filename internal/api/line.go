package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
)

// Stamp is a time that prints as RFC 3339 in UTC, always with nine decimals, so
// that stamps sort as text. The zero Stamp is null.
type Stamp struct{ time.Time }

const stampLayout = "2006-01-02T15:04:05.000000000Z07:00"

// MarshalJSON implements [json.Marshaler].
func (s Stamp) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return s.UTC().AppendFormat(nil, `"`+stampLayout+`"`), nil
}

// Text is s for a user; short: the local time of day, for a terminal.
func (s Stamp) Text(short bool) string {
	if short {
		return s.Local().Format("15:04:05.000000")
	}
	return s.UTC().Format(stampLayout)
}

// Serial is a number above 2^53, a string in JSON: many readers, jq and browsers
// among them, keep numbers as float64 and would change it.
type Serial uint64

// MarshalJSON implements [json.Marshaler].
func (s Serial) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(s), 10)), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. Agents of earlier versions answer a number.
func (s *Serial) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(text), `"`), 10, 64)
	*s = Serial(n)
	return err
}

// Line is an event for programs, "--events json" and /v1/events.
type Line struct {
	Time     Stamp  `json:"time"`
	Event    string `json:"event"` // ready, leader, lost, member, meta, standing, behind or reset
	ID       string `json:"id"`    // of the member that saw it
	Cluster  string `json:"cluster,omitempty"`
	Election string `json:"election,omitempty"`
	Seat     *int   `json:"seat,omitempty"` // of a named election; absent: of the cluster's own

	// of ready
	Listen    string `json:"listen,omitempty"`
	Advertise string `json:"advertise,omitempty"` // published to members; absent while it is not known
	HTTP      string `json:"http,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
	Guarantee string `json:"guarantee,omitempty"`
	Fencing   *bool  `json:"fencing,omitempty"`

	// of leader, lost and renewed, and of ready where the work of a leadership serves
	Leader string `json:"leader,omitempty"`
	Epoch  uint64 `json:"epoch,omitempty"`
	Cause  string `json:"cause,omitempty"`

	// of member
	Member  string `json:"member,omitempty"`
	State   string `json:"state,omitempty"`
	Address string `json:"address,omitempty"`

	Missed uint64 `json:"missed,omitempty"` // of behind: events left out, of all elections; 0: not known

	// of leader, meta (of Member) and ready; absent: none
	Meta map[string]string `json:"meta,omitempty"`

	// of standing
	Standing string `json:"standing,omitempty"`
	Why      string `json:"why,omitempty"` // also of lost in a history of leaderships: the leader's own reason
}

// Ready returns the first line of an agent: its id and its addresses. http is the address of its
// HTTP API, empty if that is off.
func Ready(at time.Time, s batuta.Status, http string) Line {
	return Line{
		Time: Stamp{at}, Event: "ready", ID: string(s.ID), Cluster: s.Cluster, Election: s.Election,
		Listen: s.Listen, Advertise: s.Advertise, HTTP: http, Algorithm: s.Algorithm, Guarantee: s.Guarantee, Fencing: &s.Fencing,
	}
}

// EventLine returns an event that member id saw.
func EventLine(id batuta.ID, ev batuta.Event) Line {
	l := Line{Time: Stamp{ev.Time}, Event: string(ev.Kind), ID: string(id)}
	switch ev.Kind {
	case batuta.EventLeader:
		l.setToken(ev.View.Election, ev.View.Token)
		l.Meta = ev.View.Meta
	case batuta.EventRenewed, batuta.EventReady:
		l.setToken(ev.View.Election, ev.View.Token)
	case batuta.EventLost:
		l.setToken(ev.View.Election, ev.View.Lost)
		l.Cause = string(ev.View.Cause)
	case batuta.EventMember:
		l.Member, l.State, l.Address = string(ev.Member), stateName(ev.State), ev.Address
	case batuta.EventMeta:
		l.Member, l.Meta = string(ev.Member), ev.Meta
	case batuta.EventStanding:
		l.Standing, l.Why = string(ev.Standing), Worded(ev.Why)
	}
	return l
}

// NamedLine returns member id's view of a named election; false: there was no event yet.
func NamedLine(id batuta.ID, v batuta.View) (l Line, ok bool) {
	ev := batuta.Event{Time: v.Since, Kind: batuta.EventLeader, View: v}
	if !v.Defined() {
		ev.Kind = batuta.EventLost
	}
	l = EventLine(id, ev)
	seat := v.Seat // a pointer into v would keep all of it
	l.Seat = &seat
	return l, v.Defined() || v.Lost.Defined()
}

// BehindLine reports to a reader of member id's events that it has missed some of
// that election; empty: of all.
func BehindLine(id batuta.ID, at time.Time, election string) Line {
	return Line{Time: Stamp{at}, Event: "behind", ID: string(id), Election: election}
}

// Pairs formats the metadata of a member as a line, without that of batuta's packages.
func Pairs(pairs map[string]string) string {
	var words []string
	pairs = meta.UsersOf(pairs)
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		words = append(words, key+"="+pairs[key])
	}
	return strings.Join(words, " ")
}

func (l *Line) setToken(election string, t batuta.Token) {
	l.Election, l.Leader, l.Epoch = election, string(t.Leader.ID), t.Epoch
}

// WriteJSON writes l as a JSON object and a newline, in a single write.
func (l Line) WriteJSON(w io.Writer) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Text writes lines for a user, without changes of metadata of batuta's packages.
type Text struct {
	Short bool // with the local time of day, for a terminal

	metas map[string]string // of members, as last written
}

// Write writes l in a single write; it escapes what is not printable.
func (t *Text) Write(l Line, w io.Writer) error {
	switch l.Event {
	case "behind": // the present state follows
		t.metas = nil
	case "meta":
		was, known := t.metas[l.Member]
		now := Pairs(l.Meta)
		if now == was && (known || len(l.Meta) > 0) {
			return nil
		}
		if t.metas == nil {
			t.metas = map[string]string{}
		}
		t.metas[l.Member] = now
	}
	_, err := fmt.Fprintf(w, "%s  %-8s  %s\n", l.Time.Text(t.Short), election.Shown(l.Event), election.Shown(l.story()))
	return err
}

func (l Line) story() string {
	if l.Seat != nil {
		name, seat := l.Election, *l.Seat
		if l.Seat = nil; seat > 0 {
			name = fmt.Sprintf("%s (seat %d)", name, seat)
		}
		return name + ": " + l.story()
	}
	switch l.Event {
	case "ready":
		if l.Leader != "" {
			return fmt.Sprintf("the work of %s serves, epoch %d", l.Leader, l.Epoch)
		}
		api := "HTTP API off"
		if l.HTTP != "" {
			api = "HTTP API on " + l.HTTP
		}
		if l.Advertise != l.Listen {
			api = "others reach it at " + cmp.Or(l.Advertise, "an address that is not known yet") + ", " + api
		}
		return fmt.Sprintf("member %s of cluster %q listens on %s, %s; %s, %s", l.ID, l.Cluster, l.Listen, api, l.Algorithm, l.Guarantee)
	case "leader":
		if l.Leader == l.ID {
			return fmt.Sprintf("this member (%s) leads, epoch %d", l.Leader, l.Epoch)
		}
		return fmt.Sprintf("%s leads, epoch %d", l.Leader, l.Epoch)
	case "renewed":
		return fmt.Sprintf("%s still leads, epoch %d: a partition has healed", l.Leader, l.Epoch)
	case "lost":
		return fmt.Sprintf("%s lost leadership, epoch %d: %s", l.Leader, l.Epoch, l.Cause)
	case "member":
		return fmt.Sprintf("%s at %s is %s", l.Member, l.Address, l.State)
	case "meta":
		return l.Member + " publishes " + cmp.Or(Pairs(l.Meta), "nothing")
	case "behind":
		some := "some"
		if l.Missed > 0 {
			some = strconv.FormatUint(l.Missed, 10)
		}
		return fmt.Sprintf("%s events of election %s are left out: the present state follows", some, cmp.Or(l.Election, "(all)"))
	case "reset":
		return "the agent has started since, or this is a different agent: the present state follows"
	case "standing":
		if l.Why == "" {
			return fmt.Sprintf("%s is a candidate", l.ID)
		}
		return fmt.Sprintf("%s is not a candidate (%s): %s", l.ID, l.Standing, l.Why)
	}
	return l.Event
}
