package explain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
)

// Incident is what the members of a cluster have recorded, for the lab's page.
type Incident struct {
	Batuta  string     `json:"batuta"`  // "incident": the kind of file
	Status  api.Status `json:"status"`  // of the member asked
	Members []Witness  `json:"members"` // the member asked comes first
}

// Witness is what a member has recorded, or the reason why that is missing.
type Witness struct {
	ID      string       `json:"id"`
	Error   string       `json:"error,omitempty"`
	Ahead   float64      `json:"ahead"` // seconds that its clock is ahead of this machine's
	Doubt   float64      `json:"doubt"` // seconds that Ahead may be wrong by
	History *api.History `json:"history,omitempty"`
	Changes []Change     `json:"changes,omitempty"`
	Trace   []api.Record `json:"trace,omitempty"`
}

// witnessTime bounds how long a member may take to answer.
const witnessTime = 5 * time.Second

// Gather asks an agent, and the agents of the remaining members: at the addresses of also, with
// all of access. Without any it asks at those that the members publish, and sends no token there.
func Gather(ctx context.Context, asked *api.Client, also []string, access api.Access) (*Incident, error) {
	in := &Incident{Batuta: "incident"}
	first, err := witness(ctx, asked, &in.Status)
	if err != nil {
		return nil, err
	}
	in.Members = []Witness{first}
	ids := make([]string, len(also))
	if len(also) == 0 {
		access.Token = ""
		for _, m := range in.Status.Members {
			if m.ID != first.ID {
				ids, also = append(ids, m.ID), append(also, m.Meta[api.MetaHTTP])
			}
		}
	}
	others := make([]Witness, len(also))
	var asking sync.WaitGroup
	for i, addr := range also {
		asking.Go(func() { others[i] = remote(ctx, ids[i], addr, access, in.Status.Cluster) })
	}
	asking.Wait()
	for _, w := range others {
		if w.Error != "" || !slices.ContainsFunc(in.Members, func(m Witness) bool { return m.ID == w.ID }) { // two addresses may be of the same agent
			in.Members = append(in.Members, w)
		}
	}
	return in, nil
}

// remote asks the agent of a member that is not the first. id may be empty.
func remote(ctx context.Context, id, addr string, access api.Access, cluster string) Witness {
	if addr == "" {
		return Witness{ID: id, Error: "it does not publish where its HTTP API is (--http-advertise of its agent)"}
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	var status api.Status
	var w Witness
	c, err := api.NewClient(addr, access)
	if err == nil {
		w, err = witness(ctx, c, &status)
	}
	switch {
	case err != nil:
		return Witness{ID: id, Error: err.Error()}
	case status.Cluster != cluster:
		return Witness{ID: id, Error: fmt.Sprintf("the agent at %s is a member of cluster %q", addr, status.Cluster)}
	}
	return w
}

func witness(ctx context.Context, c *api.Client, status *api.Status) (w Witness, err error) {
	if err := c.Get(ctx, "/v1/status", status); err != nil {
		return w, err
	}
	if err := c.Get(ctx, "/v1/history", &w.History); err != nil {
		return w, err
	}
	w.ID = status.ID
	for range 4 { // the quickest answer has the clock most exactly
		var h api.History
		began := time.Now()
		if err := c.Get(ctx, "/v1/history?leaderships=true", &h); err != nil {
			return w, err
		}
		if trip := time.Since(began); w.Doubt == 0 || trip.Seconds() < 2*w.Doubt {
			w.Ahead, w.Doubt = h.Now.Sub(began.Add(trip/2)).Seconds(), trip.Seconds()/2
		}
	}
	w.Changes = Changes(w.History.Events)
	return w, c.Get(ctx, "/v1/trace", &w.Trace)
}
