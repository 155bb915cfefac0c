package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
)

// candidate is a client that stands for an election at an agent by a lease.
type candidate struct {
	*testing.T
	at, name, id string
}

func (c *candidate) put(body string) (a candidacy.Turn) {
	c.Helper()
	code, text := call{method: "PUT", path: "/v1/elections/" + c.name + "/candidacy", body: strings.NewReader(body)}.do(c.T, c.at)
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK {
		c.Fatalf("%s answers %d %s", body, code, text)
	}
	return a
}

func standAt(t *testing.T, at, name string) *candidate {
	t.Helper()
	c := &candidate{T: t, at: at, name: name}
	c.id = c.put(`{"ttl":"1m"}`).Candidacy
	t.Cleanup(c.end)
	return c
}

func (c *candidate) await(s candidacy.State) candidacy.Turn {
	c.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if a := c.put(`{"candidacy":"` + c.id + `"}`); a.State == s {
			return a
		}
	}
	c.Fatalf("it is never %s", s)
	return candidacy.Turn{}
}

// end says that its work has stopped, without which a node that closes waits.
func (c *candidate) end() {
	req, _ := http.NewRequest("DELETE", "http://"+c.at+"/v1/elections/"+c.name+"/candidacy?candidacy="+c.id, nil)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
	}
}

// Clients of two agents stand for an election. The lead that one releases is the other's next. A loss is held back.
func TestClientsOfTwoAgentsStandForAnElection(t *testing.T) {
	one, at1 := startNode(t, "1")
	two, at2 := startNode(t, "2", string(one.Addr()))
	awaitLead(t, one, "default", "2")
	first := standAt(t, at1, "payroll")
	a := first.await(candidacy.Leading)
	for began := time.Now(); a.ValidMS == 0 && time.Since(began) < patience; time.Sleep(time.Millisecond) { // the machine stalled
		a = first.await(candidacy.Leading)
	}
	if !strings.HasSuffix(*a.Token, ":1") || a.ValidMS <= 0 || a.LeaseMS != 0 {
		t.Errorf("it leads under %+v", a)
	}
	awaitLead(t, two, "payroll", "1")
	second := standAt(t, at2, "payroll")
	if a := second.put(`{"candidacy":"` + second.id + `"}`); a.HeldBy != "1" {
		t.Errorf("the second learns %+v", a)
	}
	first.put(`{"candidacy":"` + first.id + `","released":true}`)
	led := second.await(candidacy.Leading)

	// It is handed over to 1, and has not ended its work.
	moved := make(chan error, 1)
	go func() {
		err := two.Election("payroll").Transfer(t.Context(), "1")
		for began := time.Now(); errors.Is(err, batuta.ErrRefusedElection) && time.Since(began) < patience; time.Sleep(time.Millisecond) {
			err = two.Election("payroll").Transfer(t.Context(), "1") // the first is yet to be a candidate again
		}
		moved <- err
	}()
	if lost := second.await(candidacy.Lost); *lost.Token != *led.Token || lost.Cause != string(batuta.CauseResigned) {
		t.Errorf("the second has lost %+v", lost)
	}
	if a := first.put(`{"candidacy":"` + first.id + `"}`); a.State != candidacy.Waiting {
		t.Errorf("the first is %s while the second has not acknowledged", a.State)
	}
	second.end()
	first.await(candidacy.Leading)
	if err := <-moved; err != nil {
		t.Error(err)
	}
}

// A candidacy that is held has at most 16 KiB on the heap and on stacks. Garbage comes on top of that.
func TestAHeldCandidacyIsSmall(t *testing.T) {
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	cost := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := cost()
	const many = 1000
	var last *candidate
	for i := range many {
		last = standAt(t, at, fmt.Sprint("small-", i))
	}
	last.await(candidacy.Leading)
	each := (cost() - before) / many
	t.Logf("%d bytes each", each)
	if each > 16<<10 {
		t.Errorf("a candidacy costs %d bytes", each)
	}
}

