package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// This file attacks an API that needs tokens.

const (
	readToken    = "read-0123456789abcdef"
	operateToken = "operate-0123456789abcdef"
)

// guarded serves the API of a leader that needs tokens, and gives its log.
func guarded(t *testing.T) (n *fakeNode, addr, path string, tokens *access.Tokens, log *safeBuffer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens")
	text := "# who may do what\n" + readToken + " read\noperate " + operateToken + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	n = &fakeNode{view: viewOf("3", 8), done: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log = &safeBuffer{}
	s := api.NewServer(n, l.Addr().String(), "v1", slog.New(slog.NewTextHandler(log, nil)))
	s.Expose(shown)
	s.Authorize(tokens)
	go s.Serve(l)
	t.Cleanup(func() { s.Close(context.Background()) })
	return n, l.Addr().String(), path, tokens, log
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// with asks with an Authorization header.
func with(t *testing.T, addr, method, path, authorization string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func TestTokensSayWhoMayDoWhat(t *testing.T) {
	n, addr, _, _, log := guarded(t)
	basic := "Basic YW55OnJlYWQtMDEyMzQ1Njc4OWFiY2RlZg==" // any:read-…
	for _, test := range []struct {
		method, path, authorization string
		want                        int
	}{
		{"GET", "/v1/status", "Bearer " + readToken, 200},
		{"GET", "/v1/status", "bearer " + readToken, 200}, // a scheme has no case
		{"GET", "/v1/status", "BEARER  " + readToken, 200},
		{"GET", "/v1/status", "Bearer", 401},
		{"GET", "/v1/status", "Token " + readToken, 401},
		{"GET", "/v1/status", basic, 200},
		{"GET", "/metrics", "Bearer " + readToken, 200},
		{"GET", "/v1/status", "Bearer " + operateToken, 200},
		{"POST", "/v1/campaign", "Bearer " + operateToken, 200},
		{"DELETE", "/v1/members/5", "Bearer " + operateToken, 200},
		{"GET", "/leader", "", 200},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/ui/dashboard.js", "", 200}, // the page asks for a token itself

		{"GET", "/v1/status", "", 401},
		{"GET", "/v1/members", "", 401},
		{"GET", "/v1/events", "", 401},
		{"GET", "/v1/trace", "", 401},
		{"GET", "/metrics", "", 401},
		{"GET", "/", "", 401},
		{"GET", "/none", "", 401},
		{"GET", "/v1/status?token=" + operateToken, "", 401},
		{"GET", "/leader", "Bearer wrong", 401},
		{"GET", "/v1/status", "Bearer ", 401},
		{"GET", "/v1/status", "Bearer " + readToken[:len(readToken)-1], 401},
		{"GET", "/v1/status", "Bearer " + readToken + "x", 401},
		{"GET", "/v1/status", readToken, 401},
		{"POST", "/leader", "", 401},
		{"POST", "/ui/dashboard.js", "", 401},
		{"POST", "/v1/resign", "", 401},
		{"POST", "/v1/resign", "Bearer wrong-0123456789abcdef", 401},
		{"POST", "/v1/resign", "Bearer " + readToken, 403},
		{"GET", "/v1/elections", "", 401},
		{"GET", "/v1/elections", "Bearer " + readToken, 200},
		{"POST", "/v1/drain", "Bearer " + readToken, 403},
		{"POST", "/v1/undrain", "Bearer " + readToken, 403},
		{"POST", "/v1/transfer", "Bearer " + readToken, 403},
		{"POST", "/v1/campaign", basic, 403},
		{"DELETE", "/v1/members/5", "Bearer " + readToken, 403},
	} {
		code, body, head := with(t, addr, test.method, test.path, test.authorization)
		if code != test.want {
			t.Errorf("%s %s with %q gives %d (%s), want %d", test.method, test.path, test.authorization, code, body, test.want)
		}
		if test.path == "/leader" && code == 200 && body != "" {
			t.Errorf("without a token %s names somebody: %s", test.path, body)
		}
		if code == 401 && head.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: a refusal does not say what it wants", test.method, test.path)
		}
		for _, header := range []string{api.AgentHeader, "Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy"} {
			if head.Get(header) == "" {
				t.Errorf("%s %s: no %s", test.method, test.path, header)
			}
		}
	}
	if n.resigned.Load() {
		t.Error("the leader has resigned")
	}
	if got := strings.Count(log.String(), "HTTP request refused"); got != 2 {
		t.Errorf("%d lines, want one for each of the reasons token and role:\n%s", got, log)
	}
	_, metrics, _ := with(t, addr, "GET", "/metrics", "Bearer "+readToken) // which counts each
	for _, want := range []string{`batuta_http_requests_refused_total{reason="token"} 20`, `batuta_http_requests_refused_total{reason="role"} 6`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for _, token := range []string{readToken, operateToken} {
		if strings.Contains(log.String(), token) || strings.Contains(metrics, token) {
			t.Error("a token is told in the log or in the metrics")
		}
	}
}

// Where load balancers have a server of their own, who leads is told to nobody without a
// token.
func TestWithHealthElsewhereEverythingNeedsAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(readToken+" read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(&fakeNode{view: viewOf("3", 8), done: make(chan struct{})}, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
	s.Expose(shown)
	s.Authorize(tokens)
	s.HealthElsewhere()
	go s.Serve(l)
	t.Cleanup(func() { s.Close(context.Background()) })
	for _, path := range []string{"/leader", "/healthz", "/readyz"} {
		if code, _, _ := with(t, l.Addr().String(), "GET", path, ""); code != 401 {
			t.Errorf("%s without a token gives %d", path, code)
		}
		if code, _, _ := with(t, l.Addr().String(), "GET", path, "Bearer "+readToken); code != 200 {
			t.Errorf("%s with one gives %d", path, code)
		}
	}
}

// A page of another origin can neither read nor change anything.
func TestAPageOfAnotherOriginReadsNothing(t *testing.T) {
	addr := serve(t, &fakeNode{view: viewOf("3", 8)})
	for _, path := range []string{"/v1/status", "/v1/members", "/metrics", "/"} {
		if code, body := (call{method: "GET", path: path, origin: "https://evil.example"}).do(t, addr); code != 403 || strings.Contains(body, "5") {
			t.Errorf("%s gives %d %s", path, code, body)
		}
		if code, _ := (call{method: "GET", path: path, origin: "http://" + addr}).do(t, addr); code != 200 {
			t.Errorf("%s of its own origin gives %d", path, code)
		}
	}
}

// Guesses come by the thousand; the API answers who has a token meanwhile.
func TestGuessesOfTokensGetNowhere(t *testing.T) {
	n, addr, _, _, log := guarded(t)
	began := time.Now()
	guesses := fulltest.Size(2_000, 100_000)
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for i := range guesses / 4 {
				req, _ := http.NewRequest("POST", "http://"+addr+"/v1/resign", nil)
				req.Header.Set("Authorization", fmt.Sprintf("Bearer %016d%06d", w, i))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				if resp.Body.Close(); resp.StatusCode != 401 {
					t.Errorf("a guess gives %d", resp.StatusCode)
				}
			}
		})
	}
	if code, _, _ := with(t, addr, "GET", "/v1/status", "Bearer "+readToken); code != 200 {
		t.Errorf("who has a token is answered %d", code)
	}
	wait.Wait()
	if n.resigned.Load() {
		t.Error("the leader has resigned")
	}
	_, metrics, _ := with(t, addr, "GET", "/metrics", "Bearer "+readToken)
	if want := fmt.Sprintf(`batuta_http_requests_refused_total{reason="token"} %d`, guesses); !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s", want)
	}
	if lines := strings.Count(log.String(), "\n"); lines < 1 || lines > 1+int(time.Since(began)/time.Minute) {
		t.Errorf("%d guesses are %d lines of the log, want one a minute", guesses, lines)
	}
}

