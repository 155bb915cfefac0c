package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
)

// A node that leads, follows or knows nobody, as the test wants it.
type fakeNode struct {
	view     batuta.View
	events   []batuta.Event
	resigned atomic.Bool
	stuck    bool // its loop does not answer
	votes    bool // its algorithm is quorum
	priority atomic.Int64
	done     chan struct{}
	ends     bool          // before a reader has its last event
	over     sync.Once     // its end
	gate     chan struct{} // until it is closed nothing happens; nil: it is
	late     *sync.Map     // finds each reader of its events, by its context, too far behind once; nil: none
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)

func viewOf(leader batuta.ID, epoch uint64) batuta.View {
	return batuta.View{
		Election: "default", Address: "127.0.0.1:740" + string(leader), Since: began,
		Token: batuta.Token{Epoch: epoch, Leader: batuta.Rank{ID: leader}},
	}
}

func (n *fakeNode) ID() batuta.ID       { return "3" }
func (n *fakeNode) IsLeader() bool      { return n.view.Token.Leader.ID == "3" }
func (n *fakeNode) Leader() batuta.View { return n.view }
func (n *fakeNode) Trace() []batuta.Record {
	return []batuta.Record{{
		At: began, Member: "3", Election: "default", What: "sends", Peer: "5",
		Message: &election.Message{Kind: election.Answer}, Why: "asked by a lower one",
	}}
}
func (n *fakeNode) Reasons(time.Time) []batuta.Record { return nil }
func (n *fakeNode) Campaign(context.Context) error    { return nil }
func (n *fakeNode) Transfer(_ context.Context, id batuta.ID) error {
	switch {
	case id == "7":
		return batuta.ErrNotMember
	case !n.IsLeader():
		return batuta.ErrNotLeading
	case id == "5":
		return fmt.Errorf("member 5 %w: it is down", batuta.ErrUnfit)
	case id == "6":
		return errors.New("member 5 leads instead")
	}
	return nil
}
func (n *fakeNode) AddMember(_ context.Context, p batuta.Peer) error {
	if p.Addr == "" {
		return errors.New("address missing")
	}
	return nil
}

func (n *fakeNode) AskMembers(context.Context) ([]batuta.MemberView, error) {
	return []batuta.MemberView{
		{ID: "3", Address: "127.0.0.1:7403", Token: n.view.Token, RoundTrip: 250 * time.Microsecond},
		{ID: "4", Address: "127.0.0.1:7404", RoundTrip: time.Millisecond},
		{ID: "5", Address: "127.0.0.1:7405", Err: errors.New("member 5 at 127.0.0.1:7405 does not answer")},
	}, nil
}

func (n *fakeNode) SetPriority(_ context.Context, _ batuta.ID, priority int) error {
	n.priority.Store(int64(priority))
	return nil
}

func (n *fakeNode) RemoveMember(_ context.Context, id batuta.ID) error {
	switch {
	case n.votes && !n.view.Defined():
		return batuta.ErrNoMajority
	case id == "8":
		return batuta.ErrTooFew
	case id != "5":
		return batuta.ErrNotMember
	}
	return nil
}

func (n *fakeNode) ForceRemoveMember(context.Context, batuta.ID) error { return nil }

func (n *fakeNode) Done() <-chan struct{}        { return n.done }
func (n *fakeNode) Resign(context.Context) error { n.resigned.Store(true); return nil }

