// Package api is the interface of a batuta process besides the election: event lines, the HTTP API
// with its metrics, and its client.
package api

import (
	"context"
	_ "embed" // of the API's description
	"errors"
	"iter"
	stdlog "log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/api/metric"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/net/refusal"
	"github.com/batuta-dev/batuta/internal/web"
)

// Node is the part of a [batuta.Node] that the API needs.
type Node interface {
	ID() batuta.ID
	IsLeader() bool
	Leader() batuta.View
	Status(context.Context) (batuta.Status, error)
	AskMembers(context.Context) ([]batuta.MemberView, error)
	Trace() []batuta.Record
	Reasons(after time.Time) []batuta.Record
	Events(context.Context) iter.Seq2[batuta.Event, error]
	Resign(context.Context) error
	Transfer(context.Context, batuta.ID) error
	Campaign(context.Context) error
	AddMember(context.Context, batuta.Peer) error
	SetPriority(ctx context.Context, id batuta.ID, priority int) error
	RemoveMember(context.Context, batuta.ID) error
	Done() <-chan struct{}
}

// Limits of the API.
const (
	maxBody      = 64 << 10               // bytes of a request's body
	maxHeader    = 16 << 10               // bytes of a request's header
	maxStreams   = 64                     // concurrent event streams
	readTimeout  = 5 * time.Second        // for a whole request
	writeTimeout = 10 * time.Second       // for an answer, or for each event of a stream
	callTimeout  = 8 * time.Second        // for calls that change something
	askTime      = 900 * time.Millisecond // for the node to answer; below a probe's usual limit of a second
	closeTime    = time.Second            // for slow clients at the end
	pingEvery    = 15 * time.Second       // of an idle stream
)

// Server is the HTTP API of a node.
type Server struct {
	member
	addr            string
	version         string
	log             *slog.Logger
	streams         chan struct{} // limits event streams
	turns           turns         // of long answers
	leaderlessTime  *leaderlessTime
	refused         *metric.Counts
	metrics         http.Handler // nil: it has none
	refusals        refusal.Log
	tokens          *access.Tokens                // nil: every client may do everything
	life            func() batuta.CertificateLife // of the API's certificate
	healthElsewhere bool                          // load balancers have a separate server
	history         *history
	recorder        *recorder
	gatherer        gatherer
	candidacies     *candidacy.Desk // nil: clients cannot be candidates
	jobs            joblist.Desk
	readOnly        bool         // it has no calls that change something
	page            http.Handler // the dashboard's files
	http            *http.Server
}

// NewServer makes the API of node, to be served on addr. version is this program's version in the
// status. Requests may use an IP address, localhost or names as the host.
func NewServer(node Node, addr, version string, log *slog.Logger, names ...string) *Server {
	s := &Server{
		member: member{node}, addr: addr, version: version, log: log,
		streams: make(chan struct{}, maxStreams), turns: newTurns(), leaderlessTime: newLeaderlessTime(time.Now()),
		refused: newRefusals(), metrics: http.NotFoundHandler(), life: func() batuta.CertificateLife { return batuta.CertificateLife{} },
		history: newHistory(time.Now()), recorder: newRecorder(node, log), page: web.Dashboard().Handler(),
	}
	s.candidacies = candidacy.New(candidacy.Config{Member: node.ID(), Open: s.openElection, Permit: s.permit, Serves: s.serves, Log: log})
	s.Reserve(func(string) bool { return false })
	s.http = &http.Server{
		Handler:        hardened(MemberAgent, s.ownHost(newHosts(names), s.sameOrigin(s.authorize(s.handler(s.routes()))))),
		ConnContext:    access.Connection,
		ConnState:      access.EachClient(access.MaxConnections() / 2),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       stdlog.New(connectionErrors{s}, "", 0),
	}
	return s
}

// Authorize makes every call need a token, except those of load balancers. It must be called before
// Serve.
func (s *Server) Authorize(t *access.Tokens) { s.tokens = t }

// Certified adds the validity of the API's certificate to the metrics. It must be called before
// Serve.
func (s *Server) Certified(life func() batuta.CertificateLife) { s.life = life }

// Expose makes the server answer GET /metrics as show does for its metrics. It must be called before Serve.
func (s *Server) Expose(show func(...metric.Source) http.Handler) { s.metrics = show(s.Metrics()...) }

// HealthElsewhere makes the calls of load balancers need a token too: a [HealthServer] answers
// clients without a token. It must be called before Serve.
func (s *Server) HealthElsewhere() { s.healthElsewhere = true }

// Jobs makes the server answer about jobs from b. It must be called before Serve.
func (s *Server) Jobs(b joblist.Book) { s.jobs.Open(b) }

// Serve answers on l until Close.
func (s *Server) Serve(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.leaderlessTime.follow(ctx, s.node)
	go s.history.follow(ctx, s.node)
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("HTTP API ended", "addr", s.addr, "error", err)
	}
}

// Close lets answers finish, and event streams report the end of a closed node, and stops; what
// takes longer than closeTime, or than ctx, is cut off.
func (s *Server) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.http.Close()
	}
	s.recorder.end()
}

