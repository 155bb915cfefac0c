// Package batutaclient holds elections through the batuta agent on the same machine, over its HTTP API. It needs
// only the standard library. A program that is to be a member itself imports github.com/batuta-dev/batuta instead.
package batutaclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Agent is an agent. Its methods can be used by several goroutines.
type Agent struct {
	base  string
	token string
	http  *http.Client
}

// Option is an option of [New].
type Option func(*Agent, *http.Transport)

// Token sends a token of the agent's --http-token-file.
func Token(token string) Option { return func(a *Agent, _ *http.Transport) { a.token = token } }

// TLS is for an https:// address.
func TLS(config *tls.Config) Option {
	return func(_ *Agent, t *http.Transport) { t.TLSClientConfig = config }
}

// New returns the agent at an address: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH. It connects
// when it is first used.
func New(address string, options ...Option) *Agent {
	a := &Agent{base: strings.TrimRight(address, "/")}
	transport := &http.Transport{DisableKeepAlives: true} // an idle connection may end while it is used
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		a.base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else if !strings.Contains(a.base, "://") {
		a.base = "http://" + a.base
	}
	for _, o := range options {
		o(a, transport)
	}
	a.http = &http.Client{Transport: transport}
	return a
}

// RefusedError is an answer of the agent that is not a success.
type RefusedError struct {
	Code    int    // HTTP status
	Message string // names the remedy
}

func (e *RefusedError) Error() string { return e.Message }

// Call makes a call of the HTTP API, as https://127.0.0.1:7500/v1/openapi.yaml describes it, and reads the answer into
// answer. body is encoded as JSON; nil: there is none. It returns a [*RefusedError] for an answer that is not a success.
func (a *Agent) Call(ctx context.Context, method, path string, body, answer any) error {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, in)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		failed := struct{ Error string }{resp.Status}
		_ = json.Unmarshal(text, &failed) // a body that is not batuta's leaves the status
		return &RefusedError{resp.StatusCode, failed.Error}
	}
	return json.Unmarshal(text, answer)
}

// Event is an event of the agent, as https://127.0.0.1:7500/v1/openapi.yaml describes it.
type Event struct {
	Index    string    `json:"index"` // [Agent.Events] goes on after it
	Time     time.Time `json:"time"`
	Kind     string    `json:"event"` // leader, lost, member…; reset and behind report what is missing
	ID       string    `json:"id"`    // of the member that has seen it
	Election string    `json:"election"`
	Leader   string    `json:"leader"`
	Epoch    uint64    `json:"epoch"`
	Cause    string    `json:"cause"`
	Member   string    `json:"member"`
	State    string    `json:"state"`
	Missed   int       `json:"missed"`
}

// Events yields events until ctx is done: first the current view, or what follows the index since. It goes on by
// itself when the agent is back. query has what else GET /v1/events takes, such as election.
func (a *Agent) Events(ctx context.Context, since string, query url.Values) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for ctx.Err() == nil {
			ask := url.Values{"wait": {"30s"}}
			for key, values := range query {
				ask[key] = values
			}
			if since != "" {
				ask.Set("since", since)
			}
			var events []Event
			if err := a.Call(ctx, http.MethodGet, "/v1/events?"+ask.Encode(), nil, &events); err != nil {
				if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Code < 500 {
					yield(Event{}, err)
					return
				}
				wait(ctx, time.Second, nil)
			}
			for _, e := range events {
				since = e.Index
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// wait waits so long, or until ctx or done ends.
func wait(ctx context.Context, d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-done:
	}
}

// Options are options of a candidacy. The zero value is ready.
type Options struct {
	TTL    time.Duration // for which a leadership is kept for a program that no longer answers, 1 s to 5 min; default 10 s
	Weight int           // what the election costs its leader; default 1
	Seats  int           // how many agents lead at once; default 1
	Prefer bool          // this agent is to lead if it may
}

// LostError is the [context.Cause] of the work's context when its leadership is over.
type LostError struct{ Cause string }

func (e *LostError) Error() string { return fmt.Sprintf("the election is lost: %s", e.Cause) }

func path(election string) string {
	return "/v1/elections/" + url.PathEscape(election) + "/candidacy"
}
