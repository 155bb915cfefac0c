package lock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// pollEvery is how often a candidacy is renewed that waits.
const pollEvery = 250 * time.Millisecond

// Agent is what a holder needs of an [api.Client].
type Agent interface {
	Stand(ctx context.Context, election string, ask candidacy.Request) (candidacy.Turn, error)
	EndCandidacy(ctx context.Context, election, id string) error
}

// errHeld is why --try ends: the election is held.
var errHeld = errors.New("held")

// holder holds an election through an agent, by a lease.
type holder struct {
	agent Agent
	name  string
	ttl   time.Duration
	seats int
	lose  context.CancelCauseFunc // ends the command

	mu   sync.Mutex
	id   string // of the candidacy
	over bool   // it begins none any more
}

// wait returns once the election is held. try: it returns [errHeld] where it is held already.
func (h *holder) wait(ctx context.Context, try bool) (candidacy.Turn, error) {
	for began := time.Now(); ; {
		a, err := h.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case err != nil && !h.forgets(err):
			return a, err
		case err != nil: // this process was stopped for longer than its ttl
		case a.State == candidacy.Leading && a.ValidMS > 0:
			return a, nil
		case a.State == candidacy.Lost:
			if err := h.end(ctx); err != nil { // nothing runs yet
				return a, err
			}
		case try && a.HeldBy != "":
			return a, fmt.Errorf("%w: member %s leads election %q, or another command waits: try again later, or leave out --try", errHeld, a.HeldBy, h.name)
		case try && time.Since(began) > batuta.TryTimeout:
			return a, fmt.Errorf("%w: election %q was not given to this agent within %v: try again later, or leave out --try", errHeld, h.name, batuta.TryTimeout)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// forgets drops a candidacy that the agent does not have any more; false: that is not the error.
func (h *holder) forgets(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.id != "" && answered(err) == http.StatusNotFound
	if known {
		h.id = ""
	}
	return known
}

// answered is the code of an agent's refusal; 0: it is none.
func answered(err error) int {
	if answer, ok := errors.AsType[*api.AnswerError](err); ok {
		return answer.Code
	}
	return 0
}

// renew renews the candidacy, or begins it.
func (h *holder) renew(ctx context.Context) (candidacy.Turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return candidacy.Turn{}, context.Canceled
	}
	ctx, cancel := context.WithTimeout(ctx, h.ttl)
	defer cancel()
	ask := candidacy.Request{TTL: h.ttl.String(), Candidacy: h.id}
	if h.id == "" {
		ask.Seats = h.seats
	}
	a, err := h.agent.Stand(ctx, h.name, ask)
	if err == nil {
		h.id = a.Candidacy
	}
	return a, refusal(err)
}

// lease renews for the command that runs. A loss ends the command.
func (h *holder) lease() (left, whole time.Duration, ok bool) {
	a, err := h.renew(context.Background())
	switch {
	case answered(err) == http.StatusServiceUnavailable: // its member is stuck for a moment
		return 0, 0, false
	case err != nil:
		h.lose(fmt.Errorf("election %q is lost: %w", h.name, err))
		return 0, 0, false
	case a.State == candidacy.Lost:
		h.lose(fmt.Errorf("election %q is lost: %s", h.name, a.Cause))
	case a.State != candidacy.Leading:
		h.lose(fmt.Errorf("election %q is lost: its candidacy has ended", h.name))
		return 0, 0, false
	}
	return time.Duration(a.ValidMS) * time.Millisecond, time.Duration(a.LeaseMS) * time.Millisecond, a.ValidMS > 0
}

// end gives the election away, or acknowledges its loss: nothing of the command is left.
func (h *holder) end(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == "" {
		return nil
	}
	err := h.agent.EndCandidacy(ctx, h.name, h.id)
	if answered(err) == http.StatusNotFound {
		err = nil // it has ended already
	}
	h.id = ""
	return refusal(err)
}

// refusal gives an agent's refusal its exit code: it is no sign that the election is held.
func refusal(err error) error {
	switch answered(err) {
	case 0:
		return err
	case http.StatusConflict, http.StatusBadRequest:
		return cli.Exit(cli.Usage, err)
	}
	return cli.Exit(cli.Failed, err)
}

// leadership is what the command finds in its environment.
func leadership(a candidacy.Turn) (batuta.ID, batuta.Leadership) {
	l := batuta.Leadership{Election: a.Election, Since: time.Now(), Fencing: a.LeaseMS > 0}
	if a.Token == nil {
		return "", l
	}
	epoch, id, _ := strings.Cut(*a.Token, ":")
	l.Token.Epoch, _ = strconv.ParseUint(epoch, 10, 64)
	l.Token.Leader.ID = batuta.ID(id)
	return l.Token.Leader.ID, l
}
