package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
)

// Client calls the HTTP API of an agent.
type Client struct {
	addr  string
	base  string // of its URLs
	token string
	http  *http.Client
	quiet time.Duration // how long a stream may be without a line, even a ping
	whole time.Duration // how long a whole answer may take

	// SuperPeers makes it a client of agents of super peers. A client of one kind of agent refuses
	// the answers of the other: both have paths of the same name.
	SuperPeers bool
}

// NewClient makes a client of the agent with its API on addr: HOST:PORT, unix:PATH, or either after
// http:// or https://.
func NewClient(addr string, access Access) (*Client, error) {
	// It connects directly: a proxy in the environment is for the internet.
	transport, base, err := dialAgent(addr, access)
	if err != nil {
		return nil, fmt.Errorf("address of an agent: %w", err)
	}
	return &Client{addr: addr, base: base, token: access.Token, quiet: 3 * pingEvery, whole: headerTime + writeTimeout, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// AgentHeader is in every answer of an agent, and names its kind. Agents of earlier versions do not
// send it.
const (
	AgentHeader    = "Batuta-Agent"
	MemberAgent    = "member"
	SuperPeerAgent = "super-peer"
)

// AnswerError is an answer of the agent that is not a success.
type AnswerError struct {
	Code    int // HTTP status
	Message string
}

func (e *AnswerError) Error() string { return e.Message }

// UnreachableError means that no agent answers at the address.
type UnreachableError struct{ err error }

func (e *UnreachableError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.err }

func unreachable(format string, args ...any) error {
	return &UnreachableError{fmt.Errorf(format, args...)}
}

// Get reads the answer to GET path into v; as raw JSON when v is a *[json.RawMessage].
func (c *Client) Get(ctx context.Context, path string, v any) error {
	return c.Call(ctx, http.MethodGet, path, nil, v)
}

// Call sends body as JSON, unless it is nil, and reads the answer into v, as [Client.Get] does; nil: whatever it is.
func (c *Client) Call(ctx context.Context, method, path string, body, v any) error {
	var in io.Reader
	if body != nil {
		out, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(out)
	}
	within, cancel := context.WithTimeout(ctx, c.whole)
	defer cancel()
	resp, err := c.do(within, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	switch {
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		return unreachable("agent %s has answered in part, and nothing more within %v; its process is frozen or overloaded: look at it, or ask another member", c.addr, c.whole)
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return c.interrupted(ctx)
	case err != nil:
		return fmt.Errorf("agent %s: %w", c.addr, err)
	}
	if v == nil {
		v = new(any)
	}
	if err := json.Unmarshal(said, v); err != nil {
		return unreachable("agent %s: %s: answer is not batuta's: %w", c.addr, path, err)
	}
	return nil
}

// Stand begins, renews or queries a candidacy for a named election.
func (c *Client) Stand(ctx context.Context, name string, request candidacy.Request) (a candidacy.Turn, err error) {
	return a, c.Call(ctx, http.MethodPut, candidacyPath(name), request, &a)
}

// EndCandidacy acknowledges that the work has stopped, and ends the candidacy.
func (c *Client) EndCandidacy(ctx context.Context, name, id string) error {
	return c.Call(ctx, http.MethodDelete, candidacyPath(name), candidacy.Request{Candidacy: id}, nil)
}

func candidacyPath(name string) string {
	return "/v1/elections/" + url.PathEscape(name) + "/candidacy"
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	return c.answered(req)
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", c.addr, err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

func (c *Client) answered(req *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	resp, err := c.http.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) { connected.Store(connected.Load() || err == nil) },
		GotConn:     func(httptrace.GotConnInfo) { connected.Store(true) },
	})))
	if err != nil && errors.Is(req.Context().Err(), context.Canceled) {
		return nil, c.interrupted(req.Context())
	}
	if err != nil {
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && connected.Load() {
			return nil, unreachable("agent %s accepts connections and does not answer: %w; its process is frozen or overloaded: look at it, or ask another member", c.addr, unwrapped(err))
		}
		if errors.Is(err, http.ErrSchemeMismatch) {
			return nil, unreachable("agent %s answers without TLS: give as --agent http://%s", c.addr, strings.TrimPrefix(c.base, "https://"))
		}
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return nil, unreachable("agent %s has a certificate that is not accepted: %w; give --tls-ca FILE with its authority, or --secret-file FILE of its cluster", c.addr, unwrapped(err))
		}
		return nil, unreachable("agent %s does not answer: %w; start it, or give as --agent the address that an agent's ready event names", c.addr, unwrapped(err))
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		err = c.refusal(resp)
	}
	switch kind := resp.Header.Get(AgentHeader); {
	case kind == SuperPeerAgent && !c.SuperPeers:
		err = unreachable("%s is a super peer's agent; try: batuta superpeer status --agent %s", c.addr, c.addr)
	case kind == MemberAgent && c.SuperPeers:
		err = unreachable("%s is no super peer's agent; for the agent of a member try: batuta status --agent %s", c.addr, c.addr)
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// interrupted is the error of a call that ctx ended: a signal is its cause.
func (c *Client) interrupted(ctx context.Context) error {
	return fmt.Errorf("interrupted before agent %s answered: %w", c.addr, context.Cause(ctx))
}

func (c *Client) refusal(resp *http.Response) error {
	var said struct{ Error string }
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if strings.Contains(string(body), "HTTP request to an HTTPS server") {
		return unreachable("agent %s answers only with TLS: give as --agent https://%s, and its authority as --tls-ca FILE", c.addr, strings.TrimPrefix(c.base, "http://"))
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return unreachable("agent %s: %s answered %s: is it batuta's HTTP address?", c.addr, resp.Request.URL.Path, resp.Status)
	}
	return &AnswerError{resp.StatusCode, said.Error}
}

// unwrapped removes the method and address that net/http puts before the reason.
func unwrapped(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if op, ok := inner.(*net.OpError); ok {
			return op.Err
		}
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// How long an agent may be unreachable before a watch ends, and how often to retry meanwhile.
const (
	awayFor   = 5 * time.Second
	awayEvery = 200 * time.Millisecond
)

// Watch calls yield for each event, as JSON: of the cluster's own election, or with election=NAME or
// elections=true of named ones. If the connection ends, or is silent for three pings because the agent
// is stopped or cut off, it continues after the last event as soon as the agent answers, and ends
// after 5 s without an answer, and with the error of yield.
func (c *Client) Watch(ctx context.Context, of url.Values, yield func(line []byte) error) error {
	last, lost := "", time.Now()
	for {
		began, err := c.follow(ctx, of, &last, yield)
		if began {
			lost = time.Now()
		}
		if _, away := errors.AsType[*UnreachableError](err); !away || last == "" || time.Since(lost) > awayFor {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(awayEvery):
		}
	}
}

// follow watches on a single connection, after the event with the id last, which it updates. began:
// the agent has answered.
func (c *Client) follow(ctx context.Context, of url.Values, last *string, yield func(line []byte) error) (began bool, err error) {
	on, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(on, http.MethodGet, "/v1/events?"+of.Encode(), nil)
	if err != nil {
		return false, err
	}
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	resp, err := c.answered(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	silent := time.AfterFunc(c.quiet, cancel)
	next := func() bool {
		silent.Reset(c.quiet)
		defer silent.Stop() // yield may take its time
		return lines.Scan()
	}
	id := ""
	for next() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "data":
			if err := yield([]byte(value)); err != nil {
				return true, err
			}
		case "":
			*last = cmp.Or(id, *last) // the event is complete
		}
	}
	switch {
	case ctx.Err() != nil:
		return true, nil
	case on.Err() != nil:
		return true, unreachable("agent %s has sent nothing for %v", c.addr, c.quiet)
	}
	if err := lines.Err(); err != nil {
		return true, unreachable("agent %s is gone: %w", c.addr, unwrapped(err))
	}
	return true, unreachable("agent %s has left", c.addr)
}

// Address is where an HTTP API listens: HOST:PORT, or the path of a Unix socket.
type Address struct {
	Host string // HOST:PORT
	Unix string
}

// ParseAddress reads HOST:PORT or unix:PATH.
func ParseAddress(text string) (Address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" {
			return Address{}, errors.New("unix: names no path, such as unix:/run/batuta/http.sock")
		}
		return Address{Unix: path}, nil
	}
	if err := election.CheckListen(text); err != nil {
		return Address{}, fmt.Errorf("%q is not HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:7500, nor unix:PATH: %w", text, err)
	}
	return Address{Host: text}, nil
}

