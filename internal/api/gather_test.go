package api_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// tellingNode is one whose members tell where their APIs are.
type tellingNode struct {
	*fakeNode
	others map[batuta.ID]string
}

func (n tellingNode) Status(context.Context) (batuta.Status, error) {
	s := n.fakeNode.fullStatus()
	s.Members = []batuta.MemberStatus{{ID: "3"}}
	for id, at := range n.others {
		s.Members = append(s.Members, batuta.MemberStatus{ID: id, Meta: map[string]string{api.MetaHTTP: at}})
	}
	return s, nil
}

func gathered(t *testing.T, client *http.Client, url string) map[string]api.MemberHistory {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/histories", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+readToken)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all api.Gathered
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	by := map[string]api.MemberHistory{}
	for _, m := range all.Members {
		by[m.ID] = m
	}
	return by
}

// Other members are asked for their leaderships alone: without a token, whoever looks on,
// within bounds, and wherever they point nobody else is.
func TestGathering(t *testing.T) {
	other := &fakeNode{events: []batuta.Event{
		{Time: began, Kind: batuta.EventLeader, View: viewOf("5", 7)},
		{Time: began, Kind: batuta.EventMember, Member: "4", State: "down"},
	}}
	good := serve(t, other)
	for deadline := time.Now().Add(time.Minute); ; {
		if h := historyOf(t, good); len(h.Events) == 2 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("it has seen %v", h.Events)
		}
		time.Sleep(5 * time.Millisecond)
	}
	var followed atomic.Bool
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer secret.Close()
	odd := http.NewServeMux()
	var token, asked atomic.Value
	odd.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization") + r.Header.Get("Cookie"))
		asked.Store(r.Method + " " + r.URL.String())
		http.Redirect(w, r, secret.URL, http.StatusFound)
	})
	redirects := httptest.NewServer(odd)
	defer redirects.Close()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<16))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	forged := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"began":"2026-01-02T03:04:05Z","now":"2026-01-02T03:04:05Z","events":[{"time":"2026-01-02T03:04:05Z","event":"leader","leader":"5","epoch":7,"why":"secret"},{"event":"member"}]}`)
	}))
	defer forged.Close()
	steers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"began":"2026-01-02T03:04:05Z","now":"2026-01-02T03:04:05Z","events":[{"time":"2026-01-02T03:04:05Z","event":"lost","leader":"5","epoch":7,"why":"\u202e"}]}`)
	}))
	defer steers.Close()
	misled := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"began":"2026-01-02T03:04:05Z","now":"2026-01-02T03:04:05Z","events":[],"links":["3",""]}`)
	}))
	defer misled.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	n := tellingNode{&fakeNode{done: make(chan struct{})}, map[batuta.ID]string{"5": "http://" + good, "6": redirects.URL, "7": endless.URL, "8": forged.URL, "15": misled.URL, "16": steers.URL,
		"9": "http://" + silent.Addr().String(), "10": "", "11": "javascript:alert(1)//:80", "12": "http://user:pass@127.0.0.1:1", "13": "file:///etc/passwd", "14": "https://127.0.0.1:1/path"}}
	hung := n.others["9"]
	delete(n.others, "9")
	all := gathered(t, http.DefaultClient, "http://"+serveTelling(t, n, 5*time.Second))
	if h := gathered(t, http.DefaultClient, "http://"+serveTelling(t, tellingNode{n.fakeNode, map[batuta.ID]string{"9": hung}}, 50*time.Millisecond))["9"]; !strings.Contains(h.Error, "in time") {
		t.Errorf("who does not answer is %+v", h)
	}
	if all["3"].History == nil || all["3"].Error != "" {
		t.Errorf("its own is %+v", all["3"])
	}
	if h := all["5"].History; h == nil || len(h.Events) != 1 || h.Events[0].Leader != "5" || all["5"].Doubt <= 0 {
		t.Errorf("that of 5 is %+v (%s)", h, all["5"].Error)
	}
	if h := all["5"].History; h == nil || h.Links == nil || !slices.Equal(*h.Links, []string{"5"}) {
		t.Errorf("that of 5 tells of no link to whom it calls 5: %+v", h)
	}
	for id, want := range map[string]string{"6": "302", "7": "not batuta's", "8": "not batuta's", "15": "not batuta's", "16": "not batuta's", "10": "--http-advertise", "11": "neither", "12": "neither", "13": "neither", "14": "neither"} {
		if m := all[id]; m.History != nil || !strings.Contains(m.Error, want) {
			t.Errorf("of %s there is %v, %q; want %q", id, m.History, m.Error, want)
		}
	}
	if followed.Load() {
		t.Error("a redirection has been followed")
	}
	if token.Load() != "" || asked.Load() != "GET /v1/history?leaderships=true" {
		t.Errorf("another member is asked %v, with %q", asked.Load(), token.Load())
	}
}

// serveTelling runs the API of n; it waits for another member as long as each.
func serveTelling(t *testing.T, n api.Node, each time.Duration) string {
	t.Helper()
	s := api.NewServer(n, "", "v1", slog.New(slog.DiscardHandler))
	s.GatherWithin(8*time.Second, each)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Close(t.Context()) })
	return l.Addr().String()
}

func historyOf(t *testing.T, addr string) (h api.History) {
	t.Helper()
	_, body, _ := with(t, addr, "GET", "/v1/history", "")
	if err := json.Unmarshal([]byte(body), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// Where APIs have tokens, members prove themselves to each other as members: by that they
// get leaderships and nothing else.
func TestGatheringAmongMembersWithTokens(t *testing.T) {
	dir := t.TempDir()
	keep := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := keep("key", security.NewSecret())
	member := func(id, key string) *security.Security {
		m, err := security.New(context.Background(), "c", id, security.Options{SecretFile: key})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	tokens, err := access.Load(keep("tokens", readToken+" read"))
	if err != nil {
		t.Fatal(err)
	}
	start := func(n api.Node, id string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		serving, err := security.NewServing("c", id, security.Options{SecretFile: key})
		if err != nil {
			t.Fatal(err)
		}
		m := member(id, key)
		config := serving.Config()
		m.Recognize(config)
		s := api.NewServer(n, "", "v1", slog.New(slog.DiscardHandler))
		s.Authorize(tokens)
		s.Gather(m)
		s.GatherWithin(8*time.Second, 5*time.Second)
		go s.Serve(tls.NewListener(l, config))
		t.Cleanup(func() { s.Close(t.Context()) })
		return "https://" + l.Addr().String()
	}
	asked := start(tellingNode{&fakeNode{done: make(chan struct{})}, map[batuta.ID]string{"5": ""}}, "5") // it says that it is 3, too
	asking := start(tellingNode{&fakeNode{done: make(chan struct{})}, map[batuta.ID]string{"5": asked, "6": asked}}, "3")

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: member("3", key).Ask("3")}}
	all := gathered(t, client, asking)
	if all["5"].History == nil {
		t.Errorf("5 is not heard: %s", all["5"].Error)
	}
	if all["6"].History != nil || !strings.Contains(all["6"].Error, "not member 6") {
		t.Errorf("who is 5 passes for 6: %+v", all["6"])
	}

	foreign := keep("foreign", security.NewSecret())
	for _, test := range []struct {
		as, key, path string
		want          int
	}{
		{"3", key, "/v1/history?leaderships=true", 200},
		{"5", key, "/v1/history?leaderships=true", 200},
		{"8", key, "/v1/history?leaderships=true", 401}, // no member any more
		{"3", foreign, "/v1/history?leaderships=true", 401},
		{"", "", "/v1/history?leaderships=true", 401}, // shows nothing
		{"3", key, "/v1/history", 401},                // why is not for it
		{"3", key, "/v1/status", 401},
		{"3", key, "/v1/histories", 401},
	} {
		config := member("3", key).Ask("5")
		config.GetClientCertificate = nil
		if test.as != "" {
			config.GetClientCertificate = member(test.as, test.key).Ask("5").GetClientCertificate
		}
		resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}).Get(asked + test.path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("GET %s as %q gives %d, want %d", test.path, test.as, resp.StatusCode, test.want)
		}
	}
}
