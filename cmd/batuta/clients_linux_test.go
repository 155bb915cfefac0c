package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// interpreter skips a test where a language is not installed, except in CI.
func interpreter(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatal(program + " is not installed, and CI needs it")
		}
		t.Skip(program + " is not installed")
	}
}

// fromPage writes a program of docs/any-language.md into a file: the first in Python, or one after it.
func fromPage(t *testing.T, number int) (file string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/any-language.md")
	if err != nil {
		t.Fatal(err)
	}
	program, _, _ := strings.Cut(strings.Split(string(page), "```python\n")[number+1], "```")
	file = filepath.Join(t.TempDir(), "program.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// clients are programs in Python, Go and JavaScript that hold the election payroll at an agent while a worker runs.
func clients(t *testing.T) map[string][]string {
	t.Helper()
	hold := fromPage(t, 0)
	return map[string][]string{
		"the page's": {"python3", hold, "http://AGENT"},
		"Node":       {"node", "../../clients/node/batuta.mjs", "--agent", "AGENT", "--grace", "0.5", "payroll", "--"},
		"Go":         {buildtest.ProgramOf(t, "../../clients/go", "./internal/hold"), "AGENT"}, // a module of its own,
		"Python":     {"python3", "../../clients/python/batuta.py", "--agent", "AGENT", "--grace", "0.5", "payroll", "--"},
	}
}

// hold runs a client at the agent of a member.
func (c *crew) hold(program []string, at string) {
	c.T.Helper()
	cmd := exec.Command(program[0], strings.Split(strings.ReplaceAll(strings.Join(program[1:], "\n"), "AGENT", c.http[at]), "\n")...)
	cmd.Args = append(append(cmd.Args, "worker"), c.Argv("lock="+filepath.Join(c.T.TempDir(), "..", "alone"), "deaf")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // the client's own ends its worker
		cmd.Wait()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
}

// Programs in other languages lead in turn: each stops its work when its agent is killed or frozen, and before another leads
// when it is asked to. Under a quorum no two work at once.
func TestProgramsInOtherLanguagesLeadInTurn(t *testing.T) {
	t.Parallel()
	for name, program := range clients(t) {
		for _, algorithm := range []string{"bully", "quorum"} {
			t.Run(name+" "+algorithm, func(t *testing.T) {
				t.Parallel()
				interpreter(t, program[0])
				c := newLocks(t, algorithm)
				c.hold(program, "1")
				w := c.next("it begins")
				c.hold(program, "2")
				c.hold(program, "3")
				leads := func() string {
					for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
						out := &strings.Builder{}
						e := silent()
						e.Stdout = out
						for _, at := range []string{"1", "2", "3"} {
							if code := run(t.Context(), []string{"leader", "--election", "payroll", "--agent", c.http[at]}, e); code == cli.Done {
								return strings.TrimSpace(out.String())
							}
						}
						if time.Since(began) > runtest.Patience {
							t.Fatal("no member leads")
						}
					}
				}
				c.signal("1", syscall.SIGKILL)
				<-c.dead["1"]
				c.Dies(w)
				if w = c.Next(); algorithm == "quorum" && !w.Alone {
					t.Error("the agent was killed: two work at once")
				}
				c.start("1")

				to := map[string]string{"1": "2", "2": "3", "3": "2"}[leads()]
				for began := time.Now(); run(t.Context(), []string{"transfer", to, "--election", "payroll", "--agent", c.http[to]}, silent()) != cli.Done; time.Sleep(10 * time.Millisecond) {
					if time.Since(began) > runtest.Patience { // it is refused until that program is a candidate
						t.Fatal("it is never handed over")
					}
				}
				c.Dies(w)
				w = c.next("it was handed over")

				at := leads()
				c.signal(at, syscall.SIGSTOP)
				c.Dies(w)
				if w = c.Next(); algorithm == "quorum" && !w.Alone {
					t.Error("the agent is frozen: two work at once")
				}
				c.signal(at, syscall.SIGCONT)
			})
		}
	}
}

// only is an agent at which a single client leads, unless an answer is set: then it gives that.
func only(t *testing.T) (addr string, answer *atomic.Pointer[func(http.ResponseWriter)]) {
	t.Helper()
	answer = &atomic.Pointer[func(http.ResponseWriter)]{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if given := answer.Load(); given != nil {
			(*given)(w)
			return
		}
		io.WriteString(w, `{"state":"leading","election":"payroll","token":"7:1","valid_ms":30000,"lease_ms":0,"candidacy":"c"}`)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), answer
}

// A client stops its command at each signal that asks it to end. An answer that is cut short counts as none: the command
// stops, and is started again under the next one.
func TestClientsStopTheirCommand(t *testing.T) {
	t.Parallel()
	for name, program := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interpreter(t, program[0])
			f := runtest.NewFactory(t)
			at, answer := only(t)
			words := []string{"deaf", "child"}
			if name == "Go" {
				words = words[:1] // its program kills no group
			}
			start := func() *exec.Cmd {
				argv := strings.Split(strings.ReplaceAll(strings.Join(program, "\n"), "AGENT", at), "\n")
				cmd := exec.Command(argv[0], append(append(argv[1:], "worker"), f.Argv(words...)...)...)
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					cmd.Process.Signal(syscall.SIGTERM)
					cmd.Wait()
				})
				return cmd
			}
			ends := func(cause func()) {
				var workers []*runtest.Worker
				for range words {
					workers = append(workers, f.Next())
				}
				cause()
				for _, w := range workers {
					f.Dies(w)
				}
			}
			for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
				cmd := start()
				ends(func() { cmd.Process.Signal(s) })
				cmd.Wait()
			}
			start()
			for _, give := range []func(http.ResponseWriter){
				func(w http.ResponseWriter) { io.WriteString(w, `{"state":"leading","tok`) },
				func(w http.ResponseWriter) {
					w.Header().Set("Content-Length", "1000")
					io.WriteString(w, `{"state":"lead`)
				},
				func(http.ResponseWriter) {},
			} {
				ends(func() { answer.Store(&give) })
				answer.Store(nil)
			}
			for range words {
				f.Next()
			}
			if name == "the page's" {
				words = words[:1] // a child of the command lives on
				cmd := start()
				ends(func() { cmd.Process.Kill() })
			}
		})
	}
}