// Local reports whether the address is only reachable from this machine.
func (a Address) Local() bool { return a.Unix != "" || Loopback(a.Host) }

// Loopback reports whether HOST:PORT is only for this machine.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Listen opens the address. A Unix socket is for its owner and its group; a socket that a dead
// process has left is replaced.
func (a Address) Listen() (net.Listener, error) {
	if a.Unix == "" {
		return net.Listen("tcp", a.Host)
	}
	l, err := net.Listen("unix", a.Unix)
	if errors.Is(err, syscall.EADDRINUSE) && a.abandoned() && os.Remove(a.Unix) == nil {
		l, err = net.Listen("unix", a.Unix)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(a.Unix, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// abandoned reports whether the existing socket has no listener.
func (a Address) abandoned() bool {
	c, err := net.DialTimeout("unix", a.Unix, time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Access is what a client needs to be accepted by an agent.
type Access struct {
	Token string      // empty: none
	TLS   *tls.Config // the trusted authorities; nil: those of this machine
}

// headerTime is how long an answer may take to begin: a call that changes something waits for members.
const headerTime = callTimeout + 2*time.Second

// dialAgent makes the transport to an agent, and the prefix of its URLs. Addresses are HOST:PORT,
// unix:PATH, http://HOST:PORT and https://HOST:PORT. Without a scheme it uses TLS with a remote
// machine, if access has trusted authorities.
func dialAgent(addr string, access Access) (*http.Transport, string, error) {
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: access.TLS,
		TLSHandshakeTimeout: 3 * time.Second, ResponseHeaderTimeout: headerTime}
	scheme, rest, given := strings.Cut(strings.TrimSuffix(addr, "/"), "://")
	if !given {
		scheme, rest = "http", addr
	}
	at, err := ParseAddress(rest)
	switch {
	case err != nil:
		return nil, "", err
	case scheme != "http" && scheme != "https":
		return nil, "", fmt.Errorf("%q: use http:// or https://", addr)
	case at.Unix != "":
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", at.Unix)
		}
		return transport, "http://localhost", nil
	case !given && access.TLS != nil && !at.Local():
		scheme = "https"
	}
	if scheme == "http" && access.Token != "" && !at.Local() {
		return nil, "", fmt.Errorf("%s: the token would travel for all to read: give --tls-ca or --secret-file, or https://%s", addr, rest)
	}
	return transport, scheme + "://" + rest, nil
}
