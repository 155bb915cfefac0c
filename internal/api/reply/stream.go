package reply

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// writeTimeout is how long a client may take for each event of a stream.
const writeTimeout = 10 * time.Second

// Event is a part of a stream.
type Event struct {
	ID   string // where a client goes on after it; "": it cannot
	Name string
	JSON []byte
}

// Stream answers with events, each under a deadline of its own: 10 s.
type Stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	json bool // an object per line, without names and ids
}

// NewStream begins a stream of server-sent events.
func NewStream(w http.ResponseWriter) *Stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := &Stream{w: w, rc: http.NewResponseController(w)}
	_ = s.rc.SetReadDeadline(time.Time{}) // a stream outlives the time that a request has to arrive
	return s
}

// NewLines is NewStream, with a JSON object per line where the client accepts that.
func NewLines(w http.ResponseWriter, r *http.Request) *Stream {
	s := NewStream(w)
	for _, accepted := range []string{"application/x-ndjson", "application/jsonl", "application/json"} {
		if strings.Contains(r.Header.Get("Accept"), accepted) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			s.json = true
		}
	}
	return s
}

// Send sends an event. Without a name the client sees none, and keeps its id.
func (s *Stream) Send(e Event) error {
	if s.json {
		return s.write("%s\n", e.JSON)
	}
	text := ""
	if e.ID != "" {
		text = "id: " + e.ID + "\n"
	}
	if e.Name == "" {
		return s.write(": nothing new\n%s\n", text)
	}
	return s.write("event: %s\n%sdata: %s\n\n", e.Name, text, e.JSON)
}

func (s *Stream) write(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.Flush()
}

// Flush sends what is there, the head of the answer at least.
func (s *Stream) Flush() error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // where it cannot be set there is none to extend
	return s.rc.Flush()
}
