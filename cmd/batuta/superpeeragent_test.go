package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/cmd/batuta/internal/peeragent"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/superpeer"
)

// settleWithin is generous: what takes seconds may take a busy machine much longer.
const settleWithin = 2 * time.Minute

// peerProcess is a "batuta superpeer agent".
type peerProcess struct {
	*process
	id, http, listen string

	mu    sync.Mutex
	lines []peeragent.Line // its events
}

// peerGroup is an overlay of processes.
type peerGroup struct {
	*testing.T
	watch   *stalltest.Watch
	dir     string
	flags   []string
	members []*peerProcess
	last    int
}

func (g *peerGroup) start(flags ...string) *peerProcess {
	g.Helper()
	executable, err := os.Executable()
	if err != nil {
		g.Fatal(err)
	}
	g.last++
	m := &peerProcess{id: "n" + strconv.Itoa(g.last)}
	args := []string{"batuta", "superpeer", "agent", "--id", m.id, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--events", "json"}
	if len(g.members) > 0 {
		args = append(args, "--join", g.members[0].listen)
	}
	m.process, err = startProcess(executable, g.dir, append(append(args, g.flags...), flags...))
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { m.kill(); <-m.ended })
	ready := make(chan peeragent.Line, 1)
	go func() {
		defer close(ready)
		defer close(m.ended)
		for first := true; m.stdout.Scan(); first = false {
			var l peeragent.Line
			switch err := json.Unmarshal(m.stdout.Bytes(), &l); {
			case err == nil && first:
				ready <- l
			case err == nil:
				m.mu.Lock()
				m.lines = append(m.lines, l)
				m.mu.Unlock()
			}
		}
		m.cmd.Wait() // its exit code is asked for where it matters
	}()
	select {
	case l := <-ready:
		if l.Event != "ready" {
			g.Fatalf("%s does not become ready: %s", m.id, m.stderr.last())
		}
		m.http, m.listen = l.HTTP, l.Listen
	case <-time.After(settleWithin):
		g.Fatalf("%s does not become ready: %s", m.id, m.stderr.last())
	}
	g.members = append(g.members, m)
	return m
}

func (g *peerGroup) status(m *peerProcess) (s superpeer.Status, err error) {
	client := http.Client{Timeout: 30 * time.Second}
	r, err := client.Get("http://" + m.http + "/v1/status")
	if err != nil {
		return s, err
	}
	defer r.Body.Close()
	return s, json.NewDecoder(r.Body).Decode(&s)
}

// await waits until as many as wanted are super peers and all others served.
func (g *peerGroup) await(what string, wanted int) (supers []*peerProcess) {
	g.Helper()
	var err error
	for until := time.Now().Add(settleWithin); time.Now().Before(until); time.Sleep(300 * time.Millisecond) {
		if supers, err = g.supers(wanted); err == nil {
			return supers
		}
	}
	g.Fatalf("%s: not within %v: %v", what, settleWithin, err)
	return nil
}

// supers are the super peers, the busiest last.
func (g *peerGroup) supers(wanted int) (supers []*peerProcess, err error) {
	live, load := map[string]bool{}, map[*peerProcess]int{}
	for _, m := range g.members {
		live[m.id] = true
	}
	for _, m := range g.members {
		s, err := g.status(m)
		if err != nil {
			return nil, err
		}
		if s.Clients > s.Capacity {
			g.Errorf("%s serves %d, its capacity is %d", m.id, s.Clients, s.Capacity)
		}
		switch load[m] = s.Clients; {
		case s.SuperPeer:
			supers = append(supers, m)
		case s.HomeID == nil || !live[*s.HomeID]:
			return nil, fmt.Errorf("%s has no super peer that lives", m.id)
		}
		if s.Nodes != len(g.members) {
			return nil, fmt.Errorf("%s counts %d nodes of %d", m.id, s.Nodes, len(g.members))
		}
		if r := s.Requirements; !r.Latency.Holds || !r.Share.Holds || !r.Capacity.Holds {
			return nil, fmt.Errorf("%s: %s; %s; %s", m.id, r.Latency.Says, r.Share.Says, r.Capacity.Says)
		}
	}
	if len(supers) != wanted {
		return nil, fmt.Errorf("%d super peers, %d are wanted", len(supers), wanted)
	}
	slices.SortFunc(supers, func(a, b *peerProcess) int { return cmp.Compare(load[a], load[b]) })
	return supers, nil
}