// printed is what a program prints. It embeds no Buffer: [io.Copy] would pass Write by.
type printed struct {
	text  bytes.Buffer
	once  sync.Once
	first func() // called before it has anything
}

func (p *printed) Write(b []byte) (int, error) {
	p.once.Do(p.first)
	return p.text.Write(b)
}

// A client reports once what it waits for, and refuses a ttl that no agent takes.
func TestClientsReportWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	dead := "unix:" + filepath.Join(t.TempDir(), "none") // a port that is free now may be taken meanwhile
	for name, program := range clients(t) {
		if name == "the page's" || name == "Go" {
			continue // the page's prints each error, and that of Go is a program of these tests
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interpreter(t, program[0])
			argv := strings.Split(strings.ReplaceAll(strings.Join(program, "\n"), "AGENT", dead), "\n")
			argv = append(argv[:len(argv)-2], "--ttl", "SECONDS", "payroll", "--", "true")
			for ttl, want := range map[string]string{"2": "waiting for an answer of the agent", "0": "ttl is 0", "0.5": "ttl is 0.5", "301": "ttl is 301"} {
				argv[slices.Index(argv, "--ttl")+1] = ttl
				ctx, cancel := context.WithTimeout(t.Context(), runtest.Patience)
				out := &printed{first: func() {
					if ttl == "2" {
						time.AfterFunc(2*time.Second, cancel) // it asks again meanwhile
					}
				}}
				cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
				cmd.Stdout, cmd.Stderr = out, out
				cmd.Run()
				if ended := ctx.Err() == nil; ended == (ttl == "2") || ctx.Err() == context.DeadlineExceeded || strings.Count(out.text.String(), want) != 1 || strings.Count(out.text.String(), "\n") != 1 {
					t.Errorf("--ttl %s: it prints %q, and ends: %v; want once: %s", ttl, out.text.String(), ended, want)
				}
				cancel()
			}
		})
	}
}

