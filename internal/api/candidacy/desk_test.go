package candidacy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
)

// patience is far longer than anything here takes on a machine that is busy.
const patience = 30 * time.Second

// election is led here whenever it is asked for, under rising epochs, until lose is called.
type election struct {
	name    string
	leaders []batuta.View
	begin   chan struct{} // once it is closed, this member leads; nil: at once

	mu    sync.Mutex
	epoch uint64
	lose  context.CancelCauseFunc
	held  int // leaderships that work at this moment
	most  int
}

func (e *election) Name() string           { return e.name }
func (e *election) Leaders() []batuta.View { return e.leaders }
func (e *election) Lease(context.Context) (batuta.Lease, error) {
	return batuta.Lease{Left: time.Minute}, nil
}

func (e *election) Lead(ctx context.Context, fn func(context.Context, batuta.Leadership) error) error {
	if e.begin != nil {
		<-e.begin
	}
	for ctx.Err() == nil {
		e.mu.Lock()
		e.epoch++
		token := batuta.Token{Epoch: e.epoch, Leader: batuta.Rank{ID: "1"}}
		work, cancel := context.WithCancelCause(ctx)
		e.lose = func(error) { cancel(&batuta.LostError{Token: token, Cause: batuta.CauseResigned}) }
		e.held++
		e.most = max(e.most, e.held)
		e.mu.Unlock()
		err := fn(work, batuta.Leadership{Election: e.name, Token: token})
		lost := work.Err() != nil
		cancel(nil)
		e.mu.Lock()
		e.held--
		e.mu.Unlock()
		if !lost {
			return err
		}
	}
	return ctx.Err()
}

func (e *election) loses() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lose(nil)
}

// desk is a Desk behind a server.
type desk struct {
	*testing.T
	*candidacy.Desk
	url string

	mu        sync.Mutex
	elections map[string]*election
	logged    int // lines at level warn
}

// Write implements [io.Writer] for the log.
func (d *desk) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logged++
	return len(line), nil
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, elections: map[string]*election{}}
	d.Desk = candidacy.New(candidacy.Config{Member: "1", Open: func(name string, _ ...batuta.ElectionOption) (candidacy.Election, error) {
		return d.election(name), nil
	},
		Reserved: func(name string) bool { return name == "own" }, Log: slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/elections/{name}/candidacy", d.Put)
	mux.HandleFunc("DELETE /v1/elections/{name}/candidacy", d.Delete)
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	d.url = s.URL
	return d
}

func (d *desk) election(name string) *election {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.elections[name] == nil {
		d.elections[name] = &election{name: name}
	}
	return d.elections[name]
}

func (d *desk) do(method, path, body string) (code int, a candidacy.Turn) {
	d.Helper()
	req, _ := http.NewRequestWithContext(d.Context(), method, d.url+"/v1/elections/"+path, strings.NewReader(body))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		d.Fatalf("%s %s %s answers %d %q: %v", method, path, body, resp.StatusCode, text, err)
	}
	return resp.StatusCode, a
}

func (d *desk) put(path, body string) candidacy.Turn {
	d.Helper()
	code, a := d.do("PUT", path, body)
	if code != http.StatusOK {
		d.Fatalf("PUT %s %s answers %d", path, body, code)
	}
	return a
}

// await asks until the candidacy is in that state.
func (d *desk) await(path, id string, state candidacy.State) candidacy.Turn {
	d.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if a := d.put(path, `{"candidacy":"`+id+`"}`); a.State == state {
			return a
		}
	}
	d.Fatalf("candidacy %s is never %s", id, state)
	return candidacy.Turn{}
}

// gone waits until the candidacy has ended.
func (d *desk) gone(path, id string) {
	d.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if code, _ := d.do("PUT", path, `{"candidacy":"`+id+`"}`); code == http.StatusNotFound {
			return
		}
	}
	d.Fatalf("candidacy %s never ends", id)
}

