// Package peeragent is the agent of a node of a super peer overlay: its HTTP API, events, metrics,
// hooks and the map.
package peeragent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/batutaprom/exposition"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/batuta-dev/batuta/superpeer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of event streams: how many may be open at a time, and the pause after which an idle stream
// gets a comment.
const (
	maxStreams = 64
	pingEvery  = 15 * time.Second
)

// Server is the HTTP API of a node.
type Server struct {
	node    *superpeer.Member // set when joined is closed
	joined  chan struct{}
	log     *slog.Logger
	streams chan struct{}
	http    *http.Server
}

// NewServer makes the API of a node. Until [Server.Joined] it answers 503, except that the process
// is healthy, and the metrics of the process. Requests may use an IP address, localhost or names as
// the host; with nil tokens every client is accepted.
func NewServer(version string, tokens *access.Tokens, log *slog.Logger, names ...string) *Server {
	s := &Server{joined: make(chan struct{}), log: log, streams: make(chan struct{}, maxStreams)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/clients", s.clients)
	mux.HandleFunc("GET /v1/map", s.chart)
	mux.HandleFunc("GET /v1/lookup", s.lookup)
	mux.HandleFunc("GET /v1/events", s.events)
	whole := func(w http.ResponseWriter) http.ResponseWriter { return w }
	s.health(mux, whole)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.status(w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply.Fail(w, http.StatusNotFound, "no %s %s here; a super peer's agent has /v1/status, /v1/clients, /v1/map, /v1/lookup, /v1/events and /metrics", r.Method, r.URL.Path)
	})
	guarded, refused := api.Guarded(s.afterJoin(mux, whole), tokens, log, names...)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{s, version}, exposition.Collector(refused), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	s.http = api.GuardedServer(guarded, log)
	return s
}

// NewHealthServer answers /super, /healthz and /readyz with a status code to every client; until
// [Server.Joined] as the API does.
func NewHealthServer(log *slog.Logger) *Server {
	s := &Server{joined: make(chan struct{}), log: log}
	mux := http.NewServeMux()
	without := func(w http.ResponseWriter) http.ResponseWriter { return bare{w} }
	s.health(mux, without)
	s.http = api.GuardedServer(http.MaxBytesHandler(s.afterJoin(mux, without), 1<<16), log)
	return s
}

// Joined makes the API that of node, which has joined its overlay. It is called once.
func (s *Server) Joined(node *superpeer.Member) {
	s.node = node
	close(s.joined)
}

// hasJoined reports whether there is a node.
func (s *Server) hasJoined() bool {
	select {
	case <-s.joined:
		return true
	default:
		return false
	}
}

// afterJoin calls h once there is a node. Before that only what needs none is answered.
func (s *Server) afterJoin(h http.Handler, wrap func(http.ResponseWriter) http.ResponseWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hasJoined() || r.URL.Path == "/healthz" || r.URL.Path == "/metrics" {
			h.ServeHTTP(w, r)
			return
		}
		reply.Fail(wrap(w), http.StatusServiceUnavailable, "this node has not joined its overlay yet")
	})
}

// bare omits the body of an answer.
type bare struct{ http.ResponseWriter }

// Write implements [http.ResponseWriter].
func (w bare) Write(b []byte) (int, error) { return len(b), nil }

// Serve answers on l until Close.
func (s *Server) Serve(l net.Listener) {
	if err := s.http.Serve(l); err != http.ErrServerClosed {
		s.log.Error("HTTP API ended", "error", err)
	}
}

// Close lets answers finish until ctx ends.
func (s *Server) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