// crash ends a process by SIGKILL.
func (g *peerGroup) crash(m *peerProcess) {
	m.kill()
	<-m.ended
	for i := range g.members {
		if g.members[i] == m {
			g.members = append(g.members[:i], g.members[i+1:]...)
			return
		}
	}
}

// servedAgain tells whether dead served m until it was killed, and when another did then; zero:
// none yet.
func (m *peerProcess) servedAgain(dead string, killed time.Time) (orphan bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	home := ""
	for _, l := range m.lines {
		switch {
		case l.Event == superpeer.EventSuper:
			home = m.id
		case l.Event == superpeer.EventHome && l.Home != nil:
			home = *l.Home
		default:
			continue
		}
		if l.Time.Before(killed) {
			orphan = home == dead
		} else if orphan && home != "" && home != dead {
			return true, l.Time.Time
		}
	}
	return orphan, time.Time{}
}

// homesAgain bounds, in rounds that the machine gave, how long the clients of a super peer that is
// killed are without another.
const homesAgain = 12

// crashSuper kills a super peer and waits until its clients have another.
func (g *peerGroup) crashSuper(m *peerProcess, round time.Duration) {
	g.Helper()
	killed := time.Now()
	g.crash(m)
	orphans, last := 0, killed
	for _, c := range g.members {
		orphan, at := c.servedAgain(m.id, killed)
		for orphan && at.IsZero() && time.Since(killed) < settleWithin {
			time.Sleep(round / 4)
			_, at = c.servedAgain(m.id, killed)
		}
		switch {
		case !orphan:
			continue
		case at.IsZero():
			g.Fatalf("%s, a client of %s, which was killed: nobody serves it within %v", c.id, m.id, settleWithin)
		case at.After(last):
			last = at
		}
		orphans++
	}
	given := g.watch.Given(killed, last)
	g.Logf("%s was killed: its %d clients had another super peer after %v, of which the machine gave %v", m.id, orphans, last.Sub(killed), given)
	if given > homesAgain*round {
		g.Errorf("the %d clients of %s, which was killed, had another super peer after %v, want at most %d rounds of %v", orphans, m.id, given, homesAgain, round)
	}
}

// TestSuperPeersOnRealProcesses kills super peers and others with kill -9.
func TestSuperPeersOnRealProcesses(t *testing.T) {
	fulltest.Parallel(t)
	for _, membership := range []superpeer.Membership{superpeer.MembershipFull, superpeer.MembershipCore} {
		t.Run(string(membership), func(t *testing.T) {
			fulltest.Parallel(t)
			killSuperPeers(t, membership)
		})
	}
}

func killSuperPeers(t *testing.T, membership superpeer.Membership) {
	const round = 300 * time.Millisecond
	n := fulltest.Size(7, 62)
	g := &peerGroup{T: t, watch: stalltest.Start(t), dir: stalltest.Dir(t)}
	secret := filepath.Join(g.dir, "secret")
	code, line := runCommand(t, "secret", "new")
	if code != cli.Done || os.WriteFile(secret, []byte(line), 0o600) != nil {
		t.Fatal("no secret could be made")
	}
	g.flags = []string{"--fraction", "0.25", "--capacity", "8", "--round", round.String(), "--membership", string(membership),
		"--secret-file", secret, "--on-super", "touch super", "--on-client", "touch client"}
	for range n {
		g.start()
	}
	wanted := func() int { return (len(g.members) + 3) / 4 }
	g.await("settle", wanted())
	for _, file := range []string{"super", "client"} {
		if _, err := os.Stat(filepath.Join(g.dir, file)); err != nil {
			t.Errorf("no hook has run: %v", err)
		}
	}
	g.checkCommands(wanted())

	for range fulltest.Size(1, 2) {
		supers := g.await("stay settled", wanted())
		g.crashSuper(supers[len(supers)-1], round)
	}
	g.await("replace a super peer that was killed", wanted())
	for range max(1, n/10) {
		g.crash(g.members[len(g.members)-1])
		g.start()
	}
	g.await("go on when some are killed and others come", wanted())

	for before := wanted(); wanted() == before; {
		g.leave(g.members[1])
	}
	g.await("have one super peer less when so many have left", wanted())
}

