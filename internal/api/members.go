package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

// Place is a member to add: the body of POST /v1/members, and its answer.
type Place struct {
	ID      string `json:"id"`
	Address string `json:"address"` // HOST:PORT
	// Priority ranks before the id, until the member's process starts again; nil: no change.
	Priority *int `json:"priority,omitempty"`
}

func (s *Server) members(w http.ResponseWriter, r *http.Request) {
	if st, ok := s.ask(w, r); ok {
		reply.Much(w, r, membersOf(st))
	}
}

// MemberView is an entry of /v1/views.
type MemberView struct {
	ID        string   `json:"id"`
	Address   string   `json:"address"`
	Leader    *string  `json:"leader"` // null: it has none, or did not answer
	Epoch     uint64   `json:"epoch,omitempty"`
	Token     *string  `json:"token"`                // "epoch:leader"; null as leader is
	RoundTrip *float64 `json:"round_trip,omitempty"` // seconds
	Error     string   `json:"error,omitempty"`      // why there is no answer
}

// views answers which leadership each other member follows, as the members themselves answer.
func (s *Server) views(w http.ResponseWriter, r *http.Request) {
	asked, err := s.node.AskMembers(r.Context())
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		reply.Fail(w, http.StatusNotImplemented, "%v", err)
		return
	case err != nil:
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
		return
	}
	views := []MemberView{}
	for _, a := range asked {
		v := MemberView{ID: string(a.ID), Address: a.Address}
		switch {
		case a.Err != nil:
			v.Error = a.Err.Error()
		default:
			v.RoundTrip = new(a.RoundTrip.Seconds())
			v.Leader, v.Token = tokenOf(a.Token)
			v.Epoch = a.Token.Epoch
		}
		views = append(views, v)
	}
	reply.Much(w, r, views)
}

