package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
)

// Bounds of the history.
const (
	maxHistory = 1000 // events
	maxReasons = 40   // last records of an event
)

// History is the answer of /v1/history.
type History struct {
	Began  Stamp    `json:"began"`  // when this agent began to record; nothing earlier is known
	Now    Stamp    `json:"now"`    // by this agent's clock
	Events []Reason `json:"events"` // the last 1000, oldest first

	// Of an older agent these are absent.
	Links   *[]string `json:"links,omitempty"`   // connected members
	Version string    `json:"version,omitempty"` // of its program
	Side    *Side     `json:"side,omitempty"`    // how much of the cluster it receives
}

// Reason is an event, and what the member did since the event before it, which explains it.
type Reason struct {
	Line
	Records []Record `json:"records"` // without messages
}

// history keeps events and their reasons, for longer than the node's trace, which is full of
// messages.
type history struct {
	began time.Time

	seen time.Time // of the last record; only for follow

	mu     sync.Mutex
	events []Reason
	named  []batuta.View // of named elections, as views: a Line has twice their size
}

func newHistory(began time.Time) *history { return &history{began: began} }

// follow records the events of node, until it or ctx ends. It does little for each event: events
// often come while the cluster elects.
func (h *history) follow(ctx context.Context, node Node) {
	if e, ok := node.(Elections); ok {
		go h.followNamed(ctx, e)
	}
	for ev, err := range follow.On(ctx, batuta.ErrBehind, node.Events) {
		if err == nil { // after an error it continues at the present
			h.add(EventLine(node.ID(), ev), node.Reasons(h.seen))
		}
	}
}

// followNamed records the last leaderships of all named elections together.
func (h *history) followNamed(ctx context.Context, e Elections) {
	for v, err := range follow.On(ctx, batuta.ErrBehind, e.Elections) {
		if err == nil {
			h.mu.Lock()
			if h.named = append(h.named, v); len(h.named) > 4*maxHistory {
				h.named = slices.Delete(h.named, 0, 2*maxHistory)
			}
			h.mu.Unlock()
		}
	}
}

// add records an event, and what the node did since the previous event.
func (h *history) add(l Line, news []batuta.Record) {
	if news = news[:led(l, news)]; len(news) > 0 {
		h.seen = news[len(news)-1].At
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Reason{l, recordsOf(news[max(0, len(news)-maxReasons):])})
	h.events = slices.Delete(h.events, 0, max(0, len(h.events)-maxHistory))
}

// led returns how many of the records led to an event. The rest is of changes of leadership after it: while
// a cluster elects, they often come before the event is recorded.
func led(l Line, news []batuta.Record) int {
	begins, ends := l.Event == string(batuta.EventLeader), l.Event == string(batuta.EventLost)
	next := len(news)
	for i, r := range news {
		begun := r.What == "leads" || r.What == "follows"
		if !begun && r.What != "loses" {
			continue
		}
		if (begun && begins || !begun && ends) && string(r.Peer) == l.Leader && r.Token.Epoch == l.Epoch {
			return i + 1
		}
		next = min(next, i)
	}
	if begins || ends {
		return len(news)
	}
	return next
}

// present returns the present history of member id: of a named election, if named is its name.
func (h *history) present(id batuta.ID, named string) History {
	h.mu.Lock()
	defer h.mu.Unlock()
	if named != "" {
		past := History{Began: Stamp{h.began}, Now: Stamp{time.Now()}, Events: []Reason{}}
		for _, v := range h.named {
			if v.Election != named {
				continue
			}
			if l, ok := NamedLine(id, v); ok {
				past.Events = append(past.Events, Reason{l, []Record{}})
			}
		}
		return past
	}
	return History{Began: Stamp{h.began}, Now: Stamp{time.Now()}, Events: append([]Reason{}, h.events...)}
}

// now adds what the member has at present.
func (h *History) now(st batuta.Status, version string) {
	ids, side := []string{}, sideOf(st)
	for _, m := range st.Members {
		if m.Linked {
			ids = append(ids, string(m.ID))
		}
	}
	h.Links, h.Version, h.Side = &ids, version, &side
}

