package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// connection is one of many over which clients hold candidacies.
type connection struct {
	net.Conn
	in   *bufio.Reader
	held []heldAt
}

// heldAt is a candidacy, and until when its work may go on.
type heldAt struct {
	name, id string
	until    time.Time
}

// put sends a request on the connection.
func (c *connection) put(name, body string) (a candidacy.Turn, err error) {
	fmt.Fprintf(c, "PUT /v1/elections/%s/candidacy HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// renew asks for each candidacy of the connection once. leads counts those that lead, late those whose work was to
// stop before.
func (c *connection) renew() (leads, late int, err error) {
	for i := range c.held {
		h := &c.held[i]
		asked := time.Now()
		body := `{"ttl":"1m"}`
		if h.id != "" {
			body = `{"ttl":"1m","candidacy":"` + h.id + `"}`
		}
		a, err := c.put(h.name, body)
		if err != nil {
			return leads, late, err
		}
		if !h.until.IsZero() && time.Now().After(h.until) {
			late++
		}
		h.id = a.Candidacy
		if a.State == candidacy.Leading {
			leads++
			h.until = asked.Add(time.Duration(a.ValidMS) * time.Millisecond)
		}
	}
	return leads, late, nil
}

// round renews all candidacies over all connections at once.
func round(t *testing.T, all []*connection) (leads, late int) {
	t.Helper()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, c := range all {
		asking.Go(func() {
			l, n, err := c.renew()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			leads, late = leads+l, late+n
		})
	}
	asking.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return leads, late
}

// consumed gives the memory of a process in KiB, without what it can drop, and the time that its cores have worked.
func consumed(t *testing.T, pid int) (kib int, busy time.Duration) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rss, _ := bytes.Cut(status, []byte("RssAnon:"))
	fmt.Sscan(string(rss), &kib)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return kib, time.Duration(user+system) * 10 * time.Millisecond
}

// Ten thousand candidacies over a hundred connections at one agent: all lead, none ends, and one takes at most 20 KiB.
// To see the figures:
//
//	BATUTA_TEST_FULL=1 go test ./cmd/batuta -run TenThousand -v
func TestTenThousandCandidacies(t *testing.T) {
	connections, each := 10, 20
	if fulltest.Enabled() {
		connections, each = 100, 100
	}
	c := newLocks(t, "bully")
	awaitAgents(t, c)
	pid := c.runs["1"].Process.Pid
	before, _ := consumed(t, pid)
	all := make([]*connection, connections)
	for i := range all {
		conn, err := net.Dial("tcp", c.http["1"])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all[i] = &connection{Conn: conn, in: bufio.NewReader(conn)}
		for j := range each {
			all[i].held = append(all[i].held, heldAt{name: fmt.Sprintf("e%d-%d", i, j)})
		}
	}
	began := time.Now()
	for leads := 0; leads < connections*each; {
		if leads, _ = round(t, all); time.Since(began) > 2*runtest.Patience {
			t.Fatalf("%d lead", leads)
		}
	}
	took := time.Since(began)
	round(t, all)
	after, busyBefore := consumed(t, pid)
	lasts := fulltest.Size(2*time.Second, 10*time.Second)
	rounds, late, fewest := 0, 0, connections*each
	for began = time.Now(); time.Since(began) < lasts; rounds++ {
		next := time.NewTimer(500 * time.Millisecond)
		leads, n := round(t, all)
		late += n
		fewest = min(fewest, leads)
		<-next.C
	}
	_, busy := consumed(t, pid)
	perHeld := float64(after-before) / float64(connections*each)
	if fulltest.Enabled() && perHeld > 20 { // of few, most is the agent's own garbage
		t.Errorf("a candidacy takes %.1f KiB", perHeld)
	}
	t.Logf("%d candidacies over %d connections: all lead after %v; %.1f KiB each; %d rounds of renewals in %v, %d late, at least %d lead, %.0f %% of a core",
		connections*each, connections, took.Round(time.Millisecond), perHeld, rounds, lasts, late, fewest, 100*(busy-busyBefore).Seconds()/lasts.Seconds())
}

// awaitAgents waits until each agent knows the leader 3.
func awaitAgents(t *testing.T, c *crew) {
	t.Helper()
	for at := range c.http {
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			out := &strings.Builder{}
			e := silent()
			e.Stdout = out
			if run(t.Context(), []string{"leader", "--agent", c.http[at]}, e); strings.TrimSpace(out.String()) == "3" {
				break
			}
			if time.Since(began) > runtest.Patience {
				t.Fatalf("agent %s never follows 3", at)
			}
		}
	}
}

// From the kill of an agent to the moment at which a client of another is told that it leads, with best effort.
func TestAClientLeadsSoonAfterAnAgentIsLost(t *testing.T) {
	c := newLocks(t, "bully")
	var took []time.Duration
	for range fulltest.Size(3, 20) {
		awaitAgents(t, c)
		first, end1 := stream(t, c, "1")
		second, end2 := stream(t, c, "2")
		at, next := "1", second
		select { // the first to lead is at either
		case <-first:
		case <-second:
			at, next = "2", first
		case <-time.After(runtest.Patience):
			t.Fatal("no client leads")
		}
		time.Sleep(300 * time.Millisecond) // both are known everywhere
		began := time.Now()
		c.signal(at, syscall.SIGKILL)
		select {
		case <-next:
			took = append(took, time.Since(began))
		case <-time.After(runtest.Patience):
			t.Fatal("no other client leads")
		}
		<-c.dead[at]
		end1()
		end2()
		c.start(at)
	}
	slices.Sort(took)
	t.Logf("median %v, least %v, most %v", took[len(took)/2], took[0], took[len(took)-1])
	if took[len(took)/2] > defaults.T()/2 {
		t.Errorf("the median is above T/2: a crash is seen by the end of a connection, not by silence for %v", defaults.T())
	}
}

// stream is a candidacy until end is called. leads is closed once it leads.
func stream(t *testing.T, c *crew, at string) (leads <-chan struct{}, end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", c.http[at])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "PUT /v1/elections/lost/candidacy HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\nContent-Length: 0\r\n\r\n")
	led := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if strings.Contains(lines.Text(), `"state":"leading"`) {
				close(led)
				return
			}
		}
	}()
	return led, func() { conn.Close() }
}
