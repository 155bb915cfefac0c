// Package access reads what each client of an HTTP API may do, and identifies the clients: by a token, or
// by the user at the far end of a Unix socket.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// Role is what a client may do.
type Role int

// Roles; each includes the role before it.
const (
	Nobody  Role = iota
	Read         // reads
	Stand        // is a candidate in the named elections of its grant
	Operate      // changes: resign, campaign, add and remove members
)

var roles = map[string]Role{"read": Read, "stand": Stand, "operate": Operate}

// Limits of a grant.
const (
	minToken     = 16     // characters of a token: it must not be guessable
	DefaultLimit = 1000   // candidacies of a client at the same time
	MaxLimit     = 10_000 // that a line may set
)

// Grant is a line of a token file.
type Grant struct {
	Token string   // a secret; "": the line is of a user
	User  string   // its number, as "1001"
	Role  Role     // of the client
	Names []string // with the role Stand: the elections, by name, or by prefix as "billing-*"
	Limit int      // candidacies at the same time
}

// May reports whether the client may be a candidate in an election.
func (g Grant) May(election string) bool {
	return g.Role >= Operate || g.Role == Stand && slices.ContainsFunc(g.Names, func(pattern string) bool {
		prefix, ok := strings.CutSuffix(pattern, "*")
		return pattern == election || ok && strings.HasPrefix(election, prefix)
	})
}

// Client identifies the client of the grant; "": it has no identity.
func (g Grant) Client() string {
	if g.Token != "" {
		return "token " + g.Token // of a server: its hash
	}
	return g.User
}

const howto = "write a token and its role, such as 'TOKEN operate' or 'TOKEN stand billing-*'; 'user:NAME' in place of a token is a user of a Unix socket"

// ReadFile reads a token file: in each line a token or user:NAME, and its role. After the role "stand" come
// the elections. limit=N bounds the candidacies of the client. Its errors quote no token; lines without an
// error give their grants all the same. nil: the file cannot be read.
func ReadFile(path string) (grants []Grant, err error) {
	data, err := security.ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	grants = []Grant{}
	var wrong []error
	for i, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		g, err := parse(words)
		if err == nil && slices.ContainsFunc(grants, func(other Grant) bool { return other.Client() == g.Client() }) {
			err = errors.New("an earlier line has this token or user, and only one counts: write all its elections on one line")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s:%d: %w", path, i+1, err))
			continue
		}
		grants = append(grants, g)
	}
	if len(grants) == 0 && wrong == nil {
		wrong = append(wrong, fmt.Errorf("%s holds no token: %s", path, howto))
	}
	return grants, errors.Join(wrong...)
}

// parse reads a line. A token and its role may come in any order.
func parse(words []string) (g Grant, err error) {
	at := slices.IndexFunc(words, func(w string) bool { return roles[w] != Nobody })
	if at < 0 || at > 1 || len(words) < 2 {
		return g, errors.New(howto)
	}
	g = Grant{Token: words[1-at], Role: roles[words[at]], Limit: DefaultLimit}
	for _, w := range words[2:] {
		n, limits := strings.CutPrefix(w, "limit=")
		switch {
		case limits && g.Role != Read:
			if g.Limit, err = strconv.Atoi(n); err != nil || g.Limit < 1 || g.Limit > MaxLimit {
				return g, fmt.Errorf("limit=%.20q: give a number of candidacies, 1 to %d", n, MaxLimit)
			}
		case g.Role == Stand && !limits:
			name, err := named.Name(w)
			if err != nil || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
				return g, fmt.Errorf("%.80q: write the name of an election, or how names begin and one *, such as billing-*", w)
			}
			g.Names = append(g.Names, name)
		default:
			return g, errors.New(howto)
		}
	}
	name, isUser := strings.CutPrefix(g.Token, "user:")
	switch {
	case g.Role == Stand && g.Names == nil:
		return g, errors.New("the role stand needs the elections, such as: TOKEN stand billing-* payroll; '*' is all of them")
	case isUser && !identifiesUsers:
		err = errors.New("user:NAME is for Linux: give this client a token, from 'batuta secret new'")
	case isUser:
		g.Token = ""
		g.User, err = number(name)
	case len(g.Token) < minToken:
		err = fmt.Errorf("the token is shorter than %d characters, and can be guessed: make one with 'batuta secret new'", minToken)
	}
	return g, err
}

var errNoUser = errors.New("this machine has no such user")