// leave ends a process by SIGTERM.
func (g *peerGroup) leave(m *peerProcess) {
	g.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.Fatal(err)
	}
	<-m.ended
	if code := m.cmd.ProcessState.ExitCode(); code != cli.Done {
		g.Errorf("SIGTERM ends with exit code %d: %s", code, m.stderr.last())
	}
	g.crash(m) // it is gone already
}

// checkCommands asks a super peer in all the ways there are. One that has ceased to be a super
// peer meanwhile says so: then the next is asked.
func (g *peerGroup) checkCommands(wanted int) {
	g.Helper()
	var wrong error
	for until := time.Now().Add(settleWithin); time.Now().Before(until); {
		if wrong = g.commandsOf(g.await("stay settled", wanted)[0]); wrong == nil {
			return
		}
	}
	g.Error(wrong)
}

// commandsOf is what a super peer answers that it should not.
func (g *peerGroup) commandsOf(m *peerProcess) error {
	code, out := runCommand(g.T, "superpeer", "status", "--json", "--http", m.http)
	var s map[string]any
	var asked struct {
		Requirements map[string]superpeer.Requirement
	}
	if err := errors.Join(json.Unmarshal([]byte(out), &s), json.Unmarshal([]byte(out), &asked)); code != cli.Done || err != nil {
		return fmt.Errorf("status: exit %d, %v, %s", code, err, out)
	}
	for _, key := range []string{"super_peer", "home", "clients", "capacity", "wanted", "live", "rtt_ms", "requirements"} {
		if _, ok := s[key]; !ok {
			return fmt.Errorf("status --json has no %q", key)
		}
	}
	for _, r := range []string{"1_low_latency", "2_spread_evenly", "3_predefined_share", "4_bounded_load"} {
		if asked.Requirements[r].Says == "" {
			return fmt.Errorf("status --json says nothing of %s:\n%s", r, out)
		}
	}
	if code, out = runCommand(g.T, "superpeer", "status", "--http", m.http); code != cli.Done || !strings.Contains(out, "yes, token") {
		return fmt.Errorf("status: exit %d, %s", code, out)
	}
	code, out = runCommand(g.T, "superpeer", "map", "--http", m.http)
	if err := wellFormed(out); code != cli.Done || err != nil || !strings.Contains(out, m.id) {
		return fmt.Errorf("map: exit %d, %v, %s", code, err, out)
	}
	for path, want := range map[string]string{
		"/metrics": "batuta_superpeer_is_super_peer 1", "/super": m.id, "/healthz": "true", "/readyz": "home",
		"/v1/clients": "[", "/v1/lookup?key=x": "64 bits", "/nowhere": "no GET /nowhere",
	} {
		r, err := http.Get("http://" + m.http + path)
		if err != nil {
			return err
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if !bytes.Contains(body, []byte(want)) {
			return fmt.Errorf("%s says %s, want %q", path, body, want)
		}
	}
	request, _ := http.NewRequest(http.MethodGet, "http://"+m.http+"/v1/status", nil)
	request.Host = "evil.example"
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMisdirectedRequest {
		return fmt.Errorf("a request for another host is answered: %s", r.Status)
	}
	return nil
}

func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// runCommand runs a command line here and gives its exit code and output.
func runCommand(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, cli.Env{Stdout: &out, Stderr: &errs, Lookup: func(string) (string, bool) { return "", false }})
	return code, out.String() + errs.String()
}