func TestTokensAreReadAgain(t *testing.T) {
	_, addr, path, tokens, _ := guarded(t)
	if err := os.WriteFile(path, []byte(strings.ToUpper(readToken)+" read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // by itself
		if code, _, _ := with(t, addr, "GET", "/v1/status", "Bearer "+readToken); code == 401 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the old token is taken still")
		}
	}
	if code, _, _ := with(t, addr, "GET", "/v1/status", "Bearer "+strings.ToUpper(readToken)); code != 200 {
		t.Errorf("the new token gives %d", code)
	}
	for _, text := range []string{"", "secret-0123456789abcdef\n", "short read\n", "a b c\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tokens.Reload(); err == nil || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%q gives %v", text, err)
		}
	}
	if code, _, _ := with(t, addr, "GET", "/v1/status", "Bearer "+strings.ToUpper(readToken)); code != 401 {
		t.Errorf("after a bad file the token gives %d", code)
	}
}

// The health server answers load balancers by yes or no. It has no other call but /metrics.
func TestHealthNamesNobody(t *testing.T) {
	n := &fakeNode{view: viewOf("5", 8), done: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewHealthServer(n, "v1", slog.New(slog.DiscardHandler), nil, shown)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for path, want := range map[string]int{"/leader": 503, "/healthz": 200, "/readyz": 200,
		"/": 404, "/v1/status": 404, "/v1/members": 404, "/v1/resign": 404} {
		for _, method := range []string{"GET", "POST"} {
			code, body, _ := with(t, l.Addr().String(), method, path, "")
			if method == "GET" && code != want || method == "POST" && code < 400 || strings.Contains(body, "3") || strings.Contains(body, "5") {
				t.Errorf("%s %s gives %d %q, want %d", method, path, code, body, want)
			}
		}
	}
	s.Close(t.Context())
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it still serves")
	}
}

