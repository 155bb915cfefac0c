package candidacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

// Request is the body of a PUT or a DELETE.
type Request struct {
	TTL       string `json:"ttl,omitempty"`       // such as "10s": a lease of that length; left out: a stream
	Candidacy string `json:"candidacy,omitempty"` // id; left out: a new candidacy
	Released  bool   `json:"released,omitempty"`  // the work of that candidacy has stopped
	Grace     string `json:"grace,omitempty"`     // of a stream: for which a loss may stay unacknowledged
	Weight    int    `json:"weight,omitempty"`
	Seats     int    `json:"seats,omitempty"`
	Prefer    bool   `json:"prefer,omitempty"`
}

// Put answers PUT /v1/elections/{name}/candidacy.
func (d *Desk) Put(w http.ResponseWriter, r *http.Request) {
	ask, e, ok := d.read(w, r)
	if !ok {
		return
	}
	ttl, errTTL := duration("ttl", ask.TTL, MaxTTL/10, MinTTL)
	grace, errGrace := duration("grace", ask.Grace, DefaultGrace, 0)
	switch err := errors.Join(errTTL, errGrace); {
	case err != nil:
		reply.Fail(w, http.StatusBadRequest, "%v", err)
	case ask.Candidacy != "":
		d.again(w, r, e, ask, ttl)
	case ask.Released:
		reply.Fail(w, http.StatusBadRequest, "released: name the candidacy, as in {\"candidacy\":\"ID\",\"released\":true}")
	case ask.TTL != "" && ask.Grace != "":
		reply.Fail(w, http.StatusBadRequest, "grace is of a stream, and ttl of a lease: leave one out")
	case ask.TTL != "":
		if c := d.begin(w, r, e, ask, ttl, false); c != nil {
			d.reply(w, r, c)
		}
	default:
		if c := d.begin(w, r, e, ask, grace, true); c != nil {
			defer d.finish(c, disconnected)
			d.stream(w, r, c)
		}
	}
}

// Delete answers DELETE /v1/elections/{name}/candidacy: the work has stopped, and the candidacy ends.
func (d *Desk) Delete(w http.ResponseWriter, r *http.Request) {
	ask, e, ok := d.read(w, r)
	if !ok {
		return
	}
	if id := r.URL.Query().Get("candidacy"); id != "" {
		ask.Candidacy = id
	}
	if ask.Candidacy == "" {
		reply.Fail(w, http.StatusBadRequest, "name the candidacy, as in ?candidacy=ID")
		return
	}
	c := d.find(e.Name(), ask.Candidacy)
	if c == nil {
		missing(w, e, ask.Candidacy)
		return
	}
	d.finish(c, released)
	reply.JSON(w, http.StatusOK, map[string]string{"ended": c.id})
}

// Ready answers POST /v1/elections/{name}/ready: the work of a leadership serves.
func (d *Desk) Ready(w http.ResponseWriter, r *http.Request) {
	ask, e, ok := d.read(w, r)
	if !ok {
		return
	}
	switch c := d.find(e.Name(), ask.Candidacy); {
	case ask != (Request{Candidacy: ask.Candidacy}) || ask.Candidacy == "":
		reply.Fail(w, http.StatusBadRequest, `give the candidacy only, as in {"candidacy":"ID"}`)
	case c == nil:
		missing(w, e, ask.Candidacy)
	case !d.serve(c):
		reply.Fail(w, http.StatusConflict, "candidacy %s does not lead election %q: report that its work serves once it does", c.id, e.Name())
	default:
		d.reply(w, r, c)
	}
}

// begin begins a candidacy, or answers why not.
func (d *Desk) begin(w http.ResponseWriter, r *http.Request, e Election, ask Request, bound time.Duration, stream bool) *candidacy {
	c := &candidacy{stream: stream, bound: bound, seats: max(ask.Seats, 1), weight: max(ask.Weight, 1)}
	c.client, _ = d.cfg.Permit(w, r, e.Name()) // read has seen that it is permitted
	switch err := d.stand(e, c); {
	case errors.Is(err, errQuota):
		reply.Fail(w, http.StatusTooManyRequests, "%v", err)
	case errors.Is(err, errReserved):
		reply.Fail(w, http.StatusConflict, "election %q: %v", e.Name(), err)
	case err != nil:
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
	default:
		return c
	}
	return nil
}

