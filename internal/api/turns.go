package api

import (
	"bytes"
	"net/http"
)

// atOnce is how many long answers are prepared at the same time. Each takes a CPU core in
// proportion to the length of its list, and competes with the member's own loop: dozens at once,
// for thousands of elections, delayed the loop for longer than T.
const atOnce = 2

// turns limits how many long answers are prepared at once.
type turns chan struct{}

func newTurns() turns { return make(turns, atOnce) }

// inTurn prepares the answer in its turn, and sends it afterwards: a slow reader delays no answer.
func (t turns) inTurn(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case t <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		made := made{header: w.Header(), code: http.StatusOK}
		func() {
			defer func() { <-t }()
			do(&made, r)
		}()
		w.WriteHeader(made.code)
		w.Write(made.body.Bytes()) // a client that disconnected is not our fault
	}
}

// made is an answer that is still to be sent.
type made struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (m *made) Header() http.Header         { return m.header }
func (m *made) WriteHeader(code int)        { m.code = code }
func (m *made) Write(b []byte) (int, error) { return m.body.Write(b) }
