package batutahttp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutahttp"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// service is three members on real sockets, each with a server whose writes go to one store.
type service struct {
	t       *testing.T
	nodes   [4]*batuta.Node
	servers [4]*httptest.Server
	begun   chan struct{} // by a slow write
	mu      sync.Mutex
	store   []write
}

type write struct {
	token batuta.Token
	by    batuta.ID
	text  string
}

// hosts are free addresses of this machine.
func hosts(t *testing.T, n int) (list []string) {
	t.Helper()
	ports, err := freeport.Find(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		list = append(list, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return list
}

func serve(t *testing.T, election func(*batuta.Node) batuta.Elector, f batutahttp.Forward) *service {
	s := &service{t: t, begun: make(chan struct{}, 1)}
	ports := hosts(t, 3)
	var peers []batuta.Peer
	for i := range 3 {
		peers = append(peers, batuta.Peer{ID: batuta.ID(fmt.Sprint(i + 1)), Addr: ports[i]})
	}
	for i := 1; i <= 3; i++ {
		var handler atomic.Pointer[http.Handler]
		s.servers[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
		node, err := batuta.Start(t.Context(), batuta.Config{ID: batuta.ID(fmt.Sprint(i)), Listen: ports[i-1], Peers: peers, Algorithm: bully.New(),
			Meta: map[string]string{"url": s.servers[i].URL + "/base"}})
		if err != nil {
			t.Fatal(err)
		}
		e := election(node)
		go e.Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error { <-ctx.Done(); return nil })
		h := http.StripPrefix("/base", batutahttp.LeaderOnly(e, s.handler(node.ID()), f))
		handler.Store(&h)
		s.nodes[i] = node
		t.Cleanup(func() { node.Close(); s.servers[i].Close() })
	}
	return s
}

// handler writes what it receives. Of "slow" it writes half a second after its leadership was lost.
func (s *service) handler(by batuta.ID) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.URL.Path == "/slow" {
			s.begun <- struct{}{}
			<-r.Context().Done()
			time.Sleep(500 * time.Millisecond)
		}
		l, ok := batuta.LeadershipFrom(r.Context())
		if !ok {
			s.t.Error("a request has no leadership")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.store = append(s.store, write{l.Token, by, string(text)})
		fmt.Fprintf(w, "%s?%s %s by %s", r.URL.Path, r.URL.RawQuery, text, by)
	})
}

// post sends a body of unknown length to a member.
func (s *service) post(member int, path, text string) (code int, body string) {
	r, err := http.Post(s.servers[member].URL+"/base"+path, "text/plain", io.MultiReader(strings.NewReader(text)))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	all, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(all)
}

// leads waits until every member that runs sees that leader.
func (s *service) leads(election func(*batuta.Node) batuta.Elector, id batuta.ID) {
	s.t.Helper()
	for _, n := range s.nodes[1:] {
		for late := time.Now().Add(time.Minute); n.Err() == nil && election(n).Leader().Token.Leader.ID != id; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				s.t.Fatalf("member %s does not come to see %s", n.ID(), id)
			}
		}
	}
}

func own(n *batuta.Node) batuta.Elector { return n }

