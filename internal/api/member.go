package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

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
		return "; no leader is known"
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
		who += fmt.Sprintf(": %d of %d voters are reached here, and to elect one takes more than half", up, len(voters))
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
