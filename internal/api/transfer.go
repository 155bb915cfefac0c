package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
)

// Heir is the body of POST /v1/transfer: who is to lead.
type Heir struct {
	ID       string `json:"id"`
	Election string `json:"election,omitempty"` // default the cluster's own
}

// transfer answers when the other leads.
func (s *Server) transfer(w http.ResponseWriter, r *http.Request) {
	var h Heir
	if !readBody(w, r, &h, `{"id":"4"}`) {
		return
	}
	id, err := election.ParseID(h.ID)
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	if h.Election != "" && h.Election != s.node.Leader().Election {
		s.transferNamed(ctx, w, h.Election, id)
		return
	}
	switch err := s.node.Transfer(ctx, id); {
	case err == nil:
		answer(w, http.StatusOK, map[string]string{"transferred": string(id)})
	case errors.Is(err, batuta.ErrNotMember):
		fail(w, http.StatusNotFound, "%v", err)
	case errors.Is(err, batuta.ErrNotLeading):
		s.leadsNot(w, r, s.node.Leader())
	case errors.Is(err, batuta.ErrUnfit):
		fail(w, http.StatusUnprocessableEntity, "%v", err)
	case unreached(err):
		fail(w, http.StatusGatewayTimeout, "transfer to %s: %v; its work may not have ended yet", id, err)
	default:
		fail(w, http.StatusInternalServerError, "%v", err)
	}
}
