package api

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/batuta-dev/batuta/internal/api/journal"
)

// The present view is given whole, however many elections it has: a client could not go on in the
// middle of it.
func TestAPollGivesTheWholeView(t *testing.T) {
	j := journal.New()
	for i := range maxPoll + 10 {
		j.Add(journal.Event{Election: fmt.Sprint(i), Name: "leader", JSON: []byte(`{"event":"leader"}`)})
	}
	in := &reader{Reader: j.Read("", func(string) bool { return true })}
	w := httptest.NewRecorder()
	poll(w, httptest.NewRequest("GET", "/v1/events", nil), in, 0)
	var list []json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != maxPoll+10 {
		t.Errorf("%d events (%v), want %d", len(list), err, maxPoll+10)
	}
	if next := w.Header().Get(IndexHeader); next != in.Position() {
		t.Errorf("the next index is %s, want %s", next, in.Position())
	}
}
