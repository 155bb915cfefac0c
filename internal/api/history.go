package api

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
)

// Bounds of the history.
const (
	maxHistory = 1000 // events
	maxReasons = 40   // records behind one event, the last ones
)

// History is the answer of /v1/history.
type History struct {
	Began  Stamp    `json:"began"`  // when this agent began to listen; before that nothing is known
	Now    Stamp    `json:"now"`    // by this agent's clock
	Events []Reason `json:"events"` // the last 1000, oldest first

	Links *[]string `json:"links,omitempty"` // members to which a connection stands; absent: not known
}

// Reason is an event, and what the member did since the event before it: why it came
// to this.
type Reason struct {
	Line
	Records []Record `json:"records"` // without messages
}

// history keeps what came about and why, for longer than the node's trace does, which
// is full of messages.
type history struct {
	began time.Time

	seen time.Time // of the last record that was taken; follow's alone

	mu     sync.Mutex
	events []Reason
}

func newHistory(began time.Time) *history { return &history{began: began} }

// follow takes in what node sees, until it or ctx ends. It does little at each event: an
// event most often comes while the cluster has an election to get done.
func (h *history) follow(ctx context.Context, node Node) {
	for ev, err := range follow.On(ctx, batuta.ErrBehind, node.Events) {
		if err == nil { // else it goes on at the present
			h.add(EventLine(node.ID(), ev), node.Reasons(h.seen))
		}
	}
}

// add keeps an event, and what the node did since the one before.
func (h *history) add(l Line, news []batuta.Record) {
	if len(news) > 0 {
		h.seen = news[len(news)-1].At
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Reason{l, recordsOf(news[max(0, len(news)-maxReasons):])})
	h.events = slices.Delete(h.events, 0, max(0, len(h.events)-maxHistory))
}

// present is what there is now.
func (h *history) present() History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return History{Began: Stamp{h.began}, Now: Stamp{time.Now()}, Events: append([]Reason{}, h.events...)}
}

// linksOf are the members to which a connection stands.
func linksOf(st batuta.Status) *[]string {
	ids := []string{}
	for _, m := range st.Members {
		if m.Linked {
			ids = append(ids, string(m.ID))
		}
	}
	return &ids
}

// past tells what this member has seen; one that is stuck tells that, too.
func (s *Server) past(w http.ResponseWriter, r *http.Request) {
	h := s.history.present()
	if r.URL.Query().Get("leaderships") == "true" {
		h = h.leaderships()
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	if st, err := s.node.Status(ctx); err == nil {
		h.Links = linksOf(st)
	}
	reply.Much(w, r, h)
}