// again renews a candidacy, acknowledges a loss, or only asks.
func (d *Desk) again(w http.ResponseWriter, r *http.Request, e Election, ask Request, ttl time.Duration) {
	c := d.find(e.Name(), ask.Candidacy)
	switch {
	case c == nil:
		missing(w, e, ask.Candidacy)
		return
	case c.stream && ask.TTL != "":
		reply.Fail(w, http.StatusConflict, "candidacy %s is a stream, which lasts as long as its connection: leave out ttl", c.id)
		return
	case ask.Grace != "" || ask.Weight != 0 || ask.Seats != 0 || ask.Prefer:
		reply.Fail(w, http.StatusBadRequest, "grace, weight, seats and prefer go with a new candidacy: leave them out")
		return
	}
	if ask.Released {
		d.release(c)
	}
	if ask.TTL != "" {
		d.renew(c, ttl)
	}
	d.reply(w, r, c)
}

// reply answers with the state of a candidacy.
func (d *Desk) reply(w http.ResponseWriter, r *http.Request, c *candidacy) {
	a, _, over, err := d.answer(r.Context(), c)
	switch {
	case err != nil:
		reply.Fail(w, http.StatusServiceUnavailable, "member %s does not answer in time: %v", d.cfg.Member, err)
	case over && c.failure != nil:
		reply.Fail(w, http.StatusUnprocessableEntity, "%v", c.failure)
	case over:
		missing(w, c.queue.election, c.id)
	default:
		reply.JSON(w, http.StatusOK, a)
	}
}

func missing(w http.ResponseWriter, e Election, id string) {
	reply.Fail(w, http.StatusNotFound, "election %q has no candidacy %q here: it has ended, or is another agent's; begin a new one", e.Name(), id)
}

// stream sends the state of a candidacy, at each change and before valid_ms has passed, until either side ends it.
func (d *Desk) stream(w http.ResponseWriter, r *http.Request, c *candidacy) {
	out := reply.NewLines(w, r)
	for {
		a, changed, over, err := d.answer(r.Context(), c)
		switch {
		case over && c.failure != nil:
			_ = send(out, "failed", map[string]string{"error": c.failure.Error()})
			return
		case over, errors.Is(err, batuta.ErrClosed), r.Context().Err() != nil:
			return
		case err == nil && send(out, string(a.State), a) != nil:
			return
		}
		next := time.NewTimer(a.next())
		select {
		case <-changed:
		case <-next.C:
		case <-r.Context().Done():
		}
		next.Stop()
	}
}

func send(out *reply.Stream, name string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return out.Send(reply.Event{Name: name, JSON: body})
}

// next is how long until the same is sent again.
func (a *Turn) next() time.Duration {
	if a.State == Waiting {
		return repeatEvery
	}
	return min(max(time.Duration(a.ValidMS)*time.Millisecond/4, 50*time.Millisecond), time.Second)
}

// read reads a request to its end, without which the end of its connection is not seen.
func (d *Desk) read(w http.ResponseWriter, r *http.Request) (ask Request, e Election, ok bool) {
	if !reply.Read(w, r, maxBody, true, &ask, `{"ttl":"10s"} for a lease, or nothing for a stream`) {
		return ask, nil, false
	}
	e, err := d.open(r.Context(), r.PathValue("name"), ask)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return ask, nil, false
	}
	_, ok = d.cfg.Permit(w, r, e.Name())
	return ask, e, ok
}

// open gives the election with what the client asks of it.
func (d *Desk) open(ctx context.Context, name string, ask Request) (Election, error) {
	var how []batuta.ElectionOption
	if ask.Weight != 0 {
		how = append(how, batuta.Weight(ask.Weight))
	}
	if ask.Seats != 0 {
		how = append(how, batuta.Seats(ask.Seats))
	}
	if ask.Prefer {
		how = append(how, batuta.Prefer())
	}
	e, err := d.cfg.Open(name, how...)
	if err != nil {
		return nil, err
	}
	if ask.Candidacy == "" { // otherwise it has been asked
		if _, err := e.Lease(ctx); errors.Is(err, batuta.ErrConfig) {
			return nil, err
		}
	}
	return e, nil
}

func duration(name, text string, otherwise, least time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > MaxTTL {
		return 0, fmt.Errorf("%s %q: give a duration of %v to %v, such as 10s", name, text, least, MaxTTL)
	}
	return d, nil
}