func (n *fakeNode) Events(ctx context.Context) iter.Seq2[batuta.Event, error] {
	if n.late != nil {
		if _, late := n.late.LoadOrStore(ctx, true); !late {
			return func(yield func(batuta.Event, error) bool) {
				_ = yield(n.events[0], nil) && yield(batuta.Event{}, batuta.ErrBehind)
			}
		}
	}
	return func(yield func(batuta.Event, error) bool) {
		if n.gate != nil {
			<-n.gate
		}
		for i, ev := range n.events {
			if n.ends && i == len(n.events)-1 {
				n.over.Do(func() { close(n.done) }) // what happened before its end is still read
			}
			if !yield(ev, nil) {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-n.done:
		}
	}
}

func (n *fakeNode) Status(ctx context.Context) (batuta.Status, error) {
	if n.stuck {
		<-ctx.Done()
		return batuta.Status{}, ctx.Err()
	}
	return n.fullStatus(), nil
}

func (n *fakeNode) fullStatus() batuta.Status {
	s := n.plainStatus()
	if n.votes {
		s.Algorithm, s.Guarantee, s.Fencing, s.Takeover, s.ClockDrift = "quorum", "one-leader", true, "lease", 0.01
		s.Quorum = &batuta.QuorumStatus{Voters: [][]batuta.ID{{"3", "4", "5"}}, Term: 8, Lease: 592 * time.Millisecond, Left: 500 * time.Millisecond,
			Answered: map[batuta.ID]time.Duration{"5": 90 * time.Millisecond}, Promise: 590 * time.Millisecond, PromisedTo: "5"}
	}
	return s
}

func (n *fakeNode) plainStatus() batuta.Status {
	return batuta.Status{
		ID: "3", Cluster: "default", Election: "default", Algorithm: "bully", Guarantee: "best-effort",
		Role: batuta.RoleFollower, Leader: n.view.Token.Leader.ID, Epoch: n.view.Token.Epoch, Token: n.view.Token, Ready: n.view.Ready(),
		Since: began, Incarnation: 9, Uptime: 1500 * time.Millisecond, Listen: "127.0.0.1:7403", Advertise: "10.0.0.3:7403",
		Timing: election.Timing{Heartbeat: 100 * time.Millisecond, TMax: 150 * time.Millisecond, TProcess: 300 * time.Millisecond},
		Members: []batuta.MemberStatus{
			{ID: "3", Address: "127.0.0.1:7403", State: "up", Standing: "unsaved", Epoch: 7, LastSeen: began},
			{ID: "5", Address: "127.0.0.1:7405", Priority: 2, Standing: "eligible", Linked: true, Refusal: "times: here and there"},
		},
		Rhythm:   batuta.Rhythm{Silence: 150 * time.Millisecond, Stall: 10 * time.Millisecond, RoundTrip: 2 * time.Millisecond},
		Standing: "unsaved", StandingWhy: "no room", StandingSince: began, DiskError: "no room", SavesFailed: 2,
		LogDropped: 6, Security: "secret", WireVersion: 1, StateVersion: 2,
		Certificate: batuta.CertificateLife{From: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), To: time.Date(2026, 3, 2, 3, 4, 5, 0, time.UTC)},

		Sent: map[string]uint64{"election": 1}, SentSize: 77,
		Refused: map[string]uint64{"cluster": 2},
		Bad:     map[string]uint64{"too long": 4},
		Lost:    map[batuta.Cause]uint64{"crashed": 3},
	}
}

