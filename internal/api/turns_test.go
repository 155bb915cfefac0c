package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// However many ask at once, few answers are made at one time; who does not read its own
// holds up nobody.
func TestLongAnswersAreMadeInTurn(t *testing.T) {
	var making, most atomic.Int32
	do := newTurns().inTurn(func(w http.ResponseWriter, _ *http.Request) {
		n := making.Add(1)
		defer making.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		for range 100 {
			runtime.Gosched() // whoever may make an answer meanwhile does
		}
		w.Header().Set("ETag", "x")
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "made")
	})
	unread := make(chan struct{})
	var slow, quick sync.WaitGroup
	for range 2 * atOnce {
		slow.Go(func() { do(&unreadWriter{httptest.NewRecorder(), unread}, httptest.NewRequest("GET", "/", nil)) })
	}
	for range 50 {
		quick.Go(func() {
			w := httptest.NewRecorder()
			do(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != http.StatusTeapot || w.Body.String() != "made" || w.Header().Get("ETag") != "x" {
				t.Errorf("answered %d %q with %v", w.Code, w.Body, w.Header())
			}
		})
	}
	quick.Wait() // while the slow ones still wait for their readers
	close(unread)
	slow.Wait()
	if most.Load() > atOnce {
		t.Errorf("%d answers were made at one time, want %d at most", most.Load(), atOnce)
	}
}

// unreadWriter is of a client that reads nothing before that is closed.
type unreadWriter struct {
	http.ResponseWriter
	read chan struct{}
}

func (w *unreadWriter) Write(b []byte) (int, error) {
	<-w.read
	return w.ResponseWriter.Write(b)
}
