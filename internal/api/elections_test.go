package api_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
)

// patience is far longer than anything here takes on a machine that is busy.
const patience = 30 * time.Second

// startNode starts a member and its API.
func startNode(t *testing.T, id string, join ...string) (n *batuta.Node, at string) {
	t.Helper()
	n, err := batuta.Start(t.Context(), batuta.Config{ID: batuta.ID(id), Listen: "127.0.0.1:0", Join: join, Algorithm: bully.New(), Meta: map[string]string{"name": "m" + id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(n, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
	s.Expose(shown)
	go s.Serve(l)
	t.Cleanup(func() { s.Close(context.Background()) })
	return n, l.Addr().String()
}

// stand has a member stand for an election until what it gives is called.
func stand(t *testing.T, n *batuta.Node, name string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			n.Election(name).Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error { <-ctx.Done(); return nil })
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// awaitLead waits until node sees that id leads an election; "": nobody.
func awaitLead(t *testing.T, n *batuta.Node, name string, id batuta.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for v, err := range n.Election(name).Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if v.Token.Leader.ID == id {
			return
		}
	}
	t.Fatalf("member %s never sees %q lead %s", n.ID(), id, name)
}

func post(t *testing.T, at, path, body string) (int, string) {
	t.Helper()
	return call{method: "POST", path: path, body: strings.NewReader(body)}.do(t, at)
}

// asIfSeen asks twice, the second time as one that has the first answer.
func asIfSeen(t *testing.T, at, path string) (code int) {
	t.Helper()
	tag := ""
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("If-None-Match", tag)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		tag, code = resp.Header.Get("ETag"), resp.StatusCode
	}
	return code
}

// streams waits until a stream of events has told all of that, in whatever order.
func streams(t *testing.T, at, query string, want []string) {
	t.Helper()
	c, err := api.NewClient(at, api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	of, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = c.Watch(ctx, of, func(line []byte) error {
		if of.Has("election") && !strings.Contains(string(line), `"election":"a"`) {
			t.Errorf("events?%s: %s", query, line)
		}
		want = slices.DeleteFunc(want, func(w string) bool { return strings.Contains(string(line), w) })
		if len(want) == 0 {
			cancel()
		}
		return nil
	})
	if err != nil || len(want) > 0 {
		t.Errorf("events?%s never tells %q: %v", query, want, err)
	}
}

// Any agent reports the elections, hands them over, and drains a member.
func TestElectionsOverHTTP(t *testing.T) {
	t.Parallel()
	one, api1 := startNode(t, "1")
	two, api2 := startNode(t, "2", statusOf(one).Listen)
	awaitLead(t, one, "default", "2")
	stand(t, one, "a")
	awaitLead(t, two, "a", "1")
	awaitLead(t, one, "a", "1")

	code, body := call{method: "GET", path: "/v1/leader?election=a"}.do(t, api2)
	var l api.Leader
	if err := json.Unmarshal([]byte(body), &l); err != nil || code != http.StatusOK || l.Leader != "1" || l.Election != "a" || l.Epoch == 0 || l.Meta["name"] != "m1" {
		t.Errorf("leader of a: %d %s %v", code, body, err)
	}
	code, body = call{method: "GET", path: "/v1/elections"}.do(t, api2)
	var list []api.NamedElection
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || len(list) != 1 || list[0].Name != "a" || *list[0].Leader != "1" || *list[0].Token != two.Election("a").Leader().Token.String() {
		t.Errorf("elections: %d %s %v", code, body, err)
	}
	if again := asIfSeen(t, api2, "/v1/elections"); again != http.StatusNotModified {
		t.Errorf("who has seen the elections is answered %d", again)
	}
	description(t).check(t, api2, "GET", "/v1/elections", description(t).Paths["/v1/elections"]["get"])

	for query, want := range map[string][]string{
		"election=a":     {`"event":"leader","id":"2","election":"a","seat":0,"leader":"1"`},
		"elections=true": {`"event":"leader","id":"2","election":"a","seat":0,"leader":"1"`, `"event":"leader","id":"2","election":"default","leader":"2"`},
	} {
		streams(t, api2, query, want)
	}
	for _, query := range []string{"elections=all", "elections=true&election=a", "election=%01"} {
		if code, body := (call{method: "GET", path: "/v1/events?" + query}).do(t, api2); code != http.StatusBadRequest {
			t.Errorf("events?%s: %d %s", query, code, body)
		}
	}

	_, metrics := call{method: "GET", path: "/metrics"}.do(t, api1)
	for _, want := range []string{"batuta_elections 1", "batuta_elections_led 1", "batuta_elections_leaderless 0", "batuta_members_drained 0"} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("no %s in the metrics", want)
		}
	}

	for _, tt := range []struct {
		path, body string
		code       int
		says       string
	}{
		{"/v1/transfer", `{"id":"2","election":"a"}`, http.StatusUnprocessableEntity, `member 2 is not a candidate for election`},
		{"/v1/transfer", `{"id":"9","election":"a"}`, http.StatusNotFound, "member 9: not a member"},
		{"/v1/transfer", `{"id":"2","election":"b"}`, http.StatusNotFound, `no election \"b\"`},
		{"/v1/transfer", `{"id":"2","election":"\u0000"}`, http.StatusBadRequest, "control characters"},
		{"/v1/transfer", `{"id":"9","election":"default"}`, http.StatusNotFound, "member 9"},
		{"/v1/drain", `{"id":"1"}`, http.StatusUnprocessableEntity, "only member 1 could lead a:"},
		{"/v1/drain", `{"id":"9"}`, http.StatusNotFound, "member 9"},
		{"/v1/drain", `{"id":"1","hard":true}`, http.StatusBadRequest, "hard"},
		{"/v1/undrain", `{"id":"1","force":true}`, http.StatusBadRequest, "leave it out"},
		{"/v1/undrain", `{"id":"9"}`, http.StatusNotFound, "member 9"},
	} {
		if code, body := post(t, api1, tt.path, tt.body); code != tt.code || !strings.Contains(body, tt.says) {
			t.Errorf("POST %s %s: %d %s, want %d and %q", tt.path, tt.body, code, body, tt.code, tt.says)
		}
	}

	// With force nobody leads it, until that is ended.
	if code, body := post(t, api1, "/v1/drain", `{"id":"1","force":true}`); code != http.StatusOK {
		t.Fatalf("drain with force: %d %s", code, body)
	}
	awaitLead(t, one, "a", "")
	_, metrics = call{method: "GET", path: "/metrics"}.do(t, api2)
	if !strings.Contains(metrics, "\nbatuta_elections_led 0\n") || !strings.Contains(metrics, "\nbatuta_members_drained 1\n") {
		t.Error("the metrics do not count who is drained")
	}
	if code, body := post(t, api1, "/v1/undrain", `{"id":"1"}`); code != http.StatusOK {
		t.Fatalf("undrain: %d %s", code, body)
	}
	awaitLead(t, one, "a", "1")

	// Where another stands, too, it is that one's.
	stand(t, two, "a")
	handOver(t, api1, "2")
	awaitLead(t, one, "a", "2")
	if code, body := post(t, api1, "/v1/drain", `{"id":"2"}`); code != http.StatusOK {
		t.Fatalf("drain: %d %s", code, body)
	}
	awaitLead(t, one, "a", "1")
	if code, body := post(t, api2, "/v1/transfer", `{"id":"2","election":"a"}`); code != http.StatusUnprocessableEntity || !strings.Contains(body, "drained") {
		t.Errorf("transfer to a drained member: %d %s", code, body)
	}
}

// handOver has a handed over to a member, once the coordinator knows that it stands.
func handOver(t *testing.T, at, id string) {
	t.Helper()
	for over := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		code, body := post(t, at, "/v1/transfer", `{"id":"`+id+`","election":"a"}`)
		if code == http.StatusOK {
			return
		}
		if time.Now().After(over) {
			t.Fatalf("transfer to %s: %d %s", id, code, body)
		}
	}
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *batuta.Node) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