func (s *Server) health(mux *http.ServeMux, wrap func(http.ResponseWriter) http.ResponseWriter) {
	mux.HandleFunc("GET /super", func(w http.ResponseWriter, _ *http.Request) {
		if !s.node.IsSuperPeer() {
			reply.Fail(wrap(w), http.StatusServiceUnavailable, "node %s is no super peer", s.node.ID())
			return
		}
		reply.JSON(wrap(w), http.StatusOK, map[string]string{"super_peer": s.node.ID()})
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s.hasJoined() {
			select {
			case <-s.node.Done():
				reply.Fail(wrap(w), http.StatusServiceUnavailable, "node %s has ended", s.node.ID())
				return
			default:
			}
		}
		reply.JSON(wrap(w), http.StatusOK, map[string]bool{"healthy": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		home, served := s.node.Home()
		if !served && !s.node.IsSuperPeer() {
			reply.Fail(wrap(w), http.StatusServiceUnavailable, "node %s has no super peer", s.node.ID())
			return
		}
		reply.JSON(wrap(w), http.StatusOK, map[string]string{"home": home.ID})
	})
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	reply.JSON(w, http.StatusOK, s.node.Status())
}

func (s *Server) clients(w http.ResponseWriter, r *http.Request) {
	list := s.node.Clients()
	if list == nil {
		list = []superpeer.Client{}
	}
	reply.Much(w, r, list)
}

// chart returns which super peer serves which nodes, from all super peers.
func (s *Server) chart(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 8*time.Second)
	defer cancel()
	groups, err := s.node.Map(ctx)
	if err != nil {
		reply.Fail(w, http.StatusGatewayTimeout, "map: %v", err)
		return
	}
	reply.Much(w, r, Chart{s.node.Status(), groups})
}

// lookup returns the super peer of a text, by its hash; with ?key=0x… that of a key.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("key")
	key, err := strconv.ParseUint(text, 0, 64)
	if name := r.URL.Query().Get("name"); name != "" {
		h := fnv.New64a()
		h.Write([]byte(name)) // never fails
		key, err = spread(h.Sum64()), nil
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "key %q is no number of 64 bits; give ?key=0x8000000000000000, or ?name=TEXT for a text's hash", text)
		return
	}
	p, err := s.node.Lookup(key)
	if err != nil {
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
		return
	}
	reply.JSON(w, http.StatusOK, p)
}