// addMember answers 201 for a new member, and 200 for an existing member: its address or its
// priority may have changed.
func (s *Server) addMember(w http.ResponseWriter, r *http.Request) {
	var p Place
	if !reply.Read(w, r, maxBody, false, &p, `{"id":"4","address":"10.0.0.4:7400"}`) {
		return
	}
	id, err := election.ParseID(p.ID)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	st, ok := s.ask(w, r)
	if !ok {
		return
	}
	code := http.StatusCreated
	if slices.ContainsFunc(st.Members, func(m batuta.MemberStatus) bool { return m.ID == id }) {
		code = http.StatusOK
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	err = s.node.AddMember(ctx, batuta.Peer{ID: id, Addr: p.Address})
	if err == nil && p.Priority != nil {
		err = s.node.SetPriority(ctx, id, *p.Priority)
	}
	switch {
	case unreached(err):
		reply.Fail(w, http.StatusGatewayTimeout, "add member %s: %v", id, err)
	case errors.Is(err, batuta.ErrNoMajority):
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
	case err != nil:
		reply.Fail(w, http.StatusBadRequest, "%v", err)
	default:
		reply.JSON(w, code, Place{string(id), p.Address, p.Priority})
	}
}

func (s *Server) removeMember(w http.ResponseWriter, r *http.Request) {
	id, err := election.ParseID(r.PathValue("id"))
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	force := r.URL.Query().Get("force")
	switch f, forces := s.node.(forcer); {
	case force != "" && force != "true" && force != "false":
		reply.Fail(w, http.StatusBadRequest, "force=%s: it is true or false", force)
		return
	case force == "true" && forces:
		err = f.ForceRemoveMember(ctx, id)
	default:
		err = s.node.RemoveMember(ctx, id)
	}
	if err != nil {
		s.failed(w, r, err, "remove member "+string(id), "see the members before you ask again")
		return
	}
	reply.JSON(w, http.StatusOK, map[string]string{"removed": string(id)})
}

// Health is the body of PUT /v1/health.
type Health struct {
	Healthy *bool  `json:"healthy"`
	Why     string `json:"why,omitempty"` // of an unhealthy member
}

// maxHealthWhy bounds that reason, in bytes.
const maxHealthWhy = 1000

// settings are the calls by which a client sets what the member of this agent publishes.
type settings struct{ member }

// settable is a node that accepts health, metadata and readiness from its API.
type settable interface {
	SetHealth(ctx context.Context, err error) error
	SetMeta(ctx context.Context, pairs map[string]string) error
	Ready(ctx context.Context, t batuta.Token) error
}

// health makes this member give up every leadership until it is healthy again.
func (s settings) health(w http.ResponseWriter, r *http.Request) {
	var h Health
	if !reply.Read(w, r, maxBody, false, &h, `{"healthy":false,"why":"the database is down"}`) {
		return
	}
	fault := ""
	switch {
	case h.Healthy == nil:
		fault = "healthy is missing"
	case *h.Healthy && h.Why != "":
		fault = "why is only for an unhealthy member: leave it out"
	case len(h.Why) > maxHealthWhy:
		fault = fmt.Sprintf("why has %d bytes: at most %d", len(h.Why), maxHealthWhy)
	}
	if fault != "" {
		reply.Fail(w, http.StatusBadRequest, "%s; send {\"healthy\":false,\"why\":\"the database is down\"}", fault)
		return
	}
	s.set(w, r, "health", h, func(ctx context.Context, n settable) error {
		if *h.Healthy {
			return n.SetHealth(ctx, nil)
		}
		return n.SetHealth(ctx, errors.New(cmp.Or(h.Why, "a client of its agent reported it")))
	})
}

// meta replaces the metadata that this member publishes.
func (s settings) meta(w http.ResponseWriter, r *http.Request) {
	pairs := map[string]string{}
	if reply.Read(w, r, maxBody, false, &pairs, `{"url":"http://10.0.0.3:8080"}`) {
		s.set(w, r, "meta", pairs, func(ctx context.Context, n settable) error { return n.SetMeta(ctx, pairs) })
	}
}

func (s settings) set(w http.ResponseWriter, r *http.Request, what string, now any, do func(context.Context, settable) error) {
	n, ok := s.node.(settable)
	if !ok {
		reply.Fail(w, http.StatusUnprocessableEntity, "member %s takes no %s from its API", s.node.ID(), what)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	switch err := do(ctx, n); {
	case unreached(err):
		reply.Fail(w, http.StatusGatewayTimeout, "%s: %v", what, err)
	case errors.Is(err, batuta.ErrNotLeading):
		s.leadsNot(w, r)
	case err != nil:
		reply.Fail(w, http.StatusBadRequest, "%v", err)
	default:
		reply.JSON(w, http.StatusOK, now)
	}
}

// forcer is a node that can remove a member though too few would be left.
type forcer interface {
	ForceRemoveMember(context.Context, batuta.ID) error
}

// member is the node of an API, and the answers to calls that it does not take.
type member struct{ node Node }

// ask queries the node, which answers at once unless it is stuck; that is reported.
func (m member) ask(w http.ResponseWriter, r *http.Request) (st batuta.Status, ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	st, err := m.node.Status(ctx)
	if err != nil {
		reply.Fail(w, http.StatusServiceUnavailable, "member %s is stuck: it has not answered within %v, and takes no part in elections meanwhile", m.node.ID(), askTime)
	}
	return st, err == nil
}

// many returns the node with its elections; false: it has none.
func (m member) many() (Elections, bool) {
	e, ok := m.node.(Elections)
	return e, ok
}

func (m member) isMember(ctx context.Context, id batuta.ID) bool {
	st, err := m.node.Status(ctx)
	return err == nil && slices.ContainsFunc(st.Members, func(s batuta.MemberStatus) bool { return s.ID == id })
}

func leaderOf(v batuta.View) Leader {
	return Leader{string(v.Token.Leader.ID), v.Token.Epoch, v.Address, v.Election, v.Meta}
}

func whoIs(v batuta.View) string {
	if !v.Defined() {
		return "; no leader is known" + seeStatus
	}
	return fmt.Sprintf("; %s leads", v.Token.Leader.ID)
}

// leadsNot refuses a call that only the leader can handle: it names the leader or, in a quorum
// without a leader, the number of reachable voters.
func (m member) leadsNot(w http.ResponseWriter, r *http.Request) {
	v := m.node.Leader()
	who := whoIs(v)
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	if st, err := m.node.Status(ctx); err == nil && !v.Defined() && st.Quorum != nil && len(st.Quorum.Voters) > 0 {
		up, voters := 0, st.Quorum.Voters[0]
		for _, s := range st.Members {
			if slices.Contains(voters, s.ID) && (s.ID == st.ID || s.State == batuta.StateUp) {
				up++
			}
		}
		who = fmt.Sprintf("; no leader is known: %d of %d voters are reached here, and to elect one takes more than half", up, len(voters))
	}
	reply.Fail(w, http.StatusConflict, "member %s is not the leader%s", m.node.ID(), who)
}

// failed answers why a change failed. what names it, and unsure is added if the leader's answer is missing.
func (m member) failed(w http.ResponseWriter, r *http.Request, err error, what, unsure string) {
	switch {
	case errors.Is(err, batuta.ErrNotMember):
		reply.Fail(w, http.StatusNotFound, "%v", err)
	case errors.Is(err, batuta.ErrNotLeading):
		m.leadsNot(w, r)
	case errors.Is(err, batuta.ErrUnfit), errors.Is(err, batuta.ErrTooFew):
		reply.Fail(w, http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, batuta.ErrNoMajority):
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, batuta.ErrRefusedElection):
		reply.Fail(w, http.StatusConflict, "%v", err)
	case unreached(err):
		reply.Fail(w, http.StatusGatewayTimeout, "%s: %v; %s", what, err, unsure)
	default:
		reply.Fail(w, http.StatusInternalServerError, "%v", err)
	}
}

// unreached reports whether the node has not handled the request.
func unreached(err error) bool {
	return errors.Is(err, batuta.ErrClosed) || errors.Is(err, batuta.ErrRemoved) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