// serve runs the API of n and gives its address.
func serve(t *testing.T, n *fakeNode) string {
	t.Helper()
	n.done = make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(n, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
	s.Expose(shown)
	go s.Serve(l)
	t.Cleanup(func() { s.Close(t.Context()) })
	return l.Addr().String()
}

type call struct {
	method, path, accept, origin string
	body                         io.Reader
	token                        string
}

func (c call) do(t *testing.T, addr string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, c.body)
	if err != nil {
		t.Fatal(err)
	}
	if c.accept != "" {
		req.Header.Set("Accept", c.accept)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.origin != "" {
		req.Header.Set("Origin", c.origin)
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
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func TestAnswers(t *testing.T) {
	follower := serve(t, &fakeNode{view: viewOf("5", 7)})
	leader := serve(t, &fakeNode{view: viewOf("3", 8)})
	nobody := serve(t, &fakeNode{})
	minority := serve(t, &fakeNode{votes: true})
	tests := []struct {
		name string
		addr string
		call call
		code int
		body string
	}{
		{"leader", follower, call{path: "/v1/leader"}, 200, `{"leader":"5","epoch":7,"address":"127.0.0.1:7405","election":"default"}`},
		{"no leader", nobody, call{path: "/v1/leader"}, 503, `{"error":"member 3 knows no leader; batuta status prints why"}`},
		{"views", follower, call{path: "/v1/views"}, 200, `[{"id":"3","address":"127.0.0.1:7403","leader":"5","epoch":7,"token":"7:5","round_trip":0.00025},{"id":"4","address":"127.0.0.1:7404","leader":null,"token":null,"round_trip":0.001},{"id":"5","address":"127.0.0.1:7405","leader":null,"token":null,"error":"member 5 at 127.0.0.1:7405 does not answer"}]`},
		{"members", follower, call{path: "/v1/members"}, 200, `[{"id":"3","address":"127.0.0.1:7403","priority":0,"state":"up","standing":"unsaved","epoch":7,"last_seen":"2026-01-02T03:04:05.000000600Z","linked":false},{"id":"5","address":"127.0.0.1:7405","priority":2,"state":"added","standing":"eligible","epoch":0,"last_seen":null,"linked":true,"refusal":"times: here and there"}]`},
		{"trace", follower, call{path: "/v1/trace"}, 200, `[{"time":"2026-01-02T03:04:05.000000600Z","member":"3","election":"default","what":"sends","message":"answer","peer":"5","why":"asked by a lower one"}]`},
		{"balancer, follower", follower, call{path: "/leader"}, 503, `{"error":"member 3 is not the leader; 5 leads"}`},
		{"balancer, leader", leader, call{path: "/leader"}, 200, `{"leader":"3"}`},
		{"alive", nobody, call{path: "/healthz"}, 200, `{"healthy":true}`},
		{"ready", follower, call{path: "/readyz"}, 200, `{"ready":true,"standing":"unsaved","standing_why":"no room","standing_since":"2026-01-02T03:04:05.000000600Z"}`},
		{"not ready", nobody, call{path: "/readyz"}, 503, `{"error":"member 3 knows no leader, and is no candidate since 2026-01-02T03:04:05Z (unsaved): no room"}`},
		{"sidecar", follower, call{path: "/", accept: "application/json"}, 200, `{"name":"5"}`},
		{"sidecar, curl", follower, call{path: "/"}, 200, `{"name":"5"}`},
		{"sidecar, nobody", nobody, call{path: "/", accept: "application/json"}, 200, `{"name":""}`},
		{"resign", leader, call{method: "POST", path: "/v1/resign"}, 200, `{"resigned":"8:3"}`},
		{"resign, not leading", follower, call{method: "POST", path: "/v1/resign"}, 409, `{"error":"member 3 is not the leader; 5 leads"}`},
		{"transfer", leader, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":"4"}`)}, 200, `{"transferred":"4"}`},
		{"transfer, not leading", follower, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":"4"}`)}, 409, `{"error":"member 3 is not the leader; 5 leads"}`},
		{"transfer to nobody", follower, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":"7"}`)}, 404, `{"error":"` + batuta.ErrNotMember.Error() + `"}`},
		{"transfer to one that is down", leader, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":"5"}`)}, 422, `{"error":"member 5 cannot become the leader: it is down"}`},
		{"transfer, and another leads", leader, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":"6"}`)}, 500, `{"error":"member 5 leads instead"}`},
		{"transfer, bad id", leader, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":""}`)}, 400, `{"error":"id is empty: give a number, an IP address, a UUID or a name"}`},
		{"transfer, no JSON", leader, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"to":"4"}`)}, 400, `{"error":"body: unknown field \"to\"; send {\"id\":\"4\"}"}`},
		{"campaign", follower, call{method: "POST", path: "/v1/campaign"}, 200, `{"campaigning":"3"}`},
		{"add", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`{"id":"6","address":"h:1"}`)}, 201, `{"id":"6","address":"h:1"}`},
		{"add again", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`{"id":"5","address":"h:2"}`)}, 200, `{"id":"5","address":"h:2"}`},
		{"add, with a priority", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`{"id":"5","address":"h:2","priority":0}`)}, 200, `{"id":"5","address":"h:2","priority":0}`},
		{"add, no address", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`{"id":"6"}`)}, 400, `{"error":"address missing"}`},
		{"add, a number for a name", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`{"id":6}`)}, 400, `{"error":"body: \"id\" is a number, not a string; send {\"id\":\"4\",\"address\":\"10.0.0.4:7400\"}"}`},
		{"add, no JSON", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`6`)}, 400, `{"error":"body: it is a number, not an object; send {\"id\":\"4\",\"address\":\"10.0.0.4:7400\"}"}`},
		{"add, bad id", follower, call{method: "POST", path: "/v1/members", body: strings.NewReader(`{"id":"a b","address":"h:1"}`)}, 400, `{"error":"id \"a b\" holds ' ': leave out white space, control characters, marks that do not print, '=' and '/'"}`},
		{"remove", follower, call{method: "DELETE", path: "/v1/members/5"}, 200, `{"removed":"5"}`},
		{"remove nobody", follower, call{method: "DELETE", path: "/v1/members/6"}, 404, `{"error":"` + batuta.ErrNotMember.Error() + `"}`},
		{"remove, too few left", follower, call{method: "DELETE", path: "/v1/members/8"}, 422, `{"error":"` + batuta.ErrTooFew.Error() + `"}`},
		{"remove, too few left, by force", follower, call{method: "DELETE", path: "/v1/members/8?force=true"}, 200, `{"removed":"8"}`},
		{"remove, force unsure", follower, call{method: "DELETE", path: "/v1/members/8?force=perhaps"}, 400, `{"error":"force=perhaps: it is true or false"}`},
		{"remove, of a minority", minority, call{method: "DELETE", path: "/v1/members/5"}, 503, `{"error":"` + batuta.ErrNoMajority.Error() + `"}`},
		{"resign, of a minority", minority, call{method: "POST", path: "/v1/resign"}, 409, `{"error":"member 3 is not the leader; no leader is known: 1 of 3 voters are reached here, and to elect one takes more than half"}`},
		{"transfer, of a minority", minority, call{method: "POST", path: "/v1/transfer", body: strings.NewReader(`{"id":"4"}`)}, 409, `{"error":"member 3 is not the leader; no leader is known: 1 of 3 voters are reached here, and to elect one takes more than half"}`},
		{"members, wrong method", follower, call{method: "PUT", path: "/v1/members"}, 405, `{"error":"PUT does not go with /v1/members; use GET or POST"}`},
		{"unknown path", follower, call{path: "/v2"}, 404, `{"error":"no /v2 here; a browser finds what there is on /"}`},
		{"an empty name", follower, call{method: "PUT", path: "/v1/elections//candidacy"}, 404, `{"error":"no /v1/elections//candidacy here; a name or an id in it is empty, . or .."}`},
		{"a name of dots", follower, call{method: "DELETE", path: "/v1/members/.."}, 404, `{"error":"no /v1/members/.. here; a name or an id in it is empty, . or .."}`},
		{"wrong method", follower, call{method: "DELETE", path: "/v1/status"}, 405, `{"error":"DELETE does not go with /v1/status; use GET"}`},
		{"get of a post", leader, call{path: "/v1/resign"}, 405, `{"error":"GET does not go with /v1/resign; use POST"}`},
		{"foreign page", leader, call{method: "POST", path: "/v1/resign", origin: "http://evil.example"}, 403, `{"error":"a page of another origin may not do this"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, body := tt.call.do(t, tt.addr)
			if code != tt.code || body != tt.body {
				t.Errorf("got %d %s\nwant %d %s", code, body, tt.code, tt.body)
			}
		})
	}
}

// The status has every key of the contract and no others.
func TestStatus(t *testing.T) {
	addr := serve(t, &fakeNode{view: viewOf("5", 7)})
	_, body := call{path: "/v1/status"}.do(t, addr)
	want := `{"id":"3","cluster":"default","election":"default","algorithm":"bully","guarantee":"best-effort",` +
		`"fencing":false,"role":"follower","electing":false,"leader":"5","epoch":7,"token":"7:5","since":"2026-01-02T03:04:05.000000600Z",` +
		`"members":[`
	tail := `],"incarnation":"9","uptime":1.5,"listen":"127.0.0.1:7403","advertise":"10.0.0.3:7403","http":"` + addr + `","version":"v1","access":"operate",` +
		`"messages":{"sent":{"election":1},"received":{}},"timing":{"heartbeat":"100ms","t_max":"150ms","t_process":"300ms","t":"600ms"},"headroom":0.75,"rhythm":{"silence":0.15,"stall":0.01,"round_trip":0.002,"recent_silence":0,"recent_stall":0,"recent_round_trip":0},"security":"secret","transport":"tls","certificate_ends":"2026-03-02T03:04:05.000000000Z","authority_ends":null,"standing":"unsaved","standing_why":"no room","standing_since":"2026-01-02T03:04:05.000000600Z","disk_error":"no room","log_dropped":6,"ready":true,"side":{"heard":1,"of":2},"wire":1,"state":2,"paused":null,"refused":{"cluster":2}}`
	if !strings.HasPrefix(body, want) || !strings.HasSuffix(body, tail) {
		t.Errorf("got  %s\nwant %s…%s", body, want, tail)
	}
}

func TestStatusWithoutLeader(t *testing.T) {
	addr := serve(t, &fakeNode{})
	_, body := call{path: "/v1/status"}.do(t, addr)
	var s map[string]any
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if s["leader"] != nil || s["token"] != nil {
		t.Errorf("leader %v, token %v; want null for both", s["leader"], s["token"])
	}
	if s["ready"] != false {
		t.Errorf("ready %v without a leader", s["ready"])
	}
}

func TestMetrics(t *testing.T) {
	addr := serve(t, &fakeNode{view: viewOf("3", 8)})
	_, body := call{path: "/metrics"}.do(t, addr)
	for _, want := range []string{
		"batuta_is_leader 1", "batuta_has_leader 1", "batuta_epoch 8",
		`batuta_messages_total{direction="sent",kind="election"} 1`,
		`batuta_members{state="up"} 1`, `batuta_members{state="added"} 1`, `batuta_members{state="down"} 0`,
		`batuta_leader_changes_total{cause="crashed"} 3`, `batuta_leader_changes_total{cause="silent"} 0`,
		`batuta_handshakes_refused_total{reason="cluster"} 2`,
		`batuta_frames_dropped_total{reason="too long"} 4`,
		"batuta_log_records_dropped_total 6", "batuta_sent_bytes_total 77",
		"batuta_longest_silence_seconds 0.15", "batuta_longest_stall_seconds 0.01", "batuta_suspicion_seconds 0.6",
		`batuta_member_refused{member="5",reason="times"} 1`,
		`batuta_standing{standing="unsaved"} 1`, `batuta_standing{standing="eligible"} 0`,
		`batuta_certificate_life_seconds{of="member"} 5.0976e+06`,
		`batuta_http_requests_refused_total{reason="tls"} 0`,
		"batuta_disk_failing 1", "batuta_saves_failed_total 2",
		"batuta_failover_seconds_count 0",
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

// A node that is stuck is told from one that is well, within a bound.
func TestAStuckNodeIsNotHealthy(t *testing.T) {
	addr := serve(t, &fakeNode{stuck: true})
	const why = `{"error":"member 3 is stuck: it has not answered within 900ms, and takes no part in elections meanwhile"}`
	for _, path := range []string{"/healthz", "/v1/status", "/v1/members"} {
		if code, body := (call{path: path}).do(t, addr); code != 503 || body != why {
			t.Errorf("%s: got %d %s", path, code, body)
		}
	}
	if code, body := (call{path: "/metrics"}).do(t, addr); code != 500 || !strings.Contains(body, "member 3 is stuck") {
		t.Errorf("/metrics: got %d %s", code, body)
	}
}

var story = []batuta.Event{
	{Time: began, Kind: batuta.EventLeader, View: viewOf("5", 7)},
	{Time: began, Kind: batuta.EventMember, Member: "5", State: "down", Address: "127.0.0.1:7405"},
	{Time: began, Kind: batuta.EventLost, View: batuta.View{Election: "default", Lost: viewOf("5", 7).Token, Cause: "crashed"}},
}

var storyLines = []string{
	`{"time":"2026-01-02T03:04:05.000000600Z","event":"leader","id":"3","election":"default","leader":"5","epoch":7}`,
	`{"time":"2026-01-02T03:04:05.000000600Z","event":"member","id":"3","member":"5","state":"down","address":"127.0.0.1:7405"}`,
	`{"time":"2026-01-02T03:04:05.000000600Z","event":"lost","id":"3","election":"default","leader":"5","epoch":7,"cause":"crashed"}`,
}

func TestEventLines(t *testing.T) {
	for i, ev := range story {
		var b strings.Builder
		if err := api.EventLine("3", ev).WriteJSON(&b); err != nil || b.String() != storyLines[i]+"\n" {
			t.Errorf("got %s (%v), want %s", b.String(), err, storyLines[i])
		}
	}
	var b strings.Builder
	ready := api.Ready(began, (&fakeNode{}).fullStatus(), "127.0.0.1:41233")
	want := `{"time":"2026-01-02T03:04:05.000000600Z","event":"ready","id":"3","cluster":"default","election":"default",` +
		`"listen":"127.0.0.1:7403","advertise":"10.0.0.3:7403","http":"127.0.0.1:41233","algorithm":"bully","guarantee":"best-effort","fencing":false}` + "\n"
	if err := ready.WriteJSON(&b); err != nil || b.String() != want {
		t.Errorf("got %s (%v), want %s", b.String(), err, want)
	}
}

// A client sees the lines as server-sent events; another that reads nothing
// does not keep them from it.
func TestEventStream(t *testing.T) {
	n := &fakeNode{events: story, gate: make(chan struct{})}
	addr := serve(t, n)
	idle, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if _, err := io.WriteString(idle, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + addr + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(n.gate)
	in := bufio.NewScanner(resp.Body)
	for i, ev := range story {
		for _, want := range []string{"event: " + string(ev.Kind), "id: ", "data: " + storyLines[i], ""} {
			if !in.Scan() || in.Text() != want && (want != "id: " || !strings.HasPrefix(in.Text(), want)) {
				t.Fatalf("got %q, want %q", in.Text(), want)
			}
		}
	}
}

// A stream tells all there is to the end of its node, and ends then: an agent
// that leaves does not wait for those who watch it.
func TestStreamEndsWithNode(t *testing.T) {
	n := &fakeNode{events: story, ends: true}
	resp, err := http.Get("http://" + serve(t, n) + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || strings.Count(string(body), "data: ") != len(story) {
		t.Errorf("got %q, %v; want every event and a clean end", body, err)
	}
}

// A client that never ends is cut off, so that the agent can go.
func TestCloseCutsStreamsOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(&fakeNode{}, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
	s.Expose(shown)
	go s.Serve(l)
	resp, err := http.Get("http://" + l.Addr().String() + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began := time.Now()
	s.Close(t.Context())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// A large body is not read: no call takes one.
func TestLargeBody(t *testing.T) {
	addr := serve(t, &fakeNode{view: viewOf("3", 8)})
	code, _ := call{method: "POST", path: "/v1/campaign", body: strings.NewReader(strings.Repeat("x", 1<<20))}.do(t, addr)
	if code != 200 {
		t.Errorf("campaign with a needless body: %d, want 200: the body is none of its business", code)
	}
}

func TestClient(t *testing.T) {
	addr := serve(t, &fakeNode{events: story})
	c, err := api.NewClient(addr, api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	var l api.Leader
	err = c.Get(t.Context(), "/v1/leader", &l)
	if answer, ok := err.(*api.AnswerError); !ok || answer.Code != 503 || answer.Message != "member 3 knows no leader; batuta status prints why" {
		t.Errorf("leader while there is none: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err = c.Watch(ctx, nil, func(line []byte) error {
		if got = append(got, string(line)); len(got) == len(storyLines) {
			cancel()
		}
		return nil
	})
	if err != nil || strings.Join(got, "\n") != strings.Join(storyLines, "\n") {
		t.Errorf("watched %q, %v", got, err)
	}
}

// An agent that is stopped, or cut off, keeps its connections. Its client detects that by the missing
// pings, and goes on after the last event once it answers.
func TestAWatchDetectsAnAgentThatIsStopped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after := r.Header.Get("Last-Event-ID")
		fmt.Fprintf(w, "id: %s1\ndata: {}\n\n", after)
		w.(http.Flusher).Flush()
		<-over
	}))
	defer l.Close()
	defer close(over)
	c, err := api.NewClient(l.Addr().String(), api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	c.Bears(50 * time.Millisecond)
	enough, got := errors.New("enough"), 0
	ended := make(chan error, 1)
	go func() {
		ended <- c.Watch(t.Context(), nil, func([]byte) error {
			if got++; got == 3 {
				return enough
			}
			return nil
		})
	}()
	select {
	case err := <-ended:
		if err != enough {
			t.Errorf("after %d events: %v", got, err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for a stopped agent")
	}
}

func TestClientRefuses(t *testing.T) {
	if _, err := api.NewClient("nonsense", api.Access{}); err == nil {
		t.Error("an address without a port is taken")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer l.Close()
	c, err := api.NewClient(l.Addr().String(), api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	var v api.Status
	if err := c.Get(t.Context(), "/v1/status", &v); err == nil || !strings.Contains(err.Error(), "not batuta's") {
		t.Errorf("another program's answer: %v", err)
	}
}