// spread distributes a hash over 64 bits: FNV's high bits of short texts are similar.
func spread(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		reply.Fail(w, http.StatusServiceUnavailable, "%d event streams are open already; close one", maxStreams)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events := make(chan reply.Event)
	go func() {
		defer close(events)
		for e := range feed(s.log, superpeer.ErrBehind, follow.On(ctx, superpeer.ErrBehind, s.node.Watch), func(ev superpeer.Event, behind bool) (string, any) {
			l := LineOf(s.node.ID(), ev)
			if behind {
				l = BehindLine(s.node.ID(), time.Now())
			}
			return l.Event, l
		}) {
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	stream(w, r, events)
}

// collector reads a node's status for each scrape, and keeps nothing. Before the node has joined
// there is none.
type collector struct {
	server  *Server
	version string
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("batuta_superpeer_"+name, help, labels, nil)
}

var (
	descInfo     = desc("info", "1, with what does not change.", "id", "overlay", "method", "version")
	descIs       = desc("is_super_peer", "1 on a super peer.")
	descServed   = desc("served", "1 when a super peer serves the node, or it is one.")
	descClients  = desc("clients", "Nodes that this one serves.")
	descCapacity = desc("capacity", "The most that it may serve; 0: no limit.")
	descNodes    = desc("nodes", "Nodes of the overlay, as this one counts them.")
	descWanted   = desc("wanted", "Super peers that there shall be.")
	descLive     = desc("live", "Super peers that this node has learned of lately.")
	descWrong    = desc("share_wrong_seconds", "For how long the number of super peers has not been the wanted one; 0 when it is right.")
	descUnserved = desc("unserved_seconds", "For how long no super peer has served the node; 0 when one does.")
	descRTT      = desc("home_rtt_seconds", "Round trip to the super peer; not there while it is not known.")
	descHolds    = desc("requirement_holds", "1 when a requirement holds as far as this node knows.", "requirement")
	descMessages = desc("messages_total", "Messages of the overlay, without memberlist's own.", "direction")
	descBytes    = desc("message_bytes_total", "Their bytes.", "direction")
	descProbes   = desc("probes_total", "Round trips measured on purpose.")
	descRefused  = desc("messages_refused_total", "Messages that could not be true.")
	descDropped  = desc("messages_dropped_total", "Messages for which there was no room.")
)

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	if !c.server.hasJoined() {
		return
	}
	s := c.server.node.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(descInfo, 1, s.ID, s.Overlay, s.Method, c.version)
	gauge(descIs, one(s.SuperPeer))
	gauge(descServed, one(s.SuperPeer || s.Home != nil))
	gauge(descClients, float64(s.Clients))
	gauge(descCapacity, float64(s.Capacity))
	gauge(descNodes, float64(s.Nodes))
	gauge(descWanted, float64(s.Wanted))
	gauge(descLive, float64(s.Live))
	gauge(descWrong, s.ShareWrong)
	gauge(descUnserved, s.Unserved)
	if s.RTTms != nil {
		gauge(descRTT, *s.RTTms/1000)
	}
	r := &s.Requirements
	gauge(descHolds, one(r.Latency.Holds), "low_latency")
	gauge(descHolds, one(r.Spread.Holds), "spread_evenly")
	gauge(descHolds, one(r.Share.Holds), "predefined_share")
	gauge(descHolds, one(r.Capacity.Holds), "bounded_load")
	count(descMessages, s.Traffic.Sent, "sent")
	count(descMessages, s.Traffic.Received, "received")
	count(descBytes, s.Traffic.BytesOut, "sent")
	count(descBytes, s.Traffic.BytesIn, "received")
	count(descProbes, s.Traffic.Probes)
	count(descRefused, s.Traffic.Refused)
	count(descDropped, s.Traffic.Dropped)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// feed makes the events of a [stream] from those of [follow.On], with the name and the content that line returns. If
// the reader was too slow, line first makes an event that reports it, and then events of the present state. Any further
// error ends the feed.
func feed[E any](log *slog.Logger, behind error, events iter.Seq2[E, error], line func(e E, behind bool) (name string, l any)) iter.Seq[reply.Event] {
	return func(yield func(reply.Event) bool) {
		for e, err := range events {
			late := errors.Is(err, behind)
			if late {
				log.Warn("a client reads its event stream too slowly, and some events are left out", "error", err)
				err = nil
			}
			var name string
			var body []byte
			if err == nil {
				var l any
				name, l = line(e, late)
				body, err = json.Marshal(l)
			}
			if err != nil {
				log.Warn("an event stream has ended", "error", err)
				return
			}
			if !yield(reply.Event{Name: name, JSON: body}) {
				return
			}
		}
	}
}

// stream answers with server-sent events, and pings while there are none, until events ends or the
// client disconnects.
func stream(w http.ResponseWriter, r *http.Request, events <-chan reply.Event) {
	out := reply.NewStream(w)
	if r.Method == http.MethodHead || out.Flush() != nil {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var e reply.Event
		ok := true
		select {
		case e, ok = <-events:
		case <-ping.C:
		case <-r.Context().Done():
			return
		}
		if !ok || out.Send(e) != nil {
			return
		}
	}
}

// Hooks are what to run. A command is a program and its arguments; no shell reads it.
type Hooks struct {
	OnSuper  []string // this node becomes a super peer
	OnClient []string // a super peer serves it: the first, or a new one
	Timeout  time.Duration
	Log      *slog.Logger
}

// Any reports whether there is anything to run.
func (h *Hooks) Any() bool { return len(h.OnSuper)+len(h.OnClient) > 0 }

// Follow runs hooks for the events of node, a single hook at a time and in order, until node ends.
func (h *Hooks) Follow(node *superpeer.Member) {
	for ev, err := range follow.On(context.Background(), superpeer.ErrBehind, node.Watch) {
		if err != nil {
			h.Log.Error("hooks have missed what happened meanwhile and go on with what holds now", "error", err)
			continue
		}
		h.see(node, ev)
	}
}

func (h *Hooks) see(node *superpeer.Member, ev superpeer.Event) {
	set := []string{"BATUTA_EVENT=" + ev.Kind, "BATUTA_ID=" + node.ID()}
	switch {
	case ev.Kind == superpeer.EventSuper:
		h.run("on-super", h.OnSuper, append(set, fmt.Sprintf("BATUTA_TOKEN=%d:%d", ev.Version, ev.Token)))
	case ev.Kind == superpeer.EventHome && ev.Home != nil:
		h.run("on-client", h.OnClient, append(set, "BATUTA_HOME="+ev.Home.ID, "BATUTA_ADDRESS="+ev.Home.Address, "BATUTA_SERVICE="+ev.Home.Service))
	}
}

// run runs a hook. A failure is only logged.
func (h *Hooks) run(name string, argv, set []string) {
	if len(argv) == 0 {
		return
	}
	if err := hooks.Run(context.Background(), argv, h.Timeout, set...); err != nil {
		h.Log.Error("hook failed", "hook", name, "command", argv[0], "error", err)
		return
	}
	h.Log.Info("hook has run", "hook", name)
}