// TestASuperPeersAgentAnswersBeforeItHasJoined: a check of the process must see that it lives, and
// that it is not ready yet.
func TestASuperPeersAgentAnswersBeforeItHasJoined(t *testing.T) {
	t.Parallel()
	ports, err := freeport.Find(4)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) string { return fmt.Sprint("127.0.0.1:", ports[i]) }
	agent := func(flags ...string) *process {
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p, err := startProcess(executable, stalltest.Dir(t), append([]string{"batuta", "superpeer", "agent", "--events", "off"}, flags...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.kill(); p.cmd.Wait() })
		return p
	}
	answers := func(server int, path string, want int) {
		t.Helper()
		got := 0
		for until := time.Now().Add(settleWithin); got != want && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if r, err := http.Get("http://" + at(server) + path); err == nil {
				got = r.StatusCode
				r.Body.Close()
			}
		}
		if got != want {
			t.Errorf("GET %s answers %d, want %d", path, got, want)
		}
	}
	agent("--listen", "127.0.0.1:0", "--http", at(0), "--health-http", at(1), "--join", at(2))
	for _, server := range []int{0, 1} {
		answers(server, "/healthz", http.StatusOK)
		answers(server, "/readyz", http.StatusServiceUnavailable)
		answers(server, "/super", http.StatusServiceUnavailable)
	}
	answers(0, "/v1/status", http.StatusServiceUnavailable)
	answers(0, "/metrics", http.StatusOK)
	if code, out := runCommand(t, "superpeer", "status", "--agent", at(0)); code == cli.Done || !strings.Contains(out, "has not joined its overlay yet") {
		t.Errorf("status: exit %d, %s", code, out)
	}
	agent("--listen", at(2), "--http", "off")
	for _, server := range []int{0, 1} {
		answers(server, "/readyz", http.StatusOK)
	}
}

// TestAnAgentOfTheOtherKindIsNamed asks a member's agent for super peers, and the other way round:
// both have a /v1/status.
func TestAnAgentOfTheOtherKindIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		server http.Handler
		args   string
		want   string
	}{
		{answering(`{"id":"1","token":"1:1"}`, api.MemberAgent), "superpeer status", "no super peer's agent; for the agent of a member try: batuta status"},
		{answering(`{}`, api.MemberAgent), "superpeer watch", "no super peer's agent"},
		{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(api.AgentHeader, api.MemberAgent)
			http.Error(w, `{"error":"no /v1/map here"}`, 404)
		}), "superpeer map", "no super peer's agent"},
		{http.NotFoundHandler(), "superpeer status", "is it batuta's HTTP address?"},
		{answering(`{"id":"a"}`, api.SuperPeerAgent), "status", "is a super peer's agent; try: batuta superpeer status"},
		{answering(`[]`, api.SuperPeerAgent), "members", "is a super peer's agent"},
		{answering(`{}`, api.SuperPeerAgent), "watch", "is a super peer's agent"},
	} {
		server := httptest.NewServer(tt.server)
		code, out := runCommand(t, append(strings.Fields(tt.args), "--agent", server.Listener.Addr().String())...)
		if code == cli.Done || !strings.Contains(out, tt.want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want one line with %q", tt.args, code, out, tt.want)
		}
		server.Close()
	}
	earlier := httptest.NewServer(answering(`{"id":"a"}`, ""))
	defer earlier.Close()
	if code, out := runCommand(t, "superpeer", "status", "--agent", earlier.Listener.Addr().String()); code != cli.Done {
		t.Errorf("a super peer of an earlier version: exit %d, %s", code, out)
	}
}

// TestAnOddAnswerEndsNoCommandByAPanic asks agents that leave out what a command shows, or answer with something else.
func TestAnOddAnswerEndsNoCommandByAPanic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args, kind, body string
		code             int
		want             string
	}{
		{"status", api.MemberAgent, `{"id":"a","successor":"b"}`, cli.Done, "passes on to b, no election"},
		{"explain --lab " + t.TempDir() + "/x", api.MemberAgent, `null`, cli.Done, "has the records of"},
		{"superpeer status", api.SuperPeerAgent, `{"id":"a","super_peer":true,"clients":3}`, cli.Done, "yes, serves 3"},
		{"superpeer watch", api.SuperPeerAgent, "data: {\"event\":\"super\",\"id\":\"a\"}\n\n", cli.NoAgent, "  super\n"},
		{"superpeer watch", api.SuperPeerAgent, "data: {\"event\":\"ordinary\",\"id\":\"a\"}\n\n", cli.NoAgent, "  ordinary\n"},
		{"watch --json", api.MemberAgent, "data: \x1b]0;title\x07\n\n", cli.NoAgent, "event is not batuta's"},
		{"elections", api.MemberAgent, `{}`, cli.NoAgent, "answer is not batuta's"},
		{"leader", api.MemberAgent, `[]`, cli.NoAgent, "answer is not batuta's"},
		{"explain --trace", api.MemberAgent, `{}`, cli.NoAgent, "answer is not batuta's"},
	} {
		server := httptest.NewServer(answering(tt.body, tt.kind))
		code, out := runCommand(t, append(strings.Fields(tt.args), "--agent", server.Listener.Addr().String())...)
		if code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s of %s: exit %d, %q, want %d and %q", tt.args, tt.body, code, out, tt.code, tt.want)
		}
		server.Close()
	}
}

