package batutahttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
)

// Forward is how [LeaderOnly] sends on a request that it does not serve. The zero value works where each
// member publishes the URL of its service as metadata under the key "url".
type Forward struct {
	// URL returns the base URL of a leader's service, http or https; "" if it is unknown. Default: v.Meta["url"].
	// An election on an engine has no metadata: use v.Address.
	URL func(v batuta.View) string
	// Redirect answers 307 with the leader's URL, and leaves it to the client to send the request there. Default: the
	// member sends it there, and passes the response back.
	Redirect bool
	// Wait is for how long a request waits for a leader in all. Default 3 s, as [batuta.TryTimeout]; negative: not at all.
	Wait time.Duration
	// Transport sends requests to the leader. Default [http.DefaultTransport].
	Transport http.RoundTripper
	// Logger receives why a request has not reached the leader. Default: nothing is logged.
	Logger *slog.Logger
}

// Headers between members.
const (
	hop        = "Batuta-Forwarded"   // of a request that was forwarded once: it is served, or refused
	notLeading = "Batuta-Not-Leading" // of the response that refuses it
)

// again is how often a request that waits looks for a leader when nothing has changed.
const again = 50 * time.Millisecond

// LeaderOnly serves requests with h on the leader of e, under [batuta.Elector.Hold]: the context of the request ends when the
// leadership does, and no later leader works before h has returned, as far as the guarantee of the election goes: a
// best-effort leader cut off from the others does not keep their leader waiting. [batuta.LeadershipFrom] gives h the
// leadership of its request, with the token and the fence.
//
// On the members that do not lead a request goes to the leader, by f. A request is forwarded at most once. If no member
// leads, or the leader is not reached, it waits for the next leader; after f.Wait the response is 503 with Retry-After.
// If the body was sent in part, or the connection broke before the response, it is not sent again: the response
// is 502, and the leader may have served it.
//
// All members mount it at the same path, behind the same authentication: a member forwards what it receives.
// It panics if e or h is nil.
func LeaderOnly(e batuta.Elector, h http.Handler, f Forward) http.Handler {
	if e == nil || h == nil {
		panic("batutahttp: nil elector or handler: give what batuta.Start has returned, and the handler of the leader")
	}
	if f.URL == nil {
		f.URL = func(v batuta.View) string { return v.Meta["url"] }
	}
	f.Logger = cmp.Or(f.Logger, slog.New(slog.DiscardHandler))
	l := &leaderOnly{elector: e, handler: h, Forward: f}
	l.proxy = &httputil.ReverseProxy{
		Transport: f.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			a := r.In.Context().Value(attemptKey{}).(*attempt)
			r.SetURL(a.to)
			r.Out.Host = r.In.Host
			setXForwarded(r)
			r.Out.Header.Set(hop, "1")
			if r.Out.Body != nil && r.Out.Body != http.NoBody {
				r.Out.Body = a
				r.Out.Header.Set("Expect", "100-continue") // a member that does not lead answers before the body is sent
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusMisdirectedRequest && r.Header.Get(notLeading) != "" {
				return errNotLeading
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			r.Context().Value(attemptKey{}).(*attempt).err = err
		},
	}
	return l
}

// setXForwarded adds this member to the way that the headers of a load balancer describe.
func setXForwarded(r *httputil.ProxyRequest) {
	const address, host, proto = "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"
	r.Out.Header[address] = r.In.Header[address]
	r.SetXForwarded()
	for _, key := range []string{host, proto} { // as the client has sent it, which is what a handler asks for
		if sent := r.In.Header[key]; sent != nil {
			r.Out.Header[key] = sent
		}
	}
}

type leaderOnly struct {
	Forward
	elector batuta.Elector
	handler http.Handler
	proxy   *httputil.ReverseProxy
}

var (
	errNoLeader   = errors.New("no member leads")
	errNoURL      = errors.New(`the leader publishes no URL: have each member publish it as metadata "url", or set Forward.URL`)
	errNotLeading = errors.New("the member to which the request was sent does not lead")
)

// ServeHTTP implements [http.Handler].
func (l *leaderOnly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forwarded := r.Header.Get(hop) != ""
	wait, stop := context.WithTimeout(r.Context(), max(cmp.Or(l.Wait, batuta.TryTimeout), 0))
	defer stop()
	for {
		ctx, release, err := l.elector.Hold(r.Context())
		if err == nil {
			defer release()
			l.handler.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if forwarded { // the member that forwarded it waits
			w.Header().Set(notLeading, "1")
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		if errors.Is(err, batuta.ErrNotLeading) {
			if err = l.forward(w, r); err == nil {
				return
			}
			if l.changed(wait) {
				continue
			}
		}
		l.unreached(w, err)
		return
	}
}

// unreached answers a request that has found no leader in time.
func (l *leaderOnly) unreached(w http.ResponseWriter, err error) {
	l.Logger.Warn("a request has not reached the leader", "error", err)
	text := "no leader can be reached now: try again"
	if errors.Is(err, errNoURL) {
		text = err.Error()
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, text, http.StatusServiceUnavailable)
}

// changed waits until a view has changed, or for a moment; false when the wait is over.
func (l *leaderOnly) changed(wait context.Context) bool {
	moment, stop := context.WithTimeout(wait, again)
	defer stop()
	first := true
	for range l.elector.Watch(moment) {
		if !first {
			break
		}
		first = false
	}
	if first { // its elector has ended
		<-moment.Done()
	}
	return wait.Err() == nil
}

// forward sends a request to the leader. It returns nil if that is done with, or why it may be tried again.
func (l *leaderOnly) forward(w http.ResponseWriter, r *http.Request) error {
	leader := l.elector.Leader()
	if !leader.Token.Defined() {
		return errNoLeader
	}
	published := l.URL(leader)
	if published == "" {
		return errNoURL
	}
	to, err := url.Parse(published)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return errors.New("the URL that the leader publishes is not an http or https URL")
	}
	if l.Redirect {
		there := to.JoinPath(r.URL.EscapedPath())
		there.User, there.RawQuery = nil, r.URL.RawQuery
		http.Redirect(w, r, there.String(), http.StatusTemporaryRedirect)
		return nil
	}
	a := &attempt{to: to, body: r.Body}
	l.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), attemptKey{}, a)))
	unsent := a.end()
	var dialed *net.OpError
	switch {
	case a.err == nil:
		return nil
	case errors.Is(a.err, errNotLeading) && unsent, errors.As(a.err, &dialed) && dialed.Op == "dial":
		if r.Context().Err() != nil {
			return nil
		}
		return a.err
	}
	l.Logger.Warn("a request was forwarded, and the leader has not answered", "url", to.Redacted(), "error", a.err)
	http.Error(w, "the leader has not answered, and may have served the request", http.StatusBadGateway)
	return nil
}

type attemptKey struct{}

// attempt is a try of a request. It is the body too, which stays open for the next.
type attempt struct {
	to  *url.URL
	err error

	mu   sync.Mutex
	body io.Reader
	sent bool
	over bool
}

func (a *attempt) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return 0, http.ErrBodyReadAfterClose
	}
	a.sent = true
	return a.body.Read(p)
}

// Close leaves the body to the server, and to the next attempt.
func (a *attempt) Close() error { return nil }

// end reports whether nothing of the body was read, nor will be.
func (a *attempt) end() (unsent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	return !a.sent
}