// handler serves the routes with a bound on bodies.
func (s *Server) handler(routes []route) http.Handler {
	mux := http.NewServeMux()
	for at, calls := range byPath(routes) {
		mux.Handle(at, calls)
	}
	mux.Handle("/ui/", http.StripPrefix("/ui", s.page))
	lab := sync.OnceValue(func() http.Handler { return http.StripPrefix("/ui/lab", web.Lab().Handler()) })
	mux.HandleFunc("/ui/lab/", func(w http.ResponseWriter, r *http.Request) { lab().ServeHTTP(w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply.Fail(w, http.StatusNotFound, "no %s here; a browser finds what there is on /", r.URL.Path)
	})
	return http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.EscapedPath(); p != "" && strings.TrimSuffix(p, "/") != strings.TrimSuffix(path.Clean(p), "/") { // mux would redirect
			reply.Fail(w, http.StatusNotFound, "no %s here; a name or an id in it is empty, . or ..", p)
			return
		}
		mux.ServeHTTP(w, r)
	}), maxBody)
}

// route is a call of the API.
type route struct {
	method, path string
	do           http.HandlerFunc
}

func (s *Server) routes() []route {
	set := settings{s.member}
	routes := []route{
		{"GET", "/v1/status", s.turns.inTurn(s.status)},
		{"GET", "/v1/leader", s.leader},
		{"GET", "/v1/elections", s.turns.inTurn(s.elections)},
		{"GET", "/v1/members", s.turns.inTurn(s.members)},
		{"GET", "/v1/views", newTurns().inTurn(s.views)}, // each dials all members
		{"POST", "/v1/members", s.addMember},
		{"DELETE", "/v1/members/{id}", s.removeMember},
		{"GET", "/v1/jobs", s.jobs.List},
		{"POST", "/v1/jobs/{name}/run", s.jobs.Run},
		{"POST", "/v1/jobs/{name}/pause", s.jobs.Pause(true)},
		{"POST", "/v1/jobs/{name}/resume", s.jobs.Pause(false)},
		{"PUT", "/v1/meta", set.meta},
		{"PUT", "/v1/health", set.health},
		{"POST", "/v1/ready", set.ready},
		{"GET", "/v1/events", s.events},
		{"GET", "/v1/trace", s.turns.inTurn(s.trace)},
		{"GET", "/v1/history", s.turns.inTurn(s.past)},
		{"GET", "/v1/histories", s.histories},
		{"GET", "/v1/quorum", s.quorum},
		{"POST", "/v1/resign", s.resign},
		{"POST", "/v1/pause", s.pause},
		{"POST", "/v1/resume", func(w http.ResponseWriter, r *http.Request) { s.pauses(w, r, 0) }},
		{"POST", "/v1/transfer", s.transfer},
		{"POST", "/v1/drain", s.drain},
		{"POST", "/v1/undrain", s.undrain},
		{"POST", "/v1/campaign", s.campaign},
		{"GET", "/v1/openapi.yaml", s.openAPI},
		{"GET", "/leader", s.leads},
		{"GET", "/healthz", s.healthy},
		{"GET", "/readyz", s.ready},
		{"GET", "/{$}", s.front},
	}
	if s.candidacies != nil {
		routes = append(routes, route{"PUT", "/v1/elections/{name}/candidacy", s.candidacies.Put},
			route{"DELETE", "/v1/elections/{name}/candidacy", s.candidacies.Delete},
			route{"POST", "/v1/elections/{name}/ready", s.candidacies.Ready})
	}
	if s.metrics != nil { // otherwise a service's own registry has the metrics
		routes = append(routes, route{"GET", metricsPath, func(w http.ResponseWriter, r *http.Request) { s.metrics.ServeHTTP(w, r) }})
	}
	return routes
}

//go:embed openapi.yaml
var openAPI []byte

// openAPI describes this API to programs.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(openAPI) // a client that disconnected is not our fault
}

// calls are the calls of a path, by method; the rest is refused.
type calls map[string]http.HandlerFunc

func byPath(routes []route) map[string]calls {
	paths := map[string]calls{}
	for _, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = calls{}
		}
		paths[r.path][r.method] = r.do
		if r.method == http.MethodGet {
			paths[r.path][http.MethodHead] = r.do
		}
	}
	return paths
}

// ServeHTTP implements [http.Handler].
func (c calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if do, ok := c[r.Method]; ok {
		do(w, r)
		return
	}
	methods := slices.Sorted(maps.Keys(c))
	w.Header().Set("Allow", strings.Join(methods, ", "))
	said := slices.DeleteFunc(methods, func(m string) bool { return m == http.MethodHead })
	reply.Fail(w, http.StatusMethodNotAllowed, "%s does not go with %s; use %s", r.Method, r.URL.Path, strings.Join(said, " or "))
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	if st, ok := s.ask(w, r); ok {
		told := statusOf(st, s.addr, s.version)
		told.Access = s.access(r)
		told.Drained = s.drained(r.Context())
		reply.Much(w, r, told)
	}
}