// open begins a stream; end ends its connection.
func (d *desk) open(path, accept, body string) (next func() candidacy.Turn, end func()) {
	d.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	req, _ := http.NewRequestWithContext(ctx, "PUT", d.url+"/v1/elections/"+path, strings.NewReader(body))
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { cancel(); resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	return func() (a candidacy.Turn) {
		for in.Scan() {
			if line := bytes.TrimPrefix(in.Bytes(), []byte("data: ")); bytes.HasPrefix(line, []byte("{")) {
				if err := json.Unmarshal(line, &a); err != nil {
					d.Fatal(err)
				}
				return a
			}
		}
		return a
	}, cancel
}

func (d *desk) count(how string) (n float64) {
	d.Helper()
	for _, f := range d.Families() {
		for _, s := range f.Samples {
			if f.Name == how || slices.Contains(s.Labels, how) {
				n += s.Value
			}
		}
	}
	return n
}

func TestALeaseLeadsUntilItIsReleased(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.put("x/candidacy", `{"ttl":"1m"}`)
	if a := d.await("x/candidacy", first.Candidacy, candidacy.Leading); *a.Token != "1:1" || a.ValidMS <= 0 || a.ValidMS > 60000 {
		t.Errorf("it leads under %+v", a)
	}
	second := d.put("x/candidacy", `{"ttl":"1m"}`)
	if a := d.put("x/candidacy", `{"candidacy":"`+second.Candidacy+`"}`); a.State != candidacy.Waiting || a.HeldBy != "1" {
		t.Errorf("the second is %+v", a)
	}
	if a := d.put("x/candidacy", `{"candidacy":"`+first.Candidacy+`","released":true}`); a.State != candidacy.Waiting {
		t.Errorf("once released it is %s", a.State)
	}
	if a := d.await("x/candidacy", second.Candidacy, candidacy.Leading); *a.Token != "2:1" {
		t.Errorf("the second leads under %s", *a.Token)
	}
	if code, _ := d.do("DELETE", "x/candidacy?candidacy="+second.Candidacy, ""); code != http.StatusOK {
		t.Errorf("DELETE answers %d", code)
	}
	d.await("x/candidacy", first.Candidacy, candidacy.Leading)
	d.gone("x/candidacy", second.Candidacy)
	if most := d.election("x").most; most != 1 {
		t.Errorf("%d lead at once", most)
	}
}

// A client that ends where an election is held would end, too, in the moment in which it is given to this member.
func TestALeadershipOnItsWayHoldsNothing(t *testing.T) {
	t.Parallel()
	leader := func(id batuta.ID) batuta.View {
		return batuta.View{Token: batuta.Token{Epoch: 1, Leader: batuta.Rank{ID: id}}}
	}
	for _, try := range []struct {
		what    string
		leaders []batuta.View
		held    string
	}{
		{"this member", []batuta.View{leader("1")}, ""},
		{"another member", []batuta.View{leader("2")}, "2"},
		{"none", nil, ""},
	} {
		d := newDesk(t)
		e := d.election("x")
		e.leaders, e.begin = try.leaders, make(chan struct{})
		a := d.put("x/candidacy", `{"ttl":"1m"}`)
		if a = d.put("x/candidacy", `{"candidacy":"`+a.Candidacy+`"}`); a.State != candidacy.Waiting || a.HeldBy != try.held {
			t.Errorf("%s leads: the candidacy is %s, held by %q; want %q", try.what, a.State, a.HeldBy, try.held)
		}
		close(e.begin)
		d.await("x/candidacy", a.Candidacy, candidacy.Leading)
	}
}

// A client that has ended holds nothing, from the answer to its DELETE on.
func TestACandidacyThatHasEndedHoldsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 300 {
		first := d.put("x/candidacy", `{"ttl":"1m"}`)
		d.await("x/candidacy", first.Candidacy, candidacy.Leading)
		second := d.put("x/candidacy", `{"ttl":"1m"}`)
		d.do("DELETE", "x/candidacy?candidacy="+first.Candidacy, "")
		if a := d.put("x/candidacy", `{"candidacy":"`+second.Candidacy+`"}`); a.HeldBy != "" {
			t.Fatalf("the second is %s, held by %s", a.State, a.HeldBy)
		}
		d.do("DELETE", "x/candidacy?candidacy="+second.Candidacy, "")
	}
}

func TestALossIsHeldBackUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.put("x/candidacy", `{"ttl":"1m"}`)
	d.await("x/candidacy", first.Candidacy, candidacy.Leading)
	second := d.put("x/candidacy", `{"ttl":"1m"}`)
	d.election("x").loses()
	lost := d.await("x/candidacy", first.Candidacy, candidacy.Lost)
	if *lost.Token != "1:1" || lost.Cause != string(batuta.CauseResigned) {
		t.Errorf("it has lost %+v", lost)
	}
	if a := d.put("x/candidacy", `{"candidacy":"`+first.Candidacy+`","ttl":"5m"}`); a.ValidMS > 60000 {
		t.Errorf("a renewal after the loss extends the bound to %d ms", a.ValidMS)
	}
	if a := d.put("x/candidacy", `{"candidacy":"`+second.Candidacy+`"}`); a.State != candidacy.Waiting {
		t.Errorf("the second is %s before the first has acknowledged", a.State)
	}
	d.put("x/candidacy", `{"candidacy":"`+first.Candidacy+`","released":true}`)
	d.await("x/candidacy", second.Candidacy, candidacy.Leading)
}

// Clients that begin candidacies and leave them are counted. They do not fill the log.
func TestCandidaciesThatExpireAreAFewLinesOfTheLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const each = 200
	for i := range each {
		d.put("a/candidacy", `{"ttl":"1s"}`)
		d.put(fmt.Sprint("b", i, "/candidacy"), `{"ttl":"1s"}`)
	}
	for began := time.Now(); d.count("expired") < 2*each; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%v have expired", d.count("expired"))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logged == 0 || d.logged > 20 {
		t.Errorf("%d candidacies that expired are %d lines of the log", 2*each, d.logged)
	}
}

func TestALeaseThatIsNotRenewedEnds(t *testing.T) {
	t.Parallel()
	for _, loses := range []bool{false, true} {
		d := newDesk(t)
		first := d.put("x/candidacy", `{"ttl":"1s"}`)
		d.await("x/candidacy", first.Candidacy, candidacy.Leading)
		if loses {
			d.election("x").loses()
		}
		second := d.put("x/candidacy", `{"ttl":"1m"}`)
		d.await("x/candidacy", second.Candidacy, candidacy.Leading)
		d.gone("x/candidacy", first.Candidacy)
		for _, late := range []string{`"ttl":"1m"`, `"released":true`} {
			if code, _ := d.do("PUT", "x/candidacy", `{"candidacy":"`+first.Candidacy+`",`+late+`}`); code != http.StatusNotFound {
				t.Errorf("loses %v: %s too late answers %d", loses, late, code)
			}
		}
		d.await("x/candidacy", second.Candidacy, candidacy.Leading)
		if n := d.count("expired"); n != 1 {
			t.Errorf("loses %v: %v are counted as expired", loses, n)
		}
	}
}

func TestAStreamLeadsAsLongAsItsConnectionLasts(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		d := newDesk(t)
		first, end := d.open("x/candidacy", accept, "")
		for first().State != candidacy.Leading {
		}
		second, _ := d.open("x/candidacy", accept, "")
		if a := second(); a.State != candidacy.Waiting {
			t.Errorf("%s: the second is %s", accept, a.State)
		}
		end()
		for second().State != candidacy.Leading {
		}
		if n := d.count("disconnected"); n != 1 {
			t.Errorf("%s: %v are counted as disconnected", accept, n)
		}
	}
}

func TestAStreamAcknowledgesAndWaitsAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	next, _ := d.open("x/candidacy", "", `{"grace":"1m"}`)
	a := next()
	for a.State != candidacy.Leading {
		a = next()
	}
	d.election("x").loses()
	for a.State != candidacy.Lost {
		a = next()
	}
	d.put("x/candidacy", `{"candidacy":"`+a.Candidacy+`","released":true}`)
	for a.State != candidacy.Leading {
		a = next()
	}
	if *a.Token != "2:1" {
		t.Errorf("it leads again under %s", *a.Token)
	}
}

// A stream that never acknowledges is ended at its bound.
func TestAStreamThatNeverAcknowledgesIsEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	next, _ := d.open("x/candidacy", "", `{"grace":"20ms"}`)
	for next().State != candidacy.Leading {
	}
	second := d.put("x/candidacy", `{"ttl":"1m"}`)
	d.election("x").loses()
	d.await("x/candidacy", second.Candidacy, candidacy.Leading)
	for next().State != "" {
	}
	if n := d.count("unacknowledged"); n != 1 {
		t.Errorf("%v are counted as unacknowledged", n)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.put("x/candidacy", `{"ttl":"1m"}`).Candidacy
	next, _ := d.open("x/candidacy", "", "")
	stream := next().Candidacy
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"PUT", "own", `{"ttl":"10s"}`, 409},
		{"PUT", "own", ``, 409},
		{"PUT", "y", `{"candidacy":"` + id + `"}`, 404},
		{"PUT", "y", `{"candidacy":"` + id + `","released":true}`, 404},
		{"DELETE", "y", `{"candidacy":"` + id + `"}`, 404},
		{"DELETE", "x", `{"candidacy":"guessed"}`, 404},
		{"DELETE", "x", ``, 400},
		{"PUT", "x", `{"candidacy":"` + stream + `","ttl":"10s"}`, 409},
		{"PUT", "x", `{"candidacy":"` + id + `","seats":2}`, 400},
		{"PUT", "x", `{"released":true}`, 400},
		{"PUT", "x", `{"ttl":"1ms"}`, 400},
		{"PUT", "x", `{"ttl":"24h"}`, 400},
		{"PUT", "x", `{"ttl":10}`, 400},
		{"PUT", "x", `{"ttl":"10s","grace":"1s"}`, 400},
		{"PUT", "x", `{"grace":"-1s"}`, 400},
		{"PUT", "x", `{"tll":"10s"}`, 400},
		{"PUT", "x", `{"ttl":"10s"} {}`, 400},
		{"PUT", "x", `{`, 400},
		{"PUT", "x", `{"ttl":"` + strings.Repeat("1", 5000) + `"}`, 413},
	} {
		if code, _ := d.do(c.method, c.path+"/candidacy", c.body); code != c.code {
			t.Errorf("%s %s %.60s answers %d, not %d", c.method, c.path, c.body, code, c.code)
		}
	}
	d.await("x/candidacy", id, candidacy.Leading) // nothing of that has harmed it
}

// Two programs with one id are one client: what one of them ends has ended for both, and the next leads under a
// token of its own.
func TestTwoClientsWithOneID(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.put("x/candidacy", `{"ttl":"1m"}`).Candidacy
	led := d.await("x/candidacy", id, candidacy.Leading)
	next := d.put("x/candidacy", `{"ttl":"1m"}`)
	var both sync.WaitGroup
	ended := make(chan int, 2)
	for range 2 {
		both.Go(func() {
			d.do("PUT", "x/candidacy", `{"candidacy":"`+id+`","ttl":"1m"}`) // 404 if the other has ended it
			d.do("PUT", "x/candidacy", `{"candidacy":"`+id+`","released":true}`)
			code, _ := d.do("DELETE", "x/candidacy", `{"candidacy":"`+id+`"}`)
			ended <- code
		})
	}
	both.Wait()
	if one, other := <-ended, <-ended; one+other != http.StatusOK+http.StatusNotFound {
		t.Errorf("they are answered %d and %d", one, other)
	}
	if a := d.await("x/candidacy", next.Candidacy, candidacy.Leading); *a.Token == *led.Token {
		t.Errorf("the next leads under %s as well", *a.Token)
	}
	if most := d.election("x").most; most != 1 {
		t.Errorf("%d lead at once", most)
	}
}

