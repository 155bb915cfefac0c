package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
)

// Bounds of the history.
const (
	maxHistory = 1000 // events
	maxReasons = 40   // last records of an event
)

// History is the answer of /v1/history.
type History struct {
	Began  Stamp    `json:"began"`  // when this agent began to record; nothing earlier is known
	Now    Stamp    `json:"now"`    // by this agent's clock
	Events []Reason `json:"events"` // the last 1000, oldest first

	// Of an older agent these are absent.
	Links   *[]string `json:"links,omitempty"`   // connected members
	Version string    `json:"version,omitempty"` // of its program
	Side    *Side     `json:"side,omitempty"`    // how much of the cluster it receives
}

// Reason is an event, and what the member did since the event before it, which explains it.
type Reason struct {
	Line
	Records []Record `json:"records"` // without messages
}

// history keeps events and their reasons, for longer than the node's trace, which is full of
// messages.
type history struct {
	began time.Time

	seen time.Time // of the last record; only for follow

	mu     sync.Mutex
	events []Reason
	named  []Line // leaderships of named elections
}

func newHistory(began time.Time) *history { return &history{began: began} }

// follow records the events of node, until it or ctx ends. It does little for each event: events
// often come while the cluster elects.
func (h *history) follow(ctx context.Context, node Node) {
	if e, ok := node.(Elections); ok {
		go h.followNamed(ctx, node.ID(), e)
	}
	for ev, err := range follow.On(ctx, batuta.ErrBehind, node.Events) {
		if err == nil { // after an error it continues at the present
			h.add(EventLine(node.ID(), ev), node.Reasons(h.seen))
		}
	}
}

// followNamed records the last leaderships of all named elections together.
func (h *history) followNamed(ctx context.Context, id batuta.ID, e Elections) {
	for v, err := range follow.On(ctx, batuta.ErrBehind, e.Elections) {
		if l, ok := NamedLine(id, v); err == nil && ok {
			h.mu.Lock()
			if h.named = append(h.named, l); len(h.named) > 4*maxHistory {
				h.named = slices.Delete(h.named, 0, 2*maxHistory)
			}
			h.mu.Unlock()
		}
	}
}

// add records an event, and what the node did since the previous event.
func (h *history) add(l Line, news []batuta.Record) {
	if len(news) > 0 {
		h.seen = news[len(news)-1].At
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Reason{l, recordsOf(news[max(0, len(news)-maxReasons):])})
	h.events = slices.Delete(h.events, 0, max(0, len(h.events)-maxHistory))
}

// present returns the present history: of a named election, if named is its name.
func (h *history) present(named string) History {
	h.mu.Lock()
	defer h.mu.Unlock()
	if named != "" {
		past := History{Began: Stamp{h.began}, Now: Stamp{time.Now()}, Events: []Reason{}}
		for _, l := range h.named {
			if l.Election == named {
				past.Events = append(past.Events, Reason{l, []Record{}})
			}
		}
		return past
	}
	return History{Began: Stamp{h.began}, Now: Stamp{time.Now()}, Events: append([]Reason{}, h.events...)}
}

// now adds what the member has at present.
func (h *History) now(st batuta.Status, version string) {
	ids, side := []string{}, sideOf(st)
	for _, m := range st.Members {
		if m.Linked {
			ids = append(ids, string(m.ID))
		}
	}
	h.Links, h.Version, h.Side = &ids, version, &side
}

// past answers with this member's history, even if its node is stuck.
func (s *Server) past(w http.ResponseWriter, r *http.Request) {
	of := r.URL.Query().Get("election")
	if e, ok := s.many(); of == s.node.Leader().Election {
		of = ""
	} else if ok && of != "" {
		of = e.Election(of).Name() // the canonical form
	}
	h := s.history.present(of)
	if of != "" && len(h.Events) == 0 {
		reply.Fail(w, http.StatusNotFound, "no election %q: no leadership of it is recorded", of)
		return
	}
	if r.URL.Query().Get("leaderships") == "true" {
		h = h.leaderships()
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	if st, err := s.node.Status(ctx); err == nil {
		h.now(st, s.version)
	}
	reply.Much(w, r, h)
}

func (l *Line) leadership() bool {
	return l.Event == "leader" || l.Event == "lost" || l.Event == "renewed"
}

// leaderships returns h without records; a member gives the reason for the end of its own
// leadership.
func (h History) leaderships() History {
	some := History{Began: h.Began, Now: h.Now, Events: []Reason{}}
	var since []Record // the last of these
	for _, e := range h.Events {
		since = append(since, e.Records...)
		if !e.leadership() {
			continue
		}
		if e.Event == "lost" && e.Leader == e.ID {
			e.Why = ownWord(since)
		}
		since, e.Records = nil, []Record{}
		some.Events = append(some.Events, e)
	}
	return some
}

// ownWord returns why a leadership ended, by its leader's records: on which request, if it
// resigned.
func ownWord(records []Record) (word string) {
	for _, r := range records {
		switch {
		case r.What == "resigns" && r.Why != "":
			return r.Why
		case r.What == "loses":
			_, word, _ = strings.Cut(r.Why, ": ")
		}
	}
	if !election.Printable(word, maxWhy) {
		return ""
	}
	return word
}
