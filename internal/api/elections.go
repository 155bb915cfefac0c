package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

// Elections is the part of a [Node] with named elections that the API needs; without it the API
// reports none.
type Elections interface {
	Election(name string, options ...batuta.ElectionOption) *batuta.Election
	Elections(context.Context) iter.Seq2[batuta.View, error]
	ListElections() []batuta.View
	Drain(ctx context.Context, id batuta.ID, force bool) error
	Undrain(context.Context, batuta.ID) error
	Drained(context.Context) ([]batuta.ID, error)
}

// NamedElection is an entry of /v1/elections: a seat of a named election.
type NamedElection struct {
	Name    string  `json:"name"`
	Seat    int     `json:"seat"`   // 0, and more if several members lead at once
	Leader  *string `json:"leader"` // null while no member leads
	Epoch   uint64  `json:"epoch"`  // 0 while no member leads
	Token   *string `json:"token"`  // "epoch:leader"; null while no member leads
	Address string  `json:"address"`
	Since   Stamp   `json:"since"` // when this member learned of it

	Ready bool `json:"ready,omitempty"` // a client of the answering member leads it, and has reported that its work serves

	Stopping string `json:"stopping,omitempty"` // this member, if it led last and its work has still to stop: no member takes over before
}

func namedOf(v batuta.View) NamedElection {
	e := NamedElection{Name: v.Election, Seat: v.Seat, Since: Stamp{v.Since}}
	if v.Defined() {
		leader, token := string(v.Token.Leader.ID), v.Token.String()
		e.Leader, e.Epoch, e.Token, e.Address = &leader, v.Token.Epoch, &token, v.Address
	}
	return e
}

func (s *Server) elections(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	list := []NamedElection{}
	if e, ok := s.many(); ok {
		for _, v := range e.ListElections() {
			n := namedOf(v)
			if v.Lost.Leader.ID == s.node.ID() && works(ctx, e.Election(v.Election)) {
				n.Stopping = string(s.node.ID())
			}
			n.Ready = s.candidacies != nil && v.Token.Leader.ID == s.node.ID() && s.candidacies.Serves(v.Election, v.Token)
			list = append(list, n)
		}
	}
	reply.News(w, r, list)
}

// openElection returns an election in which clients are candidates.
func (s *Server) openElection(name string, options ...batuta.ElectionOption) (candidacy.Election, error) {
	if e, ok := s.many(); ok {
		return e.Election(name, options...), nil
	}
	return nil, fmt.Errorf("member %s has no named elections", s.node.ID())
}

// serves adds the event that the work of a leadership serves.
func (s *Server) serves(name string, t batuta.Token) {
	l := Line{Time: Stamp{time.Now()}, Event: "ready", ID: string(s.node.ID()), Seat: new(int)}
	l.setToken(name, t)
	if e, ok := s.many(); ok {
		for _, v := range e.Election(name).Leaders() {
			if v.Token == t {
				l.Seat = &v.Seat
			}
		}
	}
	s.recorder.add(name, l)
}

// Reserve refuses clients those elections for which reserved is true: this agent has work of its
// own there. Clients are never candidates of the cluster's own election. It must be called before
// Serve.
func (s *Server) Reserve(reserved func(name string) bool) {
	s.candidacies.Reserve(func(name string) bool { return name == s.node.Leader().Election || reserved(name) })
}

// works reports whether work that this member has begun for an election may still run.
func works(ctx context.Context, e *batuta.Election) bool {
	l, err := e.Lease(ctx)
	return err == nil && l.Left > 0
}

// knows reports whether there is an election of that name.
func (s *Server) knows(name string) bool {
	e, ok := s.many()
	if !ok {
		return false
	}
	el := e.Election(name)
	return el.Leader().Defined() || slices.ContainsFunc(e.ListElections(), func(v batuta.View) bool { return v.Election == el.Name() })
}

const noElection = "no election %q: no member is a candidate for it"

// namedLeader answers with the leader of a named election.
func (s *Server) namedLeader(w http.ResponseWriter, r *http.Request, name string) {
	if !s.knows(name) {
		reply.Fail(w, http.StatusNotFound, noElection, name)
		return
	}
	e, _ := s.many()
	of := e.Election(name)
	st, ok := s.ask(w, r)
	if !ok {
		return
	}
	v := of.Leader()
	l := leaderOf(v)
	for _, m := range st.Members {
		if m.ID == v.Token.Leader.ID {
			l.Meta = m.Meta
		}
	}
	if !s.answerLeader(w, l, v.Token, of.Leader) {
		reply.Fail(w, http.StatusServiceUnavailable, "member %s knows no leader of election %q; batuta explain --election %[2]s prints why", s.node.ID(), v.Election)
	}
}