// pipes is a listener of connections without buffers.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A client that reads no more, and keeps its connection, holds nothing once an event cannot be sent for 10 s.
func TestAClientThatStopsReadingIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &election{name: "x"}
		d := candidacy.New(candidacy.Config{Member: "1", Open: func(string, ...batuta.ElectionOption) (candidacy.Election, error) { return e, nil }})
		mux := http.NewServeMux()
		mux.HandleFunc("PUT /v1/elections/{name}/candidacy", d.Put)
		l := make(pipes)
		s := &http.Server{Handler: mux}
		go s.Serve(l)
		defer s.Close()
		open := func() *bufio.Reader {
			c, far := net.Pipe()
			l <- far
			t.Cleanup(func() { c.Close() })
			fmt.Fprint(c, "PUT /v1/elections/x/candidacy HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			return bufio.NewReaderSize(c, 16)
		}
		until := func(r *bufio.Reader, state string) {
			for line := ""; !strings.Contains(line, `"state":"`+state); {
				part, _, err := r.ReadLine()
				if err != nil {
					t.Fatal(err)
				}
				if line += string(part); len(line) > 4096 {
					line = line[2048:]
				}
			}
		}
		until(open(), "leading") // and then it reads nothing
		second := open()
		began := time.Now()
		until(second, "leading")
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the next leads after %v", took)
		}
	})
}

func TestABodyWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/elections/{name}/candidacy", d.Put)
	s := httptest.NewUnstartedServer(mux)
	s.Config.ReadTimeout = time.Second
	s.Start()
	t.Cleanup(s.Close)
	never, w := io.Pipe()
	defer w.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/v1/elections/x/candidacy", never)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the connection is cut
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("it answers %s", resp.Status)
	}
}

func TestThereIsAQuota(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	held := d.put("x/candidacy", `{"ttl":"5m"}`)
	for i := range candidacy.Max - 1 {
		d.put(fmt.Sprintf("y%d/candidacy", i%10), `{"ttl":"5m"}`)
	}
	if code, _ := d.do("PUT", "z/candidacy", `{"ttl":"1m"}`); code != http.StatusServiceUnavailable {
		t.Errorf("one too many answers %d", code)
	}
	if n, all := d.count("refused"), d.count("batuta_candidacies"); n != 1 || all != candidacy.Max {
		t.Errorf("%v of %v are counted as refused", n, all)
	}
	d.await("x/candidacy", held.Candidacy, candidacy.Leading)
	d.do("DELETE", "x/candidacy?candidacy="+held.Candidacy, "")
	d.put("z/candidacy", `{"ttl":"1m"}`)
}

// Clients that come, renew, release and go at the same time never lead at once, and the last to remain leads.
func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			for range 10 {
				a := d.put("x/candidacy", `{"ttl":"1m"}`)
				d.do("PUT", "x/candidacy", `{"candidacy":"`+a.Candidacy+`","released":true}`)
				if i%2 == 0 {
					d.do("PUT", "x/candidacy", `{"candidacy":"`+a.Candidacy+`","ttl":"2m"}`)
				}
				d.do("DELETE", "x/candidacy", `{"candidacy":"`+a.Candidacy+`"}`)
			}
		})
	}
	clients.Wait()
	last := d.put("x/candidacy", `{"ttl":"1m"}`)
	d.await("x/candidacy", last.Candidacy, candidacy.Leading)
	e := d.election("x")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.most != 1 {
		t.Errorf("%d lead at once", e.most)
	}
}