// past answers with this member's history, even if its node is stuck.
func (s *Server) past(w http.ResponseWriter, r *http.Request) {
	of := r.URL.Query().Get("election")
	if e, ok := s.many(); of == s.node.Leader().Election {
		of = ""
	} else if ok && of != "" {
		of = e.Election(of).Name() // the canonical form
	}
	h := s.history.present(s.node.ID(), of)
	if of != "" && len(h.Events) == 0 {
		reply.Fail(w, http.StatusNotFound, "no election %q: no leadership of it is recorded", of)
		return
	}
	if r.URL.Query().Get("leaderships") == "true" {
		h = h.leaderships()
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	if st, err := s.node.Status(ctx); err == nil {
		h.now(st, s.version)
	}
	reply.Much(w, r, h)
}

func (l *Line) leadership() bool {
	return l.Event == "leader" || l.Event == "lost" || l.Event == "renewed"
}

// leaderships returns h without records; a member gives the reason for the end of its own
// leadership.
func (h History) leaderships() History {
	some := History{Began: h.Began, Now: h.Now, Events: []Reason{}}
	var since []Record // the last of these
	for _, e := range h.Events {
		since = append(since, e.Records...)
		if !e.leadership() {
			continue
		}
		if e.Event == "lost" && e.Leader == e.ID {
			e.Why = ownWord(since)
		}
		since, e.Records = nil, []Record{}
		some.Events = append(some.Events, e)
	}
	return some
}

// ownWord returns why a leadership ended, by its leader's records: on which request, if it
// resigned.
func ownWord(records []Record) (word string) {
	for _, r := range records {
		switch {
		case r.What == "resigns" && r.Why != "":
			return r.Why
		case r.What == "loses":
			_, word, _ = strings.Cut(r.Why, ": ")
		}
	}
	if !election.Printable(word, maxWhy) {
		return ""
	}
	return word
}

// MetaHTTP is the metadata key for the URL, without a path, of a member's API. A member without it
// is not queried.
const MetaHTTP = "batuta.http"

// Bounds of an agent's queries to members.
const (
	gatherTime    = 4 * time.Second // for all members
	memberTime    = 2 * time.Second // for a single member
	gatherAtOnce  = 16
	gatherMembers = 512     // number of queried members
	gatherBytes   = 1 << 20 // of a single answer
	gatherKept    = time.Second
	maxWhy        = 256 // bytes of a leader's own reason
)

// Gathered is the answer of /v1/histories.
type Gathered struct {
	At      Stamp           `json:"at"`
	Members []MemberHistory `json:"members"` // the answering member first, then by rank
}

// MemberHistory is the leaderships that a member has seen.
type MemberHistory struct {
	ID      string   `json:"id"`
	HTTP    string   `json:"http,omitempty"`  // its API
	Error   string   `json:"error,omitempty"` // why it is not known
	Ahead   float64  `json:"ahead"`           // by how many seconds its clock is ahead of the answering member's clock
	Doubt   float64  `json:"doubt"`           // the largest error of Ahead, in seconds
	History *History `json:"history,omitempty"`
}

// Membership authenticates members to each other's APIs; see [security.Security].
type Membership interface {
	Ask(id string) *tls.Config
	Member(cs tls.ConnectionState, ids []string) error
}

// gatherer queries the history of members. It sends only this request, by GET, without a token, and
// follows no redirection. So a member that publishes a wrong address can only cause such a request
// to that address.
type gatherer struct {
	members     Membership // nil: members cannot authenticate
	whole, each time.Duration

	mu   sync.Mutex // held during the queries: a single round at a time
	last *Gathered
	at   time.Time
}

// gather returns the answers of the last second, or queries again.
func (g *gatherer) gather(ctx context.Context, st batuta.Status, own History) *Gathered {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && time.Since(g.at) < gatherKept {
		return g.last
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(g.whole, gatherTime))
	defer cancel()
	all := &Gathered{At: Stamp{time.Now()}, Members: []MemberHistory{{ID: string(st.ID), History: &own}}}
	for _, m := range slices.Backward(st.Members) {
		if m.ID != st.ID && len(all.Members) <= gatherMembers {
			all.Members = append(all.Members, MemberHistory{ID: string(m.ID), HTTP: m.Meta[MetaHTTP]})
		}
	}
	var asking sync.WaitGroup
	places := make(chan struct{}, gatherAtOnce)
	for i := range all.Members[1:] {
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			all.Members[i+1].fill(ctx, cmp.Or(g.each, memberTime), g.members)
		})
	}
	asking.Wait()
	if ctx.Err() == nil { // otherwise the client is gone, and some members were not queried
		g.last, g.at = all, time.Now()
	}
	return all
}

