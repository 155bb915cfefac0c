package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// Role is what a token permits.
type Role int

// Roles; each includes the role before it.
const (
	Nobody  Role = iota
	Read         // reads
	Operate      // changes: resign, campaign, add and remove members
)

// minToken is the least length of a token: it must not be guessable.
const minToken = 16

// Token is a line of a token file.
type Token struct {
	Text string // a secret
	Role Role
}

// ReadTokens reads a token file: a token per line, and its role, read or operate. Its errors quote
// no token.
func ReadTokens(path string) ([]Token, error) {
	data, err := security.ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	var tokens []Token
	for i, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		var t Token
		for _, w := range words {
			switch {
			case w == "read" && t.Role == Nobody:
				t.Role = Read
			case w == "operate" && t.Role == Nobody:
				t.Role = Operate
			default:
				t.Text += w
			}
		}
		switch {
		case len(words) != 2 || t.Role == Nobody:
			return nil, fmt.Errorf("%s:%d: write a token and its role, read or operate, such as: TOKEN operate", path, i+1)
		case len(t.Text) < minToken:
			return nil, fmt.Errorf("%s:%d: the token is shorter than %d characters, and can be guessed: make one with 'batuta secret new'", path, i+1, minToken)
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s holds no token: write a token and its role, read or operate, on a line", path)
	}
	return tokens, nil
}

// Tokens map tokens to roles. They are kept as hashes, which are compared in constant time.
type Tokens struct {
	path string
	all  atomic.Pointer[[]tokenSum]

	mu     sync.Mutex
	looked time.Time // when the file was checked
	was    os.FileInfo
}

type tokenSum struct {
	sum  [sha256.Size]byte
	role Role
}

// LoadTokens reads a token file for a server.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.Reload()
}

// refresh reads the file again if it has changed, at most once a second.
func (t *Tokens) refresh() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.looked) < time.Second {
		return nil
	}
	t.looked = now
	info, err := os.Stat(t.path)
	if err != nil || t.was != nil && os.SameFile(info, t.was) && info.ModTime().Equal(t.was.ModTime()) && info.Size() == t.was.Size() {
		return err
	}
	t.was = info
	return t.Reload()
}

// Reload reads the file again, which [Tokens] also does by itself when it has changed. After an
// error the previous tokens stay valid.
func (t *Tokens) Reload() error {
	if t == nil {
		return nil
	}
	list, err := ReadTokens(t.path)
	if err != nil {
		return err
	}
	sums := make([]tokenSum, 0, len(list))
	for _, token := range list {
		sums = append(sums, tokenSum{sha256.Sum256([]byte(token.Text)), token.Role})
	}
	t.all.Store(&sums)
	return nil
}

var errNoToken = errors.New("this call needs a token: send it as 'Authorization: Bearer TOKEN', or give --http-token-file")

// role returns the role of a request. A browser that asks for a password sends the token as the
// password.
func (t *Tokens) role(r *http.Request) (Role, error) {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	if !ok {
		return Nobody, errNoToken
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	role := Nobody
	for _, token := range *t.all.Load() { // always all of them
		role = max(role, Role(subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], token.sum[:]), int(token.role), int(Nobody))))
	}
	if role == Nobody {
		return Nobody, errors.New("this token is not in the agent's --http-token-file")
	}
	return role, nil
}

// open are the calls that need no token if no [HealthServer] answers them: their answer is then
// only a status code.
var open = []string{"/leader", "/super", "/healthz", "/readyz"}

// authorize accepts requests that their token permits.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.tokens == nil || s.asksAsMember(r) {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.tokens.refresh(); err != nil {
			s.log.Error("the token file cannot be read again: the tokens read before stay valid; fix the file, and it is read again by itself", "error", err)
		}
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		role, err := s.tokens.role(r)
		switch {
		case role >= Operate || role == Read && reads:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roleKey{}, role)))
		case reads && isPage(r):
			next.ServeHTTP(w, r)
		case role == Read:
			s.refuse(w, r, http.StatusForbidden, "role", "a token with the role read may not do this: it needs one with the role operate")
		case reads && r.Header.Get("Authorization") == "" && !s.healthElsewhere && slices.Contains(open, r.URL.Path):
			next.ServeHTTP(bare{w}, r)
		default:
			w.Header().Add("WWW-Authenticate", `Bearer realm="batuta"`)
			if strings.Contains(r.Header.Get("Accept"), "text/html") {
				w.Header().Add("WWW-Authenticate", `Basic realm="batuta: any name, and a token as the password"`)
			}
			s.refuse(w, r, http.StatusUnauthorized, "token", err.Error())
		}
	})
}

// roleKey is the key for the role of a request's token in its context.
type roleKey struct{}

// access returns what the client may do: operate or read.
func (s *Server) access(r *http.Request) string {
	if role, ok := r.Context().Value(roleKey{}).(Role); s.readOnly || ok && role < Operate {
		return "read"
	}
	return "operate"
}

// isPage reports whether the request is for the dashboard's own files. They contain nothing of the
// cluster, and ask for a token themselves, which no browser stores then.
func isPage(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/ui/") || r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// bare omits the body of an answer.
type bare struct{ http.ResponseWriter }

// Write implements [http.ResponseWriter].
func (w bare) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements [http.ResponseWriter].
func (w bare) WriteHeader(code int) {
	w.Header().Set("Content-Length", "0")
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets an answer be sent before its handler returns.
func (w bare) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse counts a refused request, and logs it as [refusal.Log] allows.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, reason, words string) {
	s.refused.count(reason)
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.refusals.Warn(s.log, host, reason, "HTTP request refused", "from", r.RemoteAddr, "method", r.Method, "path", r.URL.EscapedPath(), "reason", reason)
	reply.Fail(w, code, "%s", words)
}