// transferNamed answers once the new leader leads that election.
func (s *Server) transferNamed(ctx context.Context, w http.ResponseWriter, name string, id batuta.ID) {
	e, ok := s.many()
	if !ok {
		reply.Fail(w, http.StatusNotFound, noElection, name)
		return
	}
	err := e.Election(name).Transfer(ctx, id)
	switch {
	case err == nil:
		reply.JSON(w, http.StatusOK, map[string]string{"transferred": string(id)})
	case errors.Is(err, batuta.ErrRefusedElection) && !s.knows(name):
		reply.Fail(w, http.StatusNotFound, noElection, name)
	default:
		s.refuseElection(w, id, err)
	}
}

// Drain is the body of POST /v1/drain and, without force, of /v1/undrain.
type Drain struct {
	ID    string `json:"id"`
	Force bool   `json:"force,omitempty"` // also elections without a further candidate
}

// Drained is the answer to POST /v1/drain.
type Drained struct {
	ID         string `json:"drained"`
	StillLeads string `json:"still_leads,omitempty"` // the cluster's own election, which a drain does not move; "": it does not lead that
}

func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	s.ofMember(w, r, func(ctx context.Context, e Elections, id batuta.ID, force bool) (any, error) {
		err := e.Drain(ctx, id, force)
		done := Drained{ID: string(id)}
		if v := s.node.Leader(); v.Token.Leader.ID == id {
			done.StillLeads = v.Election
		}
		return done, err
	})
}

func (s *Server) undrain(w http.ResponseWriter, r *http.Request) {
	s.ofMember(w, r, func(ctx context.Context, e Elections, id batuta.ID, force bool) (any, error) {
		if force {
			return nil, errForce
		}
		drained, err := e.Drained(ctx)
		if err == nil && !slices.Contains(drained, id) && !s.isMember(ctx, id) {
			return nil, batuta.ErrNotMember
		}
		return map[string]string{"undrained": string(id)}, e.Undrain(ctx, id)
	})
}

var errForce = errors.New("undrain needs no force: leave it out")

// ofMember reads the member of a request, and calls do.
func (s *Server) ofMember(w http.ResponseWriter, r *http.Request, do func(context.Context, Elections, batuta.ID, bool) (any, error)) {
	var d Drain
	if !reply.Read(w, r, maxBody, false, &d, `{"id":"4"}`) {
		return
	}
	id, err := election.ParseID(d.ID)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	e, ok := s.many()
	if !ok {
		reply.Fail(w, http.StatusUnprocessableEntity, "member %s has only one election: there is nothing to drain", s.node.ID())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	done, err := do(ctx, e, id, d.Force)
	if err != nil {
		s.refuseElection(w, id, err)
		return
	}
	reply.JSON(w, http.StatusOK, done)
}

// refuseElection answers why a call about a member's elections failed.
func (s *Server) refuseElection(w http.ResponseWriter, id batuta.ID, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	switch refused := errors.Is(err, batuta.ErrRefusedElection); {
	case errors.Is(err, batuta.ErrConfig), errors.Is(err, errForce):
		reply.Fail(w, http.StatusBadRequest, "%v", err)
	case refused && !s.node.Leader().Defined():
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, batuta.ErrNotMember), refused && !s.isMember(ctx, id):
		reply.Fail(w, http.StatusNotFound, "member %s: not a member of this cluster", id)
	case errors.Is(err, batuta.ErrNotLeading):
		reply.Fail(w, http.StatusConflict, "member %s is not the leader%s", s.node.ID(), whoIs(s.node.Leader()))
	case refused, errors.Is(err, batuta.ErrUnfit):
		reply.Fail(w, http.StatusUnprocessableEntity, "%v", err)
	case unreached(err):
		reply.Fail(w, http.StatusGatewayTimeout, "member %s: %v; the work may not have ended yet", id, err)
	default:
		reply.Fail(w, http.StatusInternalServerError, "%v", err)
	}
}

// drained returns the members that are drained, and lead nothing.
func (s *Server) drained(ctx context.Context) (ids []string) {
	e, ok := s.many()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	drained, err := e.Drained(ctx)
	if err != nil {
		return nil
	}
	for _, id := range drained {
		ids = append(ids, string(id))
	}
	return ids
}