// fill queries a member, or records why that is not possible.
func (m *MemberHistory) fill(ctx context.Context, within time.Duration, members Membership) {
	if m.HTTP == "" {
		m.Error = "it does not publish where its HTTP API is (--http-advertise)"
		return
	}
	at, err := ParseMetaHTTP(m.HTTP)
	if err != nil {
		m.HTTP, m.Error = "", err.Error()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	h, err := askHistory(ctx, at, m.ID, members)
	if err != nil {
		m.Error = err.Error()
		return
	}
	trip := time.Since(began)
	m.Ahead, m.Doubt, m.History = h.Now.Sub(began.Add(trip/2)).Seconds(), (trip / 2).Seconds(), h
}

// ParseMetaHTTP reads the published URL of a member's API: http://HOST:PORT or https://HOST:PORT.
func ParseMetaHTTP(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.String() != u.Scheme+"://"+u.Host {
		return nil, fmt.Errorf("it publishes an HTTP API at %.80q, which is neither http://HOST:PORT nor https://HOST:PORT", text)
	}
	return u, nil
}

func askHistory(ctx context.Context, at *url.URL, id string, members Membership) (*History, error) {
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader} // no proxy
	if at.Scheme == "https" {
		if members == nil {
			return nil, errors.New("its API has TLS, and members of this cluster have nothing to prove themselves with (--secret-file, --tls-cert)")
		}
		transport.TLSClientConfig = members.Ask(id)
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String()+"/v1/history?leaderships=true", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, saidShortly(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	var h History
	if err := json.NewDecoder(io.LimitReader(resp.Body, gatherBytes)).Decode(&h); err != nil {
		return nil, errors.New("its answer is not batuta's")
	}
	return &h, h.check()
}

// saidShortly removes the URL, which is shown separately.
func saidShortly(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errors.New("it does not answer in time")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return unwrapped(u.Err)
	}
	return err
}

// check validates a member's answer: only leaderships, links, version and side are passed on.
func (h *History) check() error {
	if h.Now.IsZero() || h.Began.IsZero() || len(h.Events) > maxHistory || !election.Printable(h.Version, maxWhy) {
		return errors.New("its answer is not batuta's")
	}
	if h.Links != nil {
		for _, id := range *h.Links {
			if _, err := election.ParseID(id); err != nil {
				return errors.New("its answer is not batuta's")
			}
		}
	}
	for i := range h.Events {
		e := &h.Events[i]
		if !e.leadership() || e.Time.IsZero() || !election.Printable(e.Why, maxWhy) {
			return errors.New("its answer is not batuta's")
		}
		h.Events[i] = Reason{Line: Line{Time: e.Time, Event: e.Event, ID: e.ID, Election: e.Election, Leader: e.Leader, Epoch: e.Epoch, Cause: e.Cause, Why: e.Why}, Records: []Record{}}
	}
	return nil
}

// histories answers with the history of all members that publish their API.
func (s *Server) histories(w http.ResponseWriter, r *http.Request) {
	if st, ok := s.ask(w, r); ok {
		own := s.history.present(s.node.ID(), "").leaderships()
		own.now(st, s.version)
		reply.Much(w, r, s.gatherer.gather(r.Context(), st, own))
	}
}

// asksAsMember reports whether a request comes from a member that gathers histories: it
// authenticates by its certificate, and may request nothing else.
func (s *Server) asksAsMember(r *http.Request) bool {
	if s.gatherer.members == nil || r.Method != http.MethodGet || r.URL.Path != "/v1/history" || r.URL.RawQuery != "leaderships=true" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	st, err := s.node.Status(ctx)
	if err != nil {
		return false
	}
	ids := make([]string, 0, len(st.Members))
	for _, m := range st.Members {
		ids = append(ids, string(m.ID))
	}
	return s.gatherer.members.Member(*r.TLS, ids) == nil
}

// Gather makes members authenticate by m when they query each other's history. It must be called
// before Serve.
func (s *Server) Gather(m Membership) { s.gatherer.members = m }