// answering answers everything with body, as that kind of agent; "": as one of an earlier version.
func answering(body, kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set(api.AgentHeader, kind)
		}
		io.WriteString(w, body)
	})
}

// An operator that rotates a secret reads in the log that it is in use.
func TestASuperPeersAgentLogsThatItsFilesAreReloaded(t *testing.T) {
	file, write := fileOf(t, "secret")
	first, next := security.NewSecret(), security.NewSecret()
	write(first + "\n")
	a := startCommand(t, "superpeer", "agent", "--listen", "127.0.0.1:0", "--http", "off", "--secret-file", file)
	at, _, _ := strings.Cut(said(t, bufio.NewScanner(a.stdout), "listens on"), " ")
	if _, err := time.Parse(time.RFC3339Nano, at); err != nil || !strings.HasSuffix(at, "Z") {
		t.Errorf("no terminal reads it, and an event has no date in UTC: %q", at)
	}
	stderr := bufio.NewScanner(a.stderr)
	for _, step := range []struct{ file, want string }{
		{"short\n", "reload failed"},
		{first + "\n" + next + "\n", "files are reloaded"},
	} {
		write(step.file)
		if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		said(t, stderr, step.want)
	}
}

func TestASuperPeersAgentRefusesWhatCannotWork(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, args := range map[string]string{
		"20 super peers × capacity 3 = 60 places for 980 others": "--capacity 3",
		"fraction 2: want 1e-07 to 1":                            "--fraction 2",
		"--fraction 0":                                           "--fraction 0",
		`method "luck"`:                                          "--method luck",
		"give a secret file":                                     "--listen 10.1.2.3:7600",
		`join "x"`:                                               "--join x",
		"--round 0s":                                             "--round 0",
		"round 1ns":                                              "--round 1ns",
		"no such file":                                           "--http 127.0.0.1:0 --secret-file /does/not/exist",
		"--on-super":                                             "--on-super /does/not/exist",
		"--events":                                               "--events loud",
		"--http-token-file":                                      "--http-token-file /does/not/exist",
		"other machines reach it; gi":                            "--http 0.0.0.0:0",
		`takes no argument, and got "surplus"`:                   "surplus",
		"address already in use; give another address": "--http off --listen " + taken.Addr().String(),
	} {
		code, out := runCommand(t, append([]string{"superpeer", "agent"}, strings.Fields(args)...)...)
		if code != cli.Usage || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit %d, %q; want exit 2 and one line with %q", args, code, out, want)
		}
	}
}

func TestSuperPeersLiveComparesWithTheLaboratory(t *testing.T) {
	t.Parallel()
	code, out := runCommand(t, "bench", "superpeers", "--nodes", "12", "--fraction", "0.25", "--capacity", "6", "--rounds", "10", "--round", "100ms", "--no-progress", "--json")
	var r struct {
		Nodes int      `json:"nodes"`
		Lab   *float64 `json:"lab_mean_latency"`
		Over  *int     `json:"cap_violations"`
	}
	if err := json.Unmarshal([]byte(out), &r); code != cli.Done || err != nil || r.Nodes != 12 || r.Lab == nil || r.Over == nil || *r.Over != 0 {
		t.Errorf("exit %d, %v, %s", code, err, out)
	}
	for args, want := range map[string]string{
		"--nodes 1":                    "want 2 to",
		"--fraction 0":                 "--fraction 0",
		"--kill-at -1":                 "--kill-at -1",
		"--kill-supers 1":              "goes with --kill-at",
		"--kill-at 3 --kill-supers -1": "--kill-supers -1",
	} {
		if code, out := runCommand(t, append(strings.Fields("bench superpeers --rounds 4 --round 50ms"), strings.Fields(args)...)...); code != cli.Usage || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %s, want %q", args, code, out, want)
		}
	}
}