// A write that outlives its leader is stored under its own token, before any write of the next leader; writes that are sent
// meanwhile, to the other members, wait for that leader.
func TestAWriteThatOutlivesItsLeader(t *testing.T) {
	for name, election := range map[string]func(*batuta.Node) batuta.Elector{
		"the cluster's": own,
		"a named one":   func(n *batuta.Node) batuta.Elector { return n.Election("shop") },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, election, batutahttp.Forward{Wait: 20 * time.Second})
			var leader int
			for late := time.Now().Add(time.Minute); leader == 0; time.Sleep(time.Millisecond) {
				if fmt.Sscan(string(election(s.nodes[1]).Leader().Token.Leader.ID), &leader); time.Now().After(late) {
					t.Fatal("no member leads")
				}
			}
			if name == "the cluster's" {
				s.leads(election, "3")
				leader = 3
			}
			for i := range 3 {
				if code, body := s.post(i+1, "/x%20y?a=b", "early"); code != 200 || !strings.HasPrefix(body, "/x y?a=b early by ") {
					t.Errorf("a write at member %d: %d %s", i+1, code, body)
				}
			}
			var writes sync.WaitGroup
			write := func(member int, path, text string) {
				writes.Go(func() {
					if code, body := s.post(member, path, text); code != 200 {
						t.Errorf("%s at member %d: %d %s", text, member, code, body)
					}
				})
			}
			others := []int{leader%3 + 1, (leader+1)%3 + 1}
			write(others[0], "/slow", "slow")
			<-s.begun
			old := election(s.nodes[leader]).Leader().Token
			writes.Go(func() { s.nodes[leader].Shutdown(context.Background()) })
			for s.nodes[leader].IsLeader() || election(s.nodes[leader]).IsLeader() {
				time.Sleep(time.Millisecond)
			}
			for _, member := range []int{others[0], others[1], others[0], others[1], others[0]} {
				write(member, "/", "late")
			}
			writes.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			for i, w := range s.store {
				if w.by != w.token.Leader.ID || w.text == "slow" && w.token != old || w.text == "late" && !w.token.Above(old) || i > 0 && s.store[i-1].token.Above(w.token) {
					t.Errorf("write %d of %v: %v", i, s.store, w)
				}
			}
			if len(s.store) != 9 {
				t.Errorf("writes: %v", s.store)
			}
		})
	}
}

// A leader that dies is waited for no longer than until the next leads; the client may be sent there instead.
func TestTheNextLeaderIsWaitedFor(t *testing.T) {
	s := serve(t, own, batutahttp.Forward{Wait: 20 * time.Second})
	s.leads(own, "3")
	s.servers[3].CloseClientConnections()
	s.servers[3].Close()
	go s.nodes[3].Close()
	if code, body := s.post(1, "/", "body"); code != 200 || body != "/? body by 2" {
		t.Errorf("the leader is dead: %d %s", code, body)
	}
	redirecting := httptest.NewServer(batutahttp.LeaderOnly(s.nodes[1], s.handler("1"), batutahttp.Forward{Redirect: true}))
	defer redirecting.Close()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Post(redirecting.URL+"/a%2Fb/?q=1", "", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if to := r.Header.Get("Location"); r.StatusCode != 307 || to != s.servers[2].URL+"/base/a%2Fb/?q=1" {
		t.Errorf("it is redirected: %d %s", r.StatusCode, to)
	}
}

// follower believes that the service at that URL is the leader's.
type follower struct {
	batuta.Elector
	url string
}

func (f *follower) Leader() batuta.View {
	return batuta.View{Token: batuta.Token{Epoch: 1, Leader: batuta.Rank{ID: "other"}}, Meta: map[string]string{"url": f.url}}
}

// Members that each take the other for the leader send a request around no circle, and answer within the wait.
func TestNoRequestGoesInACircle(t *testing.T) {
	n, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), Observer: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var requests atomic.Int32
	followers := []*follower{{Elector: n}, {Elector: n}}
	for i, f := range followers {
		h := batutahttp.LeaderOnly(f, http.NotFoundHandler(), batutahttp.Forward{Wait: 300 * time.Millisecond})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1); h.ServeHTTP(w, r) }))
		defer server.Close()
		followers[1-i].url = server.URL
	}
	for _, url := range []string{"", "::", "ftp://127.0.0.1", followers[0].url} {
		followers[0].url = url
		began := time.Now()
		r, err := http.Post(followers[1].url, "", io.MultiReader(strings.NewReader("body")))
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
			t.Errorf("with the leader's URL %q: %s", url, r.Status)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("with the leader's URL %q it takes %v", url, took)
		}
	}
	if got := requests.Load(); got < 5 || got > 50 {
		t.Errorf("4 requests have become %d", got)
	}
}

