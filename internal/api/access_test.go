package api_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
)

const (
	standToken = "stand-0123456789abcdef"
	joinToken  = "join-0123456789abcdef"
)

// serveTo serves the API of a real node on a listener to the clients of a token file.
func serveTo(t *testing.T, l net.Listener, lines string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	s := api.NewServer(n, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
	s.Expose(shown)
	s.Authorize(tokens)
	go s.Serve(l)
	t.Cleanup(func() { s.Close(t.Context()) })
}

// serveTokens is serveTo on loopback, and gives the address.
func serveTokens(t *testing.T, lines string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveTo(t, l, lines)
	return l.Addr().String()
}

// as sends a request with a token, and gives the answer.
func as(t *testing.T, at, token, method, path, body string) (int, string) {
	t.Helper()
	return call{method: method, path: path, body: strings.NewReader(body), token: token}.do(t, at)
}

// A token stands for the elections on its line, and for no others, and changes nothing else.
func TestATokenStandsForItsElections(t *testing.T) {
	at := serveTokens(t, standToken+" stand billing-* café\n"+operateToken+" operate\n"+readToken+" read\n")
	held := ""
	for _, c := range []struct {
		token, method, path, body string
		want                      int
	}{
		{standToken, "PUT", "/v1/elections/billing-eu/candidacy", `{"ttl":"1m"}`, 200},
		{standToken, "PUT", "/v1/elections/billing-/candidacy", `{"ttl":"1m"}`, 200},
		{standToken, "PUT", "/v1/elections/cafe%CC%81/candidacy", `{"ttl":"1m"}`, 200}, // the same name in another form
		{standToken, "GET", "/v1/status", "", 200},
		{standToken, "GET", "/v1/elections", "", 200},
		{standToken, "PUT", "/v1/elections/payroll/candidacy", `{"ttl":"1m"}`, 403},
		{standToken, "PUT", "/v1/elections/payroll/candidacy", "", 403},
		{standToken, "PUT", "/v1/elections/billing/candidacy", `{"ttl":"1m"}`, 403},
		{standToken, "PUT", "/v1/elections/default/candidacy", `{"ttl":"1m"}`, 403},
		{standToken, "POST", "/v1/campaign", "", 403},
		{standToken, "PUT", "/v1/health", `{"healthy":false}`, 403},
		{standToken, "POST", "/v1/jobs/x/run", "", 403},
		{standToken, "POST", "/v1/elections/../campaign", "", 404},
		{standToken, "POST", "/v1/elections/%2e%2e/campaign", "", 404},
		{readToken, "PUT", "/v1/elections/billing-eu/candidacy", `{"ttl":"1m"}`, 403},
		{"", "PUT", "/v1/elections/billing-eu/candidacy", `{"ttl":"1m"}`, 401},
		{operateToken, "PUT", "/v1/elections/payroll/candidacy", `{"ttl":"1m"}`, 200},
	} {
		code, text := as(t, at, c.token, c.method, c.path, c.body)
		if code != c.want {
			t.Errorf("%.5s: %s %s answers %d %s, not %d", c.token, c.method, c.path, code, text, c.want)
		}
		if c.token == standToken && code == 403 && c.method == "PUT" && strings.Contains(c.path, "payroll") && !strings.Contains(text, "billing-*, café, and not for \\\"payroll\\\": add the name") {
			t.Errorf("it names no remedy: %s", text)
		}
		if c.token == operateToken {
			_, held, _ = strings.Cut(text, `"candidacy":"`)
			held, _, _ = strings.Cut(held, `"`)
		}
	}
	// What is held by others stays so, though its id is known.
	for method, path := range map[string]string{"DELETE": "candidacy?candidacy=" + held, "PUT": "candidacy", "POST": "ready"} {
		if code, text := as(t, at, standToken, method, "/v1/elections/payroll/"+path, `{"candidacy":"`+held+`"}`); code != 403 {
			t.Errorf("%s of others answers %d %s", method, code, text)
		}
	}
	if code, text := as(t, at, operateToken, "PUT", "/v1/elections/payroll/candidacy", `{"candidacy":"`+held+`"}`); code != 200 {
		t.Errorf("it is gone: %d %s", code, text)
	}
}

// A client has as many candidacies as its line allows. Others have theirs.
func TestAClientHasALimit(t *testing.T) {
	at := serveTokens(t, standToken+" stand * limit=3\n"+operateToken+" operate limit=1\n")
	var first string
	for i := range 3 {
		code, text := as(t, at, standToken, "PUT", fmt.Sprint("/v1/elections/e", i, "/candidacy"), `{"ttl":"1m"}`)
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if i == 0 {
			_, first, _ = strings.Cut(text, `"candidacy":"`)
			first, _, _ = strings.Cut(first, `"`)
		}
	}
	for range 2 {
		if code, text := as(t, at, standToken, "PUT", "/v1/elections/more/candidacy", `{"ttl":"1m"}`); code != http.StatusTooManyRequests || !strings.Contains(text, "limit=N") {
			t.Errorf("the fourth: %d %s", code, text)
		}
	}
	if code, text := as(t, at, operateToken, "PUT", "/v1/elections/e0/candidacy", `{"ttl":"1m"}`); code != http.StatusOK {
		t.Errorf("another client: %d %s", code, text)
	}
	as(t, at, standToken, "DELETE", "/v1/elections/e0/candidacy?candidacy="+first, "")
	if code, text := as(t, at, standToken, "PUT", "/v1/elections/more/candidacy", `{"ttl":"1m"}`); code != http.StatusOK {
		t.Errorf("once one has ended: %d %s", code, text)
	}
}

// A heavy election moves others away from its leader, so that with the role stand its weight counts for the limit.
func TestWeightCountsForTheLimit(t *testing.T) {
	at := serveTokens(t, standToken+" stand billing-* limit=10\n"+operateToken+" operate limit=2\n"+joinToken+" stand joined-* limit=20\n")
	for _, c := range []struct {
		token, name string
		weight      int
		want        int
	}{
		{standToken, "billing-a", 1048576, 429},
		{standToken, "billing-a", 11, 429},
		{standToken, "billing-a", 9, 200},
		{standToken, "billing-b", 2, 429},
		{standToken, "billing-b", 0, 200},
		{standToken, "billing-c", 0, 429},
		{operateToken, "payroll", 1000, 200},
		{operateToken, "nightly", 1000, 200},
		{operateToken, "more", 1, 429},
	} {
		if code, text := as(t, at, c.token, "PUT", "/v1/elections/"+c.name+"/candidacy", fmt.Sprintf(`{"ttl":"1m","weight":%d}`, c.weight)); code != c.want {
			t.Errorf("%s with weight %d answers %d %s, not %d", c.name, c.weight, code, text, c.want)
		}
	}
	// A candidacy that joins a heavy election goes on with its weight when the first ends.
	first := ""
	for _, c := range []struct {
		name         string
		weight, want int
	}{{"joined-a", 9, 200}, {"joined-a", 1, 200}, {"joined-b", 12, 429}, {"joined-b", 11, 200}} {
		code, text := as(t, at, joinToken, "PUT", "/v1/elections/"+c.name+"/candidacy", fmt.Sprintf(`{"ttl":"1m","weight":%d}`, c.weight))
		if code != c.want {
			t.Errorf("%s with weight %d answers %d %s, not %d", c.name, c.weight, code, text, c.want)
		}
		if _, id, ok := strings.Cut(text, `"candidacy":"`); ok && first == "" {
			first, _, _ = strings.Cut(id, `"`)
		} else if c.weight == 1 {
			if code, text := as(t, at, joinToken, "DELETE", "/v1/elections/joined-a/candidacy?candidacy="+first, ""); code != 200 {
				t.Fatalf("the end of the first answers %d %s", code, text)
			}
		}
	}
}

// The metrics have as many series with many names as with one.
func TestMetricsDoNotGrowWithNames(t *testing.T) {
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	series := func() int {
		_, text := call{method: "GET", path: "/metrics"}.do(t, at)
		return strings.Count(text, "\n")
	}
	standAt(t, at, "e0").await("leading")
	one := series()
	for i := range 200 {
		standAt(t, at, fmt.Sprint("e", i))
	}
	for began := time.Now(); len(n.ListElections()) < 200; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%d elections", len(n.ListElections()))
		}
	}
	if many := series(); many > one+3 { // of messages, and of the Go process
		t.Errorf("%d lines of metrics with one name, %d with 200", one, many)
	}
}