// quorum answers clients that observe how a lease is renewed.
func (s *Server) quorum(w http.ResponseWriter, r *http.Request) {
	st, ok := s.ask(w, r)
	switch {
	case !ok:
	case st.Quorum == nil:
		reply.Fail(w, http.StatusNotFound, "the algorithm is %s, which takes no votes; quorum does", st.Algorithm)
	default:
		reply.JSON(w, http.StatusOK, quorumOf(st.Quorum))
	}
}

func (s *Server) trace(w http.ResponseWriter, r *http.Request) {
	reply.Much(w, r, recordsOf(s.node.Trace()))
}

func (s *Server) campaign(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	if err := s.node.Campaign(ctx); err != nil {
		reply.Fail(w, http.StatusGatewayTimeout, "campaign: %v", err)
		return
	}
	reply.JSON(w, http.StatusOK, map[string]string{"campaigning": string(s.node.ID())})
}

func (s *Server) healthy(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.node.Done():
		reply.Fail(w, http.StatusServiceUnavailable, "member %s has ended", s.node.ID())
		return
	default:
	}
	if _, ok := s.ask(w, r); ok {
		reply.JSON(w, http.StatusOK, map[string]bool{"healthy": true})
	}
}

// front answers programs as Kubernetes' leader-elector sidecar did, and browsers with the
// dashboard.
func (s *Server) front(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		reply.JSON(w, http.StatusOK, map[string]batuta.ID{"name": s.node.Leader().Token.Leader.ID})
		return
	}
	s.page.ServeHTTP(w, r)
}

// This file provides parts of the API to other servers: that of a service, of load balancers, and of the agent of super
// peers.

// Embedded returns the API of node for a service's own server, without metrics, which belong to the
// service's registry. Without changes it is read-only. It refuses pages of foreign origins; the
// server decides which clients and host names to accept.
func Embedded(node Node, version string, changes bool) http.Handler {
	s := &Server{member: member{node}, version: version, log: slog.New(slog.DiscardHandler), streams: make(chan struct{}, maxStreams), turns: newTurns(), refused: newRefusals()}
	s.readOnly = !changes
	s.history, s.recorder, s.page = newHistory(time.Now()), newRecorder(node, s.log), web.Dashboard().Handler()
	go s.history.follow(context.Background(), node) // until the node ends
	routes := slices.DeleteFunc(s.routes(), func(r route) bool {
		return r.method != http.MethodGet && !changes
	})
	return hardened(MemberAgent, s.sameOrigin(s.handler(routes)))
}

// Metrics are those of node for a service's registry, until node ends.
func Metrics(node Node, version string) []metric.Source {
	d := newLeaderlessTime(time.Now())
	go d.follow(context.Background(), node)
	return []metric.Source{newCollector(node, version, d).families, d.families}
}

// HealthServer answers load balancers and orchestrators with a status code: whether this member
// leads, lives, and knows a leader. It has the metrics, too. Those name this member, its cluster,
// and refused members. It changes nothing, and needs no token.
type HealthServer struct {
	http   *http.Server
	follow func(context.Context) // updates the metrics; nil: the API does
}

// NewHealthServer makes the health server of node. Its metrics are those of api, the API of the
// same node, or its own if api is nil: show exposes those.
func NewHealthServer(node Node, version string, log *slog.Logger, api *Server, show func(...metric.Source) http.Handler) *HealthServer {
	var follow func(context.Context)
	if api == nil {
		api = NewServer(node, "", version, log)
		api.Expose(show)
		follow = func(ctx context.Context) { api.leaderlessTime.follow(ctx, node) }
	}
	mux := http.NewServeMux()
	for _, r := range api.routes() {
		switch {
		case r.path == metricsPath:
			mux.HandleFunc("GET "+r.path, r.do)
		case slices.Contains(open, r.path):
			mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { r.do(bare{w}, req) })
		}
	}
	return &HealthServer{follow: follow, http: &http.Server{
		Handler: hardened(MemberAgent, http.MaxBytesHandler(mux, maxBody)), ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader, ConnState: access.EachClient(access.MaxConnections() / 2),
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

// Serve answers on l until Close.
func (s *HealthServer) Serve(l net.Listener) error {
	if s.follow != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go s.follow(ctx)
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close stops it.
func (s *HealthServer) Close(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// Guarded protects the calls of a super peer's agent as this API's own calls: by accepted host names,
// origins, tokens (nil: none are needed) and bounds on requests. The source counts refused
// requests.
func Guarded(calls http.Handler, tokens *access.Tokens, log *slog.Logger, names ...string) (http.Handler, metric.Source) {
	s := &Server{tokens: tokens, log: log, refused: newRefusals()}
	h := http.MaxBytesHandler(calls, maxBody)
	return hardened(SuperPeerAgent, s.ownHost(newHosts(names), s.sameOrigin(s.authorize(h)))), s.refused.Families
}

// GuardedServer serves such calls with this API's deadlines.
func GuardedServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ConnContext: access.Connection, ConnState: access.EachClient(access.MaxConnections() / 2), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