// late passes calls on to an agent. The first answer by which a candidacy leads comes when its time has passed. Each time that
// work has reported that it serves, the next answer does not come for a minute.
func late(t *testing.T, agent string) (addr string) {
	t.Helper()
	var led, ready atomic.Bool
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: agent}) }}
	p.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {}
	p.ModifyResponse = func(r *http.Response) error {
		text, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		var a struct {
			State   string
			ValidMS int64 `json:"valid_ms"`
		}
		if json.Unmarshal(text, &a) == nil && a.State == "leading" && led.CompareAndSwap(false, true) {
			time.Sleep(time.Duration(a.ValidMS+100) * time.Millisecond)
		}
		return err
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/ready") {
			ready.Store(true)
		} else if ready.CompareAndSwap(true, false) {
			io.Copy(io.Discard, r.Body) // then the server sees the client leave
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
			}
			return
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// asModule runs a program that imports a client as a module, at the agent of a cluster's leader, and at a [late] one.
func asModule(t *testing.T, want string, env []string, argv ...string) {
	t.Helper()
	t.Parallel()
	interpreter(t, argv[0])
	c := newLocks(t, "bully")
	for began := time.Now(); run(t.Context(), []string{"leader", "--agent", c.http["2"]}, silent()) != cli.Done; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > runtest.Patience {
			t.Fatal("no member leads")
		}
	}
	cmd := exec.CommandContext(t.Context(), argv[0], append(argv[1:], c.http["2"], late(t, c.http["2"]))...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err != nil || string(out) != want {
		t.Errorf("it prints %q, %v; not %q", out, err, want)
	}
}

// As a module the client runs work in a thread, gives its value, and reads events that resume.
func TestThePythonClientIsAModule(t *testing.T) {
	asModule(t, "led 2\nraised 'mine'\nonce\nrefused 409\nleader leader reset\n", []string{"PYTHONPATH=../../clients/python", "PYTHONDONTWRITEBYTECODE=1"}, "python3", "-c", `
import batuta, sys, time
steps = iter(range(10**9, 0, -100))
time.time = lambda: next(steps)  # the clock is set back all the time
agent = batuta.Agent("http://" + sys.argv[1])
def work(lead):
    lead.ready()
    assert not lead.wait(0.2) and lead.left() > 0 and not lead.over()
    return lead.token
print("led", agent.lead("payroll", work, weight=2).split(":")[1])
def fails(lead): raise KeyError("mine")
try: agent.lead("payroll", fails)
except KeyError as e: print("raised", e)
runs = 0
def once(lead):
    global runs
    runs += 1
    assert lead.left() > 0 and runs < 20  # a busy machine may end some leaderships
    lead.ready()  # the next answer does not come: the client must ask again
    return lead.wait(1.5) or "once"  # no answer is valid for so long
print(batuta.Agent(sys.argv[2]).lead("payroll", once))
try: agent.lead("default", work)
except batuta.Refused as e: print("refused", e.code)
first = next(agent.events())
again = next(agent.events(since=first["index"][:-1] + "0"))
print(first["event"], again["event"], next(agent.events(since="other-1"))["event"])
`)
}

