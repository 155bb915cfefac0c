package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/journal"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
)

// Bounds of a long poll.
const (
	maxWait = 5 * time.Minute
	maxPoll = 1000 // events of an answer
)

// IndexHeader is the header of an answer of /v1/events with the index after which the next poll
// continues.
const IndexHeader = "Batuta-Index"

// events answers with the node's events: the current view first, or what follows an index. It is a
// stream of server-sent events, or a list with wait=. The node never waits for a client: each reads
// independently, and is cut off if it does not receive an event within writeTimeout.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		reply.Fail(w, http.StatusServiceUnavailable, "%d event streams are open already; close one", maxStreams)
		return
	}
	of, err := s.chosen(r)
	after := r.URL.Query().Get("since")
	if err == nil && after != "" && !journal.Valid(after) {
		err = fmt.Errorf("since=%q: give the index of an event, or leave it out for the current view", after)
	}
	wait, errWait := time.ParseDuration(r.URL.Query().Get("wait"))
	polls := r.URL.Query().Has("wait")
	if err == nil && polls && (errWait != nil || wait < 0 || wait > maxWait) {
		err = fmt.Errorf("wait=%q: give a duration of 0s to %v, such as 30s", r.URL.Query().Get("wait"), maxWait)
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	in := s.recorder.read(after, of)
	if polls {
		poll(w, r, in, wait)
		return
	}
	out := reply.NewStream(w)
	if r.Method == http.MethodHead || out.Flush() != nil {
		return
	}
	for r.Context().Err() == nil && !in.Over() {
		ctx, cancel := context.WithTimeout(r.Context(), pingEvery)
		e, ok := in.Next(ctx)
		cancel()
		if !ok {
			e = reply.Event{ID: in.Position()}
		}
		if out.Send(e) != nil {
			return
		}
	}
}

// poll answers with the available events, or waits for the next.
func poll(w http.ResponseWriter, r *http.Request, in *reader, wait time.Duration) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // it outlasts the time that a request has to arrive
	_ = rc.SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	list := []json.RawMessage{}
	for len(list) < maxPoll || in.InView() { // an index of the view may not be kept any longer
		e, ok := in.Next(ctx)
		if !ok {
			break
		}
		list = append(list, append([]byte(`{"index":"`+e.ID+`",`), e.JSON[1:]...))
		cancel() // only events that are available already follow
		w.Header().Set(IndexHeader, e.ID)
	}
	if len(list) < maxPoll {
		w.Header().Set(IndexHeader, in.Position())
	}
	reply.Much(w, r, list)
}

// choice is the elections of a stream.
type choice struct {
	own   bool
	all   bool
	named string // its name; "": none
}

// everyNamed is no name of an election: its events are about all named elections.
const everyNamed = "\x00"

func (c choice) about(election string) bool {
	return c.own && election == "" || election != "" && (c.all || election == c.named || election == everyNamed && !c.own)
}

// chosen reads the choice of a request: the cluster's own election, with election=NAME that named
// election instead, and with elections=true all.
func (s *Server) chosen(r *http.Request) (choice, error) {
	q := r.URL.Query()
	name, all := q.Get("election"), q.Get("elections")
	switch {
	case all != "" && all != "true" && all != "false":
		return choice{}, fmt.Errorf("elections=%q: write true, or leave it out", all)
	case all == "true" && name != "":
		return choice{}, errors.New("election and elections are both there: leave one out")
	case name == "" || name == s.node.Leader().Election:
		return choice{own: true, all: all == "true"}, nil
	}
	e, ok := s.many()
	if !ok {
		return choice{}, fmt.Errorf(noElection, name)
	}
	el := e.Election(name)
	for _, err := range el.Watch(r.Context()) {
		return choice{named: el.Name()}, err
	}
	return choice{named: el.Name()}, nil
}