// A client that leads reports that its work serves: once in the events, and in the list until it leads no more.
func TestAClientReportsThatItsWorkServes(t *testing.T) {
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	first, second := standAt(t, at, "payroll"), standAt(t, at, "payroll")
	first.await(candidacy.Leading)
	ready := func(body string) (int, string) {
		return call{method: "POST", path: "/v1/elections/payroll/ready", body: strings.NewReader(body)}.do(t, at)
	}
	listed := func() bool {
		_, text := call{method: "GET", path: "/v1/elections"}.do(t, at)
		return strings.Contains(text, `"ready":true`)
	}
	_, since := poll(t, at, "election=payroll&wait=30s")
	for range 2 {
		if code, text := ready(`{"candidacy":"` + first.id + `"}`); code != http.StatusOK || !strings.Contains(text, `"ready":true`) {
			t.Errorf("ready answers %d %s", code, text)
		}
	}
	if !listed() {
		t.Error("it is not listed as ready")
	}
	list, next := poll(t, at, "election=payroll&wait=30s&since="+since)
	if len(list) > 0 && list[0].line == "leader" { // of the first, if the poll before had none
		if list = list[1:]; len(list) == 0 {
			list, next = poll(t, at, "election=payroll&wait=30s&since="+next)
		}
	}
	if len(list) != 1 || list[0].line != "ready" {
		t.Errorf("the events are %v", list)
	}
	for body, want := range map[string]int{`{"candidacy":"` + second.id + `"}`: http.StatusConflict, `{"candidacy":"x"}`: http.StatusNotFound,
		`{}`: http.StatusBadRequest, `{"candidacy":"` + first.id + `","ttl":"1s"}`: http.StatusBadRequest} {
		if code, text := ready(body); code != want {
			t.Errorf("%s answers %d %s", body, code, text)
		}
	}
	first.put(`{"candidacy":"` + first.id + `","released":true}`)
	if a := second.await(candidacy.Leading); a.Ready || listed() {
		t.Error("the next leadership is ready before it reports that")
	}
	if list, _ = poll(t, at, "election=payroll&wait=30s&since="+next); len(list) == 0 || list[0].line != "lost" {
		t.Errorf("then they are %v", list)
	}
}

// The cluster's own election, and those with work of the agent's own, are no client's.
func TestElectionsOfTheAgentAreNoClients(t *testing.T) {
	_, at := startNode(t, "1")
	for name, want := range map[string]int{"default": http.StatusConflict, "%01": http.StatusBadRequest, strings.Repeat("x", batuta.MaxElectionName+1): http.StatusBadRequest} {
		code, text := call{method: "PUT", path: "/v1/elections/" + name + "/candidacy", body: strings.NewReader(`{"ttl":"10s"}`)}.do(t, at)
		if code != want {
			t.Errorf("election %.20s: %d %s, not %d", name, code, text, want)
		}
	}
}

// A client reports the health and the metadata of the member.
func TestAClientReportsHealthAndMeta(t *testing.T) {
	n, at := startNode(t, "1")
	put := func(path, body string) int {
		code, _ := call{method: "PUT", path: path, body: strings.NewReader(body)}.do(t, at)
		return code
	}
	if code := put("/v1/health", `{"healthy":false,"why":"no disk"}`); code != http.StatusOK {
		t.Errorf("unhealthy: %d", code)
	}
	if st := statusOf(n); st.Standing != batuta.StandingUnhealthy || !strings.Contains(st.StandingWhy, "no disk") {
		t.Errorf("it stands as %s: %s", st.Standing, st.StandingWhy)
	}
	if code := put("/v1/health", `{"healthy":true}`); code != http.StatusOK || statusOf(n).Standing != batuta.StandingEligible {
		t.Errorf("healthy: %d, and it stands as %s", code, statusOf(n).Standing)
	}
	if code := put("/v1/meta", `{"url":"http://x"}`); code != http.StatusOK || statusOf(n).Members[0].Meta["url"] != "http://x" {
		t.Errorf("meta: %d %v", code, statusOf(n).Members[0].Meta)
	}
	for body, want := range map[string]string{`{}`: `"healthy is missing; send`, `{"healthy":true,"why":"x"}`: `"why is only for an unhealthy member`,
		`{"healthy":false,"why":"` + strings.Repeat("x", 1001) + `"}`: `"why has 1001 bytes: at most 1000; send`} {
		if _, text := (call{method: "PUT", path: "/v1/health", body: strings.NewReader(body)}).do(t, at); !strings.Contains(text, want) {
			t.Errorf("%.40s answers %s, want %s", body, text, want)
		}
	}
	for path, body := range map[string]string{"/v1/health": `{}`, "/v1/meta": `{"Not a key":"x"}`, "/v1/health?x": `{"healthy":true,"why":"x"}`,
		"/v1/health?y": `{"healthy":false,"why":"` + strings.Repeat("x", 1001) + `"}`} {
		if code := put(path, body); code != http.StatusBadRequest {
			t.Errorf("%s %.40s answers %d", path, body, code)
		}
	}
}
