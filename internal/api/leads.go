package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta"
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
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader", s.node.ID())
	}
}

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
	is := Readiness{true, string(st.Standing), st.StandingWhy, Stamp{st.StandingSince}}
	switch {
	case answerWhile(w, is, func() bool { return s.node.Leader().Defined() }):
	case st.StandingWhy != "":
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader, and does not stand itself since %s (%s): %s",
			st.ID, st.StandingSince.UTC().Format(time.RFC3339), st.Standing, st.StandingWhy)
	default:
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader", st.ID)
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