// recorder records the node's events in a journal, from the first reader on.
type recorder struct {
	node       Node
	log        *slog.Logger
	life       context.Context // of the API
	end        context.CancelFunc
	journal    *journal.Journal
	own, named sync.Once
	namedOver  chan struct{} // closed when no named election is recorded any more
}

func newRecorder(node Node, log *slog.Logger) *recorder {
	life, end := context.WithCancel(context.Background())
	return &recorder{node: node, log: log, life: life, end: end, journal: journal.New(), namedOver: make(chan struct{})}
}

// reader makes the events of a stream from those of a journal.
type reader struct {
	*journal.Reader
	r  *recorder
	of choice
}

// read returns a reader of what follows an index, or of the current view.
func (r *recorder) read(after string, of choice) *reader {
	in := &reader{r.journal.Read(after, of.about), r, of}
	r.own.Do(func() { go r.recordOwn() })
	if e, ok := r.node.(Elections); ok && !(of.own && !of.all) {
		r.named.Do(func() { go r.recordNamed(e) })
	}
	return in
}

// Next waits for the next event; false: ctx or the node is over.
func (r *reader) Next(ctx context.Context) (reply.Event, bool) {
	e, ok := r.Reader.Next(ctx)
	if ok && e.JSON == nil {
		l := BehindLine(r.r.node.ID(), time.Now(), r.of.named)
		if r.of.own && !r.of.all {
			l.Election = r.r.node.Leader().Election
		}
		l.Event, l.Missed = e.Name, e.Missed
		e.JSON, _ = json.Marshal(l) // of strings and numbers
	}
	return reply.Event{ID: e.Index, Name: e.Name, JSON: e.JSON}, ok
}

// recordOwn records the cluster's own election, and the end of the node.
func (r *recorder) recordOwn() {
	defer func() {
		r.named.Do(func() { close(r.namedOver) })
		<-r.namedOver
		r.journal.End()
	}()
	record(r, r.node.Events, func(ev batuta.Event, behind bool) {
		l := EventLine(r.node.ID(), ev)
		if behind {
			l = BehindLine(r.node.ID(), time.Now(), r.node.Leader().Election)
		}
		r.add("", l)
		if v := ev.View; ev.Kind == batuta.EventRenewed || ev.Kind == batuta.EventMeta && ev.Member == v.Token.Leader.ID {
			text, _ := json.Marshal(EventLine(r.node.ID(), batuta.Event{Time: v.Since, Kind: batuta.EventLeader, View: v}))
			r.journal.Amend(text)
		}
	})
}

// recordNamed records all named elections.
func (r *recorder) recordNamed(e Elections) {
	defer close(r.namedOver)
	most := 1024
	record(r, e.Elections, func(v batuta.View, behind bool) {
		l, told := NamedLine(r.node.ID(), v)
		switch {
		case behind:
			r.add(everyNamed, BehindLine(r.node.ID(), time.Now(), ""))
		case told:
			r.add(v.Election, l)
		}
		if r.journal.Views() > most {
			r.journal.Forget(func(election string) bool { return election != "" && len(e.Election(election).Leaders()) == 0 })
			most = 2 * max(512, r.journal.Views())
		}
	})
}

// record calls do for each event of watch, until the API or the node ends. If watch was behind, it
// continues with the present view.
func record[E any](r *recorder, watch func(context.Context) iter.Seq2[E, error], do func(e E, behind bool)) {
	for e, err := range follow.On(r.life, batuta.ErrBehind, watch) {
		behind := errors.Is(err, batuta.ErrBehind)
		if err != nil {
			r.log.Warn("events of the API are left out", "error", err)
		}
		if err != nil && !behind {
			return
		}
		do(e, behind)
	}
}

func (r *recorder) add(election string, l Line) {
	text, err := json.Marshal(l)
	if err != nil {
		r.log.Warn("an event cannot be encoded", "event", l.Event, "error", err)
		return
	}
	e := journal.Event{Election: election, Name: l.Event, JSON: text}
	if l.Seat != nil {
		e.Seat = *l.Seat
	}
	r.journal.Add(e)
}

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