// As a module the client runs work, gives its value, stops when it is asked to, and reads events that resume.
func TestTheNodeClientIsAModule(t *testing.T) {
	asModule(t, "led 2\nraised mine\nonce\nrefused 409\nstopped stopped\naborted undefined\nagain 2\nleader leader reset\n", nil, "node", "--input-type=module", "-e", `
import { Agent, Refused } from '../../clients/node/batuta.mjs'
import { strict as assert } from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'
let clock = 2e12
Date.now = () => (clock -= 1e5) // the clock is set back all the time
const agent = new Agent('http://' + process.argv[1])
const work = async (lead) => {
  await lead.ready()
  assert(!(await lead.wait(200)) && lead.left() > 0 && !lead.over() && !lead.signal.aborted)
  return lead.token
}
console.log('led', (await agent.lead('payroll', work, { weight: 2 })).split(':')[1])
await agent.lead('payroll', () => { throw new Error('mine') }).catch((e) => console.log('raised', e.message))
let runs = 0
console.log(await new Agent(process.argv[2]).lead('payroll', async (lead) => {
  assert(lead.left() > 0 && ++runs < 20) // a busy machine may end some leaderships
  await lead.ready() // the next answer does not come: the client must ask again
  return (await lead.wait(1500)) || 'once' // no answer is valid for so long
}))
await agent.lead('default', work).catch((e) => console.log('refused', e instanceof Refused && e.code))
const stop = new AbortController()
console.log('stopped', await agent.lead('payroll', async (lead) => {
  stop.abort()
  await lead.wait(60000)
  return lead.cause
}, { signal: stop.signal }))
const abort = new AbortController()
console.log('aborted', await agent.lead('payroll', async (lead) => {
  abort.abort()
  await sleep(60000, null, { signal: lead.signal })
}, { signal: abort.signal }))
let tokens = 0, mine
const call = agent.call.bind(agent)
agent.call = async (...of) => {
  const answer = await call(...of)
  mine = answer.candidacy ?? mine
  return answer
}
console.log(await agent.lead('payroll', async (lead) => {
  if (++tokens > 1) return 'again'
  await call('DELETE', '/v1/elections/payroll/candidacy?candidacy=' + mine)
  await sleep(60000, null, { signal: lead.signal })
}), tokens)
const first = async (query) => { for await (const e of agent.events(query)) return e }
const e = await first()
console.log(e.event, (await first({ since: e.index.slice(0, -1) + '0' })).event, (await first({ since: 'other-1' })).event)
`)
}

// scripts are the page's script in Python at each of three agents, and the journal that all of them write.
type scripts struct {
	*crew
	program, journal string
	run              map[string]*exec.Cmd
}

func (s *scripts) script(at string) {
	s.T.Helper()
	cmd := exec.Command("python3", s.program, s.http[at], s.journal)
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../clients/python", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	s.run[at] = cmd
}

// kill kills a script, and starts it again.
func (s *scripts) kill(at string) {
	s.run[at].Process.Kill()
	s.run[at].Wait()
	s.script(at)
}

// works awaits that a script works under a token other than before, or any further line where the token may stay.
func (s *scripts) works(before string, same bool) (token string) {
	s.T.Helper()
	had := len(s.lines())
	for began := time.Now(); time.Since(began) < 2*runtest.Patience; time.Sleep(10 * time.Millisecond) {
		if lines := s.lines(); len(lines) > had {
			if token = lines[len(lines)-1]; token != before || same {
				return token
			}
		}
	}
	s.T.Fatalf("after %d lines, the last under %s, no script works", had, before)
	return ""
}

