// Package reply has what the answers of an agent's HTTP API are made of.
package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batuta-dev/batuta/internal/web"
)

// JSON answers with v.
func JSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"error":"answer cannot be encoded"}`)
	}
	Send(w, code, append(body, '\n'))
}

// Fail answers with an error.
func Fail(w http.ResponseWriter, code int, format string, args ...any) {
	JSON(w, code, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// Much is JSON for what may be long: it is compressed for a client that accepts that.
func Much(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		JSON(w, http.StatusOK, v) // which reports that
		return
	}
	Send(w, http.StatusOK, web.Zip(w.Header(), r, append(body, '\n')))
}

// News is Much under a tag (RFC 9110, 8.8.3), and nothing to a client that has seen that already. The tag is a
// weak one: it is the same for a compressed answer.
func News(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		JSON(w, http.StatusOK, v) // which reports that
		return
	}
	sum := fnv.New64a()
	sum.Write(body)
	tag := fmt.Sprintf(`W/"%x"`, sum.Sum64())
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	Send(w, http.StatusOK, web.Zip(w.Header(), r, append(body, '\n')))
}

// Send answers with JSON that is made already.
func Send(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	w.Write(body) // a client that went away is no fault of ours
}

// Read reads a request's body to its end, at most limit bytes, into v, which stays as it is if the body is empty and
// that is allowed. Without success it answers, with what to send, and is false.
func Read(w http.ResponseWriter, r *http.Request, limit int64, empty bool, v any, send string) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil && !(empty && len(strings.TrimSpace(string(body))) == 0) {
		err = decode(string(body), v)
	}
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLong:
		Fail(w, http.StatusRequestEntityTooLarge, "body: more than %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		Fail(w, http.StatusRequestTimeout, "body: it has not ended in time")
	case err != nil:
		Fail(w, http.StatusBadRequest, "body: %v; send %s", err, send)
	}
	return err == nil
}

func decode(body string, v any) error {
	if !utf8.ValidString(body) {
		return errors.New("it is not UTF-8")
	}
	in := json.NewDecoder(strings.NewReader(body))
	in.DisallowUnknownFields()
	err := in.Decode(v)
	wrong, mismatch := errors.AsType[*json.UnmarshalTypeError](err) // its text names types of Go
	switch {
	case mismatch:
		return fmt.Errorf("%s is %s, not %s", field(body, wrong.Offset), kind(wrong.Value), wanted(wrong.Type))
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case strings.TrimSpace(body) == "null":
		return errors.New("it is null, not an object")
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("it goes on after the object")
	}
	if null := field(body, 0); null != whole {
		return fmt.Errorf("%s is null: leave it out", null)
	}
	return nil
}

// whole is the name of a body itself.
const whole = "it"

// field quotes the name of the first field of a body that reaches the offset, or, at offset 0, is null.
func field(body string, offset int64) string {
	in := json.NewDecoder(strings.NewReader(body))
	open, _ := in.Token()
	for open == json.Delim('{') && in.More() {
		name, err := in.Token()
		var value json.RawMessage
		if err != nil || in.Decode(&value) != nil {
			break
		}
		if offset > 0 && in.InputOffset() >= offset || offset == 0 && string(value) == "null" {
			return fmt.Sprintf("%.64q", name)
		}
	}
	return whole
}

// kind names a value of JSON, which the package json names array, object, bool, string, number or number N.
func kind(value string) string {
	switch number, isOne := strings.CutPrefix(value, "number "); {
	case isOne:
		return fmt.Sprintf("the number %.40s", number)
	case value == "array", value == "object":
		return "an " + value
	case value == "bool":
		return "a boolean"
	}
	return "a " + value
}

// wanted names what a field of that type takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Uint64:
		return "a whole number of 64 bits, 0 or more"
	case reflect.Struct, reflect.Map:
		return kind("object")
	}
	return kind(t.Kind().String())
}

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
