package api

import (
	"bytes"
	"net/http"
)

// atOnce is how many long answers are made at one time. Each takes a processor for as long
// as its list is long, and the member's own loop comes in between: dozens at once, of
// thousands of elections, held it up for longer than T.
const atOnce = 2

// turns has long answers made one after the other.
type turns chan struct{}

func newTurns() turns { return make(turns, atOnce) }

// inTurn makes the answer when it is its turn, and sends it afterwards: a slow reader
// delays no answer.
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
		w.Write(made.body.Bytes()) // a client that went away is no fault of ours
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