// Who speaks no TLS, or none that both ends know, is counted and logged once; who looks
// whether the port is open is neither.
func TestFailedHandshakesOfTLSAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(security.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	serving, err := security.NewServing("default", "3", security.Options{SecretFile: path})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, log := l.Addr().String(), &safeBuffer{}
	s := api.NewServer(&fakeNode{view: viewOf("3", 8), done: make(chan struct{})}, addr, "v1", slog.New(slog.NewTextHandler(log, nil)))
	s.Expose(shown)
	go s.Serve(tls.NewListener(l, serving.Config()))
	t.Cleanup(func() { s.Close(context.Background()) })

	quiet, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	quiet.Close()
	if resp, err := http.Get("http://" + addr + "/v1/status"); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS it answers %d", resp.StatusCode)
		}
	}
	if c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("TLS 1.2 is spoken")
	}
	good := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer good.CloseIdleConnections()
	var text string
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(text, `requests_refused_total{reason="tls"} 2`); {
		if time.Now().After(deadline) {
			t.Fatalf("not counted:\n%s\n%s", text, log)
		}
		resp, err := good.Get("https://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		text = string(body)
	}
	if got := strings.Count(log.String(), "reason=tls"); got != 1 {
		t.Errorf("%d lines of 2 refusals, want one a minute:\n%s", got, log)
	}
}

// The dashboard's own files need no token: it asks for one, and is told what that may do.
func TestThePageItselfNeedsNoToken(t *testing.T) {
	_, addr, _, _, _ := guarded(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || !strings.Contains(string(body), "<html") || resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page: %s, %.60q", resp.Status, body)
	}
	for token, want := range map[string]string{readToken: `"access":"read"`, operateToken: `"access":"operate"`} {
		if _, body, _ := with(t, addr, "GET", "/v1/status", "Bearer "+token); !strings.Contains(body, want) {
			t.Errorf("the status lacks %s: %s", want, body)
		}
	}
}