// number gives the number of a user of this machine.
func number(name string) (string, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return strconv.FormatUint(uid, 10), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return "", fmt.Errorf("user:%.80s: %w; give its name, or its number as user:1001", name, errNoUser)
	}
	return u.Uid, nil
}

// Tokens are the grants of a file. The tokens are kept as hashes, which are compared in constant time.
type Tokens struct {
	path string
	all  atomic.Pointer[[]Grant]

	mu     sync.Mutex
	looked time.Time // when the file was checked
	was    os.FileInfo
}

// Load reads a token file for a server. Each line must be right, except that a user may be unknown: users are
// deleted, and such a line permits nothing. The first [Tokens.Refresh] returns that error.
func Load(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	err := t.Reload()
	lines, ok := err.(interface{ Unwrap() []error })
	if !ok || t.all.Load() == nil {
		return t, err
	}
	for _, line := range lines.Unwrap() {
		if !errors.Is(line, errNoUser) {
			return t, line
		}
	}
	return t, nil
}

// Refresh reads the file again if it has changed, at most once a second.
func (t *Tokens) Refresh() error {
	if t == nil {
		return nil
	}
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
	read, err := t.reload()
	if t.was = nil; read { // otherwise it is tried again: a right can be given at any time
		t.was = info
	}
	return err
}

// Reload reads the file again, which [Tokens] also does by itself when it has changed. A line with an
// error permits nothing. If the file cannot be read the previous grants stay valid.
func (t *Tokens) Reload() error {
	if t == nil {
		return nil
	}
	_, err := t.reload()
	return err
}

// reload does it. read: the grants are those of the file.
func (t *Tokens) reload() (read bool, err error) {
	grants, err := ReadFile(t.path)
	if grants == nil {
		return false, err
	}
	for i, g := range grants {
		if g.Token != "" {
			sum := sha256.Sum256([]byte(g.Token))
			grants[i].Token = string(sum[:])
		}
	}
	t.all.Store(&grants)
	return true, err
}

// Of returns what the client of a request may do. A browser that asks for a password sends the token as the
// password. Without tokens a client may do everything.
func (t *Tokens) Of(r *http.Request) (Grant, error) {
	uid, known := r.Context().Value(userKey{}).(string)
	if t == nil {
		return Grant{User: uid, Role: Operate, Limit: DefaultLimit}, nil
	}
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	ok = ok && strings.EqualFold(scheme, "Bearer")
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	var found Grant
	for _, g := range *t.all.Load() { // always all of them
		same := subtle.ConstantTimeCompare(sum[:], []byte(g.Token)) == 1
		if !ok {
			same = known && g.User == uid
		}
		if same && g.Role > found.Role {
			found = g
		}
	}
	switch {
	case found.Role != Nobody:
		return found, nil
	case ok:
		return found, errors.New("this token is not in the agent's --http-token-file")
	case known:
		return found, fmt.Errorf("this call needs a token: give --http-token-file, or add user:%s and a role to the agent's own", uid)
	}
	return found, errors.New("this call needs a token: send it as 'Authorization: Bearer TOKEN', or give --http-token-file")
}

type userKey struct{}

// Connection adds the user at the far end of a Unix socket to the context of its requests
// (see [http.Server.ConnContext]).
func Connection(ctx context.Context, c net.Conn) context.Context {
	if uid, ok := userAt(c); ok {
		return context.WithValue(ctx, userKey{}, uid)
	}
	return ctx
}

// EachClient closes connections of a client that has that many (see [http.Server.ConnState]). A client is an IP
// address, of IPv6 64 bits, or a user of a Unix socket. All users together have twice as many; the listener bounds TCP.
func EachClient(most int) func(net.Conn, http.ConnState) {
	var mu sync.Mutex
	clients, number := map[net.Conn]string{}, map[string]int{}
	return func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch from := clients[c]; s {
		case http.StateNew:
			from = client(c)
			clients[c] = from
			if number[from]++; number[from] > most || len(clients) > 2*most && !overTCP(c) {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			delete(clients, c)
			if number[from]--; number[from] == 0 {
				delete(number, from)
			}
		}
	}
}

func overTCP(c net.Conn) bool {
	_, ok := c.RemoteAddr().(*net.TCPAddr)
	return ok
}

// client gives what counts as the client of a connection.
func client(c net.Conn) string {
	if uid, ok := userAt(c); ok {
		return uid
	}
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if ok && at.IP.To4() == nil {
		return string(at.IP.Mask(net.CIDRMask(64, 128))) // a machine chooses the rest
	} else if ok {
		return at.IP.String()
	}
	return ""
}
