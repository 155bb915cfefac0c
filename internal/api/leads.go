package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

// This file answers questions about a single moment: which member leads. A process may be stopped
// at any point. So such an answer is prepared first, then checked, and then sent at once.

// leads answers a load balancer: 200 only on the leader.
func (s *Server) leads(w http.ResponseWriter, _ *http.Request) {
	serves := func() bool {
		v := s.node.Leader()
		return v.Ready() && v.Token.Leader.ID == s.node.ID() && s.node.IsLeader()
	}
	switch {
	case answerWhile(w, map[string]any{"leader": s.node.ID()}, serves):
	case s.node.IsLeader():
		reply.Fail(w, http.StatusServiceUnavailable, "member %s leads, and its work does not serve yet", s.node.ID())
	default:
		reply.Fail(w, http.StatusServiceUnavailable, "member %s is not the leader%s", s.node.ID(), whoIs(s.node.Leader()))
	}
}

// Serving is the body of POST /v1/ready, and of its answer.
type Serving struct {
	Epoch uint64 `json:"epoch"`
}

// ready takes the report of a service that it serves, under that epoch; 0: the present epoch.
func (s settings) ready(w http.ResponseWriter, r *http.Request) {
	var of Serving
	if !reply.Read(w, r, maxBody, true, &of, `{"epoch":7}`) {
		return
	}
	v := s.node.Leader()
	if !v.Defined() { // to Ready the zero Token reports the opposite
		s.leadsNot(w, r)
		return
	}
	t := v.Token
	now := Serving{t.Epoch}
	t.Epoch = cmp.Or(of.Epoch, t.Epoch)
	s.set(w, r, "ready", now, func(ctx context.Context, n settable) error { return n.Ready(ctx, t) })
}

func (s *Server) leader(w http.ResponseWriter, r *http.Request) {
	v := s.node.Leader()
	if name := r.URL.Query().Get("election"); name != "" && name != v.Election {
		s.namedLeader(w, r, name)
		return
	}
	answered := s.answerLeader(w, leaderOf(v), v.Token, s.node.Leader)
	if !answered { // leadership may have changed since
		v = s.node.Leader()
		answered = s.answerLeader(w, leaderOf(v), v.Token, s.node.Leader)
	}
	if !answered {
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader"+seeStatus, s.node.ID())
	}
}

// seeStatus ends the answer of a member without a leader.
const seeStatus = "; batuta status prints why"

// answerLeader answers with l, the leader by token, unless leader returns a different token by
// then.
func (s *Server) answerLeader(w http.ResponseWriter, l Leader, token batuta.Token, leader func() batuta.View) bool {
	return answerWhile(w, l, func() bool { return token.Defined() && leader().Token == token })
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	st, ok := s.ask(w, r)
	if !ok {
		return
	}
	why := Worded(st.StandingWhy)
	is := Readiness{true, string(st.Standing), why, Stamp{st.StandingSince}}
	switch {
	case answerWhile(w, is, func() bool { return s.node.Leader().Defined() }):
	case why != "":
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader, and is no candidate since %s (%s): %s",
			st.ID, st.StandingSince.UTC().Format(time.RFC3339), st.Standing, why)
	default:
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader"+seeStatus, st.ID)
	}
}

// answerWhile answers with v if holds is true then, and sends the answer at once. Otherwise it
// sends nothing and returns false.
func answerWhile(w http.ResponseWriter, v any, holds func() bool) bool {
	body, err := json.Marshal(v)
	if err != nil {
		reply.JSON(w, http.StatusOK, v) // reports the error
		return true
	}
	body = append(body, '\n')
	size := strconv.Itoa(len(body))
	if !holds() {
		return false
	}
	w.Header().Set("Content-Length", size)
	reply.Send(w, http.StatusOK, body)
	_ = http.NewResponseController(w).Flush() // a writer without Flush sends when the handler returns
	return true
}

// Heir is the body of POST /v1/transfer: the transfer target.
type Heir struct {
	ID       string `json:"id"`
	Election string `json:"election,omitempty"` // default the cluster's own
}

