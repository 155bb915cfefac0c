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
	"strings"

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
	in := json.NewDecoder(strings.NewReader(body))
	in.DisallowUnknownFields()
	err := in.Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text names types of Go
		return fmt.Errorf("a %s has no place at %q", wrong.Value, "/"+wrong.Field)
	}
	if err == nil && in.More() {
		err = errors.New("it goes on after the object")
	}
	return err
}