func (s *scripts) lines() []string {
	text, err := os.ReadFile(s.journal)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// The page's script works on one of three machines. Each part is killed in turn, or its agent frozen: another works
// then. Under a quorum the journal shows no line of a token after a line of another that came later.
// BATUTA_TEST_FAULTS is how many faults there are.
func TestAScriptNeverOverlapsUnderAQuorum(t *testing.T) {
	t.Parallel()
	interpreter(t, "python3")
	faults := fulltest.Size(6, 12)
	if n, err := strconv.Atoi(os.Getenv("BATUTA_TEST_FAULTS")); err == nil {
		faults = n
	}
	c := newLocks(t, "quorum")
	s := &scripts{crew: c, program: fromPage(t, 1), journal: filepath.Join(t.TempDir(), "journal"), run: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for _, cmd := range s.run {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	for at := range c.http {
		s.script(at)
	}
	token, moved := s.works("", false), 0
	for i := range faults {
		_, at, _ := strings.Cut(token, ":")
		next := map[string]string{"1": "2", "2": "3", "3": "1"}[at]
		before := token
		switch i % 6 {
		case 0: // the agent of the script that works
			c.signal(at, syscall.SIGKILL)
			<-c.dead[at]
			token = s.works(token, false)
			c.start(at)
		case 1: // the script that works
			s.kill(at)
			token = s.works(token, false)
		case 2: // its agent freezes
			c.signal(at, syscall.SIGSTOP)
			token = s.works(token, false)
			c.signal(at, syscall.SIGCONT)
		case 3: // an agent whose script waits
			c.signal(next, syscall.SIGKILL)
			<-c.dead[next]
			token = s.works(token, true)
			c.start(next)
		case 4: // a script that waits
			s.kill(next)
			token = s.works(token, true)
		case 5: // the script that works, and its agent
			c.signal(at, syscall.SIGKILL)
			<-c.dead[at]
			s.kill(at)
			token = s.works(token, false)
			c.start(at)
		}
		if token != before {
			moved++
		}
	}
	over, last, lines := map[string]bool{}, "", s.lines()
	for i, token := range lines {
		if over[token] {
			t.Errorf("line %d of the journal is of %s, which was over: lines %v", i+1, token, lines[max(i-3, 0):min(i+3, len(lines))])
		}
		if last != token {
			over[last], last = true, token
		}
	}
	t.Logf("%d faults, %d leaderships, %d lines", faults, len(over), len(lines))
	if moved < faults/2 {
		t.Errorf("the work has moved %d times in %d faults", moved, faults)
	}
}

// generated is a program on a client that a generator has made of the description of the API.
type generated struct {
	t     testing.TB
	lines chan string
}

func (c *crew) generated(argv string, at string) *generated {
	c.T.Helper()
	words := append(strings.Fields(argv), "http://"+c.http[at])
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	g := &generated{c.T, make(chan string, 1000)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			g.lines <- lines.Text()
		}
		cmd.Wait()
	}()
	c.T.Cleanup(func() { in.Close() }) // it ends
	return g
}

// prints awaits a line that begins so.
func (g *generated) prints(want string) {
	g.t.Helper()
	select {
	case line := <-g.lines:
		if !strings.HasPrefix(line, want) {
			g.t.Fatalf("it prints %q, not %q", line, want)
		}
	case <-time.After(runtest.Patience):
		g.t.Fatalf("it never prints %q", want)
	}
}

// Clients that others' generators make of openapi.yaml elect, resign, and lose by a frozen and by a killed agent.
// BATUTA_TEST_GENERATED has the command lines of the programs, parted by semicolons: see .ci/run.
func TestGeneratedClients(t *testing.T) {
	programs := strings.Split(os.Getenv("BATUTA_TEST_GENERATED"), ";")
	if programs[0] == "" {
		t.Skip("BATUTA_TEST_GENERATED is not set: .ci/run generates the clients")
	}
	c := newLocks(t, "bully")
	first := c.generated(programs[0], "1")
	first.prints("leading ")
	second := c.generated(programs[len(programs)-1], "2")
	for began := time.Now(); run(t.Context(), []string{"transfer", "2", "--election", "payroll", "--agent", c.http["2"]}, silent()) != cli.Done; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > runtest.Patience { // it is refused until that program is a candidate
			t.Fatal("it is never handed over")
		}
	}
	first.prints("lost resigned")
	second.prints("leading ")
	c.signal("2", syscall.SIGSTOP)
	second.prints("lost no answer")
	first.prints("leading ")
	c.signal("2", syscall.SIGCONT)
	c.signal("1", syscall.SIGKILL)
	first.prints("lost no answer")
	second.prints("leading ")
}