// A request that has not reached the leader leaves the reason in the log.
func TestTheLogHasWhyTheLeaderIsNotReached(t *testing.T) {
	n, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), Observer: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for _, c := range []struct {
		e          batuta.Elector
		log, reply string
	}{
		{n, "no member leads", "try again"},
		{&follower{n, ""}, "the leader publishes no URL", "the leader publishes no URL"},
		{&follower{n, "ftp://127.0.0.1"}, "not an http or https URL", "try again"},
		{&follower{n, "http://" + hosts(t, 1)[0]}, "refused", "try again"},
	} {
		var log strings.Builder
		w := httptest.NewRecorder()
		f := batutahttp.Forward{Wait: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		batutahttp.LeaderOnly(c.e, http.NotFoundHandler(), f).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if got := log.String(); w.Code != 503 || strings.Count(got, "\n") != 1 || !strings.Contains(got, c.log) {
			t.Errorf("code %d, log %q; want 503, and one line with %q", w.Code, got, c.log)
		}
		if got := w.Body.String(); !strings.Contains(got, c.reply) {
			t.Errorf("the reply is %q, want %q in it", got, c.reply)
		}
	}
}

// What a leader may have served is not sent again, and a client that leaves ends the wait.
func TestARequestIsServedOnce(t *testing.T) {
	var served atomic.Int32
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.ReadAll(r.Body)
		served.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer half.Close()
	n, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), Observer: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	f := &follower{n, half.URL}
	begun, done := make(chan struct{}, 2), make(chan struct{}, 2)
	h := batutahttp.LeaderOnly(f, http.NotFoundHandler(), batutahttp.Forward{Wait: time.Hour})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		h.ServeHTTP(w, r)
		done <- struct{}{}
	}))
	defer server.Close()
	r, err := http.Post(server.URL, "", strings.NewReader("body"))
	if err != nil || r.StatusCode != 502 || served.Load() != 1 {
		t.Errorf("the leader has read a request and dies: %v, %v; served %d times", r, err, served.Load())
	}
	<-begun
	<-done
	f.url = (&url.URL{Scheme: "http", Host: hosts(t, 1)[0]}).String() // it refuses
	leaving, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		time.Sleep(200 * time.Millisecond) // in which the leader is asked
		cancel()
	}()
	request, _ := http.NewRequestWithContext(leaving, "GET", server.URL, nil)
	if r, err := http.DefaultClient.Do(request); err == nil {
		t.Errorf("a leader that refuses: %v", r.Status)
	}
	<-done
	n.Close()
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 503 {
		t.Errorf("the node is closed: %d", w.Code)
	}
}

// The leader receives what a load balancer has written of the client, and then the address of the member that forwards.
func TestTheWayOfARequestIsKept(t *testing.T) {
	received := make(chan http.Header, 1)
	leader := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r.Header }))
	defer leader.Close()
	n, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), Observer: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	h := batutahttp.LeaderOnly(&follower{n, leader.URL}, http.NotFoundHandler(), batutahttp.Forward{})
	for _, balanced := range []bool{true, false} {
		r := httptest.NewRequest("GET", "http://shop.example/", nil)
		want := []string{"192.0.2.1", "shop.example", "http"}
		if balanced {
			r.Header.Set("X-Forwarded-For", "203.0.113.7")
			r.Header.Set("X-Forwarded-Host", "www.example")
			r.Header.Set("X-Forwarded-Proto", "https")
			want = []string{"203.0.113.7, 192.0.2.1", "www.example", "https"}
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		got := <-received
		for i, key := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			if got.Get(key) != want[i] {
				t.Errorf("behind a load balancer %v, %s: %q, want %q", balanced, key, got.Get(key), want[i])
			}
		}
	}
}