// transfer answers once the new leader leads.
func (s *Server) transfer(w http.ResponseWriter, r *http.Request) {
	var h Heir
	if !reply.Read(w, r, maxBody, false, &h, `{"id":"4"}`) {
		return
	}
	id, err := election.ParseID(h.ID)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	if h.Election != "" && h.Election != s.node.Leader().Election {
		s.transferNamed(ctx, w, h.Election, id)
		return
	}
	if err := s.handOver(ctx, id); err != nil {
		s.failed(w, r, err, "transfer to "+string(id), unsure)
		return
	}
	reply.JSON(w, http.StatusOK, map[string]string{"transferred": string(id)})
}

// unsure is added to an error if the leader's answer is missing.
const unsure = "the leader's work may not have stopped yet, or its answer was lost: see which member leads before you ask again"

// leadership is the part of the cluster's own election for calls that only the leader can handle.
type leadership interface {
	Transfer(ctx context.Context, id batuta.ID) error
	StepDown(ctx context.Context, leader batuta.ID) error
}

// lead returns the cluster's own election; nil: this member forwards no call.
func (s *Server) lead() leadership {
	if e, ok := s.many(); ok {
		return e.Election(s.node.Leader().Election)
	}
	return nil
}

func (s *Server) handOver(ctx context.Context, id batuta.ID) error {
	if l := s.lead(); l != nil {
		return l.Transfer(ctx, id)
	}
	return s.node.Transfer(ctx, id)
}

// Leaver is the body of POST /v1/resign, which may be empty: only this leader has to resign.
type Leaver struct {
	ID string `json:"id,omitempty"`
}

// resign answers once that leadership has ended.
func (s *Server) resign(w http.ResponseWriter, r *http.Request) {
	var l Leaver
	if !reply.Read(w, r, maxBody, true, &l, `{"id":"4"}, or nothing`) {
		return
	}
	id := batuta.ID("")
	if l.ID != "" {
		var err error
		if id, err = election.ParseID(l.ID); err != nil {
			reply.Fail(w, http.StatusBadRequest, "%v", err)
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	v := s.node.Leader()
	if err := s.stepDown(ctx, id); err != nil {
		s.failed(w, r, err, "resign", unsure)
		return
	}
	reply.JSON(w, http.StatusOK, map[string]string{"resigned": v.Token.String()})
}

func (s *Server) stepDown(ctx context.Context, id batuta.ID) error {
	if l := s.lead(); l != nil {
		return l.StepDown(ctx, id)
	}
	if !s.node.IsLeader() || id != "" && id != s.node.ID() {
		return batuta.ErrNotLeading
	}
	return s.node.Resign(ctx)
}

// Break is the body of POST /v1/pause.
type Break struct {
	For string `json:"for"` // as Go writes durations
}

// pause answers once this member has applied the pause.
func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	var b Break
	if !reply.Read(w, r, maxBody, false, &b, `{"for":"1h"}`) {
		return
	}
	length, err := time.ParseDuration(b.For)
	if err != nil || length <= 0 || length > batuta.MaxPause {
		reply.Fail(w, http.StatusBadRequest, "pause for %.64q: give a duration above zero, at most %v, such as {\"for\":\"1h\"}", b.For, batuta.MaxPause)
		return
	}
	s.pauses(w, r, length)
}

func (s *Server) pauses(w http.ResponseWriter, r *http.Request, length time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	err := errors.New("a node of this kind cannot be paused")
	if n, ok := s.node.(interface {
		Pause(context.Context, time.Duration) error
	}); ok {
		err = n.Pause(ctx, length)
	}
	var now batuta.Status
	if err == nil {
		now, err = s.node.Status(ctx)
	}
	if err != nil {
		s.failed(w, r, err, "pause", "its answer may have been lost: see the status before you ask again")
		return
	}
	reply.JSON(w, http.StatusOK, map[string]*Paused{"paused": pausedOf(now)})
}
