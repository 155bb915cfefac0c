package examples

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
)

// clouds has the scripts of examples/floating-address, and the file of exchanges for each.
var clouds = []struct{ exchanges, script string }{
	{"aws-elastic", "aws.sh"},
	{"aws-private", "aws.sh"},
	{"digitalocean", "digitalocean.sh"},
	{"google", "google.sh"},
	{"hetzner", "hetzner.sh"},
}

// cloud replays the exchanges of a file. The address moves as its requests have it.
type cloud struct {
	t         *testing.T
	script    string
	address   []string // the script's arguments
	machines  []string // the first is none of the cluster
	exchanges []exchange
	server    *httptest.Server

	mu      sync.Mutex
	holder  string
	moving  bool     // the next reading does not show the move yet
	changes int      // of where the address is
	taken   []string // the machines that it moved to, in order
	faults  []string // the errors that answer the next requests; "silence" is no answer
	denied  bool     // the address may not be moved
	leads   func(machine string) error
}

// exchange is a request and its answer, both templates.
type exchange struct {
	name            string
	request, answer *template.Template
}

// facts are what the templates show of the cloud, for a machine.
type facts struct {
	Machine, Zone, Name, Holder, Print string
	Holds, Moving                      bool
}

func newCloud(t *testing.T, exchanges, script string) *cloud {
	t.Helper()
	for _, program := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("BATUTA_TEST_NETNS") != "" {
				t.Fatal(program + " is not installed, and CI needs it")
			}
			t.Skip(program + " is not installed")
		}
	}
	text, err := os.ReadFile(filepath.Join("floating-address", exchanges+".http"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{t: t, leads: func(string) error { return nil }}
	if c.script, err = filepath.Abs(filepath.Join("floating-address", script)); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "\n=== ")
	for line := range strings.Lines(head) {
		if list, ok := strings.CutPrefix(line, "address: "); ok {
			c.address = strings.Fields(list)
		}
		if list, ok := strings.CutPrefix(line, "machines: "); ok {
			c.machines = strings.Fields(list)
		}
	}
	for part := range strings.SplitSeq(rest, "\n=== ") {
		name, both, _ := strings.Cut(part, "\n")
		request, answer, ok := strings.Cut(both, "\nHTTP/1.1 ")
		if !ok {
			t.Fatalf("%s has no answer to %q", exchanges, name)
		}
		c.exchanges = append(c.exchanges, exchange{name,
			template.Must(template.New(name).Parse(strings.TrimSpace(request))), template.Must(template.New(name).Parse(strings.TrimSpace(answer)))})
	}
	if len(c.address) == 0 || len(c.machines) != 4 || len(c.exchanges) < 6 {
		t.Fatalf("%s: address %q, machines %q, %d exchanges", exchanges, c.address, c.machines, len(c.exchanges))
	}
	c.holder = c.machines[0]
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

func (c *cloud) facts(machine string) facts {
	zone, name, _ := strings.Cut(machine, "/")
	return facts{machine, zone, name, c.holder, fmt.Sprintf("fingerprint-%d", c.changes), machine == c.holder, c.moving}
}

// rendered is a template with what holds for a machine.
func (c *cloud) rendered(tmpl *template.Template, machine string) string {
	var text bytes.Buffer
	if err := tmpl.Execute(&text, c.facts(machine)); err != nil {
		c.t.Error(err)
	}
	return text.String()
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	machines, path := c.machines, ""
	if p, ok := strings.CutPrefix(r.URL.Path, "/api/"); ok {
		path = p
		if len(c.faults) > 0 {
			fault := c.faults[0]
			c.faults = c.faults[1:]
			c.fail(w, r, fault)
			return
		}
	} else if number, p, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/metadata/"), "/"); ok {
		i, _ := strconv.Atoi(number)
		machines, path = c.machines[i:i+1], p
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	var nearly []string
	for _, e := range c.exchanges {
		for _, machine := range machines {
			want := c.rendered(e.request, machine)
			differs := compare(r, path, strings.HasPrefix(r.URL.Path, "/api/"), string(body), want)
			switch {
			case differs == "":
				c.reply(w, e, machine)
				return
			case strings.HasPrefix(want, r.Method) && strings.Contains(want, path):
				nearly = append(nearly, e.name+": "+differs)
			}
		}
	}
	c.t.Errorf("no exchange has %s %s %q; it differs from %q", r.Method, r.URL, body, nearly)
	http.Error(w, "no such exchange", http.StatusBadRequest)
}

// compare gives what a request has unlike the one that is wanted, "" for nothing.
func compare(r *http.Request, path string, api bool, body, want string) string {
	head, wantedBody, _ := strings.Cut(want, "\n\n")
	line, headers, _ := strings.Cut(head, "\n")
	method, url, _ := strings.Cut(line, " ")
	scheme, rest, _ := strings.Cut(url, "://")
	_, wantedPath, _ := strings.Cut(rest, "/")
	if method != r.Method || wantedPath != path || api != (scheme == "https") {
		return "another request"
	}
	for h := range strings.Lines(headers) {
		key, value, _ := strings.Cut(strings.TrimSpace(h), ": ")
		got := r.Header.Get(key)
		if value == "AWS4-HMAC-SHA256" {
			if err := signed(r, body); err != nil {
				return err.Error()
			}
		} else if got != value {
			return fmt.Sprintf("%s is %q, want %q", key, got, value)
		}
	}
	if body != strings.TrimSpace(wantedBody) {
		return fmt.Sprintf("the body is %q, want %q", body, wantedBody)
	}
	return ""
}

// signed checks a signature of AWS, version 4, by a calculation of its own.
func signed(r *http.Request, body string) error {
	const secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	fields := map[string]string{}
	for _, f := range strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[key] = value
	}
	access, scope, _ := strings.Cut(fields["Credential"], "/")
	at := r.Header.Get("X-Amz-Date")
	if access != "ASIAIOSFODNN7EXAMPLE" || len(at) != 16 || scope != at[:8]+"/eu-central-1/ec2/aws4_request" {
		return fmt.Errorf("the credential is %q at %q", fields["Credential"], at)
	}
	names := strings.Split(fields["SignedHeaders"], ";")
	for _, needed := range []string{"host", "x-amz-date", "x-amz-security-token"} {
		if !slices.Contains(names, needed) {
			return fmt.Errorf("%s is not signed", needed)
		}
	}
	canonical := r.Method + "\n" + r.URL.Path + "\n" + r.URL.RawQuery + "\n"
	for _, name := range names {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		canonical += name + ":" + value + "\n"
	}
	hash := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }
	canonical += "\n" + fields["SignedHeaders"] + "\n" + hash(body)
	key := []byte("AWS4" + secret)
	sign := func(text string) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		key = mac.Sum(nil)
	}
	for part := range strings.SplitSeq(scope, "/") {
		sign(part)
	}
	sign("AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + hash(canonical))
	if want := hex.EncodeToString(key); fields["Signature"] != want {
		return fmt.Errorf("the signature is %s, want %s of %q", fields["Signature"], want, canonical)
	}
	return nil
}

// reply answers by an exchange, after what it does to the address.
func (c *cloud) reply(w http.ResponseWriter, e exchange, machine string) {
	answer := c.rendered(e.answer, machine)
	if c.denied && (e.name == "take" || e.name == "release") {
		c.fail(w, nil, "refused")
		return
	}
	switch e.name {
	case "take":
		if strings.HasSuffix(c.script, "google.sh") && c.holder != "" {
			c.t.Errorf("%s takes the address while %s has it", machine, c.holder)
		}
		if err := c.leads(machine); err != nil {
			c.t.Errorf("%s takes the address: %v", machine, err)
		}
		c.holder, c.moving = machine, true
		c.changes++
		c.taken = append(c.taken, machine)
	case "release":
		if machine != c.holder {
			c.t.Errorf("%s has to release the address, which %q has", machine, c.holder)
		}
		c.holder = ""
		c.changes++
	default:
		if strings.Contains(e.answer.Root.String(), ".Moving") {
			c.moving = false
		}
	}
	write(w, answer)
}

// write sends an answer: status, headers and body.
func write(w http.ResponseWriter, answer string) {
	head, body, _ := strings.Cut(answer, "\n\n")
	line, headers, _ := strings.Cut(head, "\n")
	status, _ := strconv.Atoi(line[:3])
	for h := range strings.Lines(headers) {
		key, value, _ := strings.Cut(strings.TrimSpace(h), ": ")
		w.Header().Set(key, value)
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// fail answers by an error, or not at all.
func (c *cloud) fail(w http.ResponseWriter, r *http.Request, fault string) {
	if fault == "silence" {
		c.mu.Unlock()
		<-r.Context().Done() // the client ends the request
		c.mu.Lock()
		return
	}
	i := slices.IndexFunc(c.exchanges, func(e exchange) bool { return e.name == "error "+fault })
	write(w, c.rendered(c.exchanges[i].answer, c.machines[0]))
}

// state is the machine that has the address, and the machines that it moved to.
func (c *cloud) state() (holder string, taken []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holder, slices.Clone(c.taken)
}

// await waits until the address is at one of machines, and gives its index in c.machines.
func (c *cloud) await(machines ...string) int {
	c.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		holder, taken := c.state()
		if slices.Contains(machines, holder) {
			return slices.Index(c.machines, holder)
		}
		if time.Now().After(until) {
			c.t.Fatalf("the address is at %q after moves to %q, want one of %q", holder, taken, machines)
		}
	}
}

// hook is the script's command on machine i, with the settings of its environment.
func (c *cloud) hook(i int, settings ...string) *exec.Cmd {
	cmd := exec.Command(c.script, c.address...)
	cmd.Env = append(c.environment(i), settings...)
	return cmd
}

func (c *cloud) environment(i int) []string {
	token := filepath.Join(c.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-token\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return append(os.Environ(), "FLOATING_API="+c.server.URL+"/api", fmt.Sprintf("FLOATING_METADATA=%s/metadata/%d", c.server.URL, i),
		"FLOATING_PAUSE=0.1", "HCLOUD_TOKEN_FILE="+token, "DIGITALOCEAN_TOKEN_FILE="+token, "http_proxy=http://127.0.0.1:1", "no_proxy=127.0.0.1")
}

// A hook moves the address once, though the cloud is busy, broken or silent at first, and reports it.
// An address that is here stays untouched.
func TestFloatingAddressMoves(t *testing.T) {
	t.Parallel()
	for _, each := range clouds {
		for _, faults := range [][]string{nil, {"broken", "busy"}, {"silence"}} {
			if len(faults) == 1 && each.exchanges != "hetzner" {
				continue // what they share handles it, and it takes long
			}
			t.Run(each.exchanges+" "+strings.Join(faults, " "), func(t *testing.T) {
				t.Parallel()
				c := newCloud(t, each.exchanges, each.script)
				c.faults = faults
				out, err := c.hook(2, "FLOATING_TIMEOUT=25").CombinedOutput()
				if holder, taken := c.state(); err != nil || holder != c.machines[2] || len(taken) != 1 {
					t.Errorf("%v: the address is at %q after moves to %q\n%s", err, holder, taken, out)
				}
				if want := c.machines[2] + " now\n"; !strings.HasSuffix(string(out), want) || strings.Count(string(out), "\n") != 1 {
					t.Errorf("it printed %q, want a line that ends with %q", out, want)
				}
				c.mu.Lock()
				c.moving = false
				c.mu.Unlock()
				out, err = c.hook(2).CombinedOutput()
				if _, taken := c.state(); err != nil || len(taken) != 1 || len(out) > 0 {
					t.Errorf("again: %v, moves to %q, output %q", err, taken, out)
				}
			})
		}
	}
}

// An address that no machine has, as after a hook that was killed in between, goes to the leader.
func TestFloatingAddressOfNoMachine(t *testing.T) {
	t.Parallel()
	for _, each := range clouds {
		t.Run(each.exchanges, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, each.exchanges, each.script)
			c.change(func() { c.holder = "" })
			if each.exchanges == "google" { // it asks about each machine: the first one was deleted
				c.faults = []string{"absent"}
			}
			out, err := c.hook(1, "FLOATING_TIMEOUT=25").CombinedOutput()
			if holder, taken := c.state(); err != nil || holder != c.machines[1] || len(taken) != 1 {
				t.Errorf("%v: the address is at %q after moves to %q\n%s", err, holder, taken, out)
			}
		})
	}
}

// A hook that does not succeed prints what has failed, where and why, before its time is over.
func TestFloatingAddressReportsFailures(t *testing.T) {
	t.Parallel()
	for _, each := range clouds {
		for fault, want := range map[string][]string{
			"refused": {" was answered by 40", "; check "},
			"busy":    {" was answered by ", "; gave up after 5 s"},
			"silence": {" failed: curl: ", "; gave up after 5 s"},
		} {
			if fault != "refused" && each.exchanges != "hetzner" {
				continue // what they share handles it, and it takes long
			}
			t.Run(each.exchanges+" "+fault, func(t *testing.T) {
				t.Parallel()
				c := newCloud(t, each.exchanges, each.script)
				c.faults = slices.Repeat([]string{fault}, 100)
				limit := "FLOATING_TIMEOUT=5"
				if fault == "refused" {
					limit = "FLOATING_TIMEOUT=25" // the refusal ends the hook
				}
				out, err := c.hook(3, limit).CombinedOutput()
				if err == nil || strings.Count(string(out), "\n") != 1 {
					t.Errorf("%v, printed %q, want a failure and one line", err, out)
				}
				for _, w := range append(want, each.script, " has not moved to ", " "+c.machines[3]+": ", c.server.URL+"/api") {
					if !strings.Contains(string(out), w) {
						t.Errorf("it printed %q, want %q in it", out, w)
					}
				}
			})
		}
	}
}

// ticking has programs that take no time but that of the file now, in hundredths of a second: curl waits
// as long as it may for the API, which drops packets, is silent, or is busy and then silent.
const ticking = `#!/bin/sh
read -r now <"$CLOCK/now"
later() { echo $((now + $1)) >"$CLOCK/now"; }
hundredths() { case $1 in *.?) echo "${1%.?}${1#*.}0" ;; *) echo "${1}00" ;; esac }
case ${0##*/} in
date) echo $((now / 100)) ;;
sleep) later "$(hundredths "$1")" ;;
curl)
	while [ $# -gt 1 ]; do
		[ "$1" != -m ] || most=$(hundredths "$2")
		shift
	done
	case $1 in */metadata/*) later "$METADATA" && printf '43\n200' && exit ;; esac
	[ "$now" -lt "$SILENCE" ] || API=silent
	case $API in
	busy) later 7 && printf '{}\n429' && exit ;;
	dropping) [ "$most" -le 200 ] || most=200 ;;
	esac
	later "$most" && echo 'curl: (28) timed out' && exit 28
	;;
esac
`

// With the default times a hook prints the reason of its last try before --hook-timeout (10 s) kills it,
// whatever part of a second its start is at. Its clock is one of the test.
func TestFloatingAddressReportsInTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, program := range []string{"date", "sleep", "curl"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(ticking), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := newCloud(t, "hetzner", "hetzner.sh")
	for _, each := range []struct {
		api              string
		metadata, silent int // the time of an answer, and when silence begins
		want             string
	}{
		{"dropping", 2, 1000, "failed: curl: (28) timed out; "},
		{"silent", 2, 1000, "failed: curl: (28) timed out; "},
		{"busy", 2, 1000, "was answered by 429: {}; "},
		{"busy", 40, 1000, "was answered by 429: {}; "},
		{"busy", 2, 800, "; "},
		{"busy", 40, 800, "; "},
	} {
		api, want := fmt.Sprintf("%s, metadata %d, silence %d", each.api, each.metadata, each.silent), each.want
		for start := 100; start < 200; start += 19 {
			now := filepath.Join(dir, "now")
			if err := os.WriteFile(now, fmt.Appendln(nil, start), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := c.hook(3, "PATH="+dir+":"+os.Getenv("PATH"), "CLOCK="+dir, "API="+each.api,
				fmt.Sprintf("METADATA=%d", each.metadata), fmt.Sprintf("SILENCE=%d", start+each.silent), "FLOATING_PAUSE=1").CombinedOutput()
			text, readErr := os.ReadFile(now)
			end, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			if took := end - start; err == nil || readErr != nil || took < 700 || took > 950 {
				t.Errorf("%s at %d: %v, %v after %d hundredths of a second, want a failure after 700 to 950", api, start, err, readErr, took)
			}
			if !strings.Contains(string(out), "/v1/floating_ips/4711 ") || !strings.HasSuffix(string(out), want+"gave up after 9 s\n") {
				t.Errorf("%s at %d: it printed %q, want %q", api, start, out, want)
			}
		}
	}
}

// With hold a script takes an address back that a late request of an earlier leader has moved away.
// While the address is here, an API that does not answer changes nothing. A script that knows the
// address elsewhere, and cannot move it, ends: batuta then hands leadership over.
func TestFloatingAddressIsHeld(t *testing.T) {
	t.Parallel()
	for _, each := range clouds {
		t.Run(each.exchanges, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, each.exchanges, each.script)
			hook := c.hook(1, "FLOATING_TIMEOUT=25", "FLOATING_CHECK=0.2")
			hook.Args = slices.Insert(hook.Args, 1, "hold")
			out, err := hook.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := hook.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { hook.Process.Kill() })
			printed := bufio.NewScanner(out)
			prints := func(words ...string) {
				t.Helper()
				if !printed.Scan() {
					t.Fatalf("it ended, and did not print %q", words)
				}
				for _, w := range append(words, each.script+": ") {
					if !strings.Contains(printed.Text(), w) {
						t.Fatalf("it printed %q, want %q", printed.Text(), words)
					}
				}
			}
			prints(" is at ", c.machines[1]+" now")
			c.change(func() { c.holder = c.machines[0] })
			prints(" is at ", c.machines[1]+" now")
			if each.exchanges != "aws-private" { // it reads at the metadata service
				c.change(func() { c.faults = []string{"refused"} })
				prints(" may no longer be at ", c.machines[1]+": ", " was answered by 40", "; check ")
			}
			c.change(func() { c.holder, c.denied = c.machines[0], true })
			prints(" is no longer at ", c.machines[1]+": ", " was answered by 40", "; check ")
			if printed.Scan() {
				t.Errorf("it goes on: %q", printed.Text())
			}
			if err := hook.Wait(); err == nil || hook.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended by %v, want exit code 1", err)
			}
		})
	}
}

// change does something to the cloud from outside.
func (c *cloud) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.changes++
}

// In a cluster of three the address is at the leader, and follows it when the leader is killed: no
// machine asks for it before it leads, nor twice. As a hook, and as the command of the leader.
func TestFloatingAddressFollowsTheLeader(t *testing.T) {
	t.Parallel()
	program := buildtest.Program(t, "../cmd/batuta")
	list := addresses(t, 6*len(clouds)+6) // of three members, and of their APIs
	for i, each := range clouds {
		t.Run(each.exchanges, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, each.exchanges, each.script)
			c.follows(program, list[6*i:6*i+6], func(common []string) []string {
				args := append([]string{"run"}, common...)
				return append(append(args, "--", c.script, "hold"), c.address...)
			})
		})
	}
	t.Run("as a hook", func(t *testing.T) {
		t.Parallel()
		c := newCloud(t, "hetzner", "hetzner.sh")
		c.follows(program, list[6*len(clouds):], func(common []string) []string {
			return append([]string{"agent", "--on-lead", strings.Join(append([]string{c.script}, c.address...), " ")}, common...)
		})
	})
}

// follows starts a member of a cluster on each of three machines, and kills the leader. list has the
// addresses of the members, and then of their APIs.
func (c *cloud) follows(program string, list []string, args func(common []string) []string) {
	listen := func(i int) string { return list[i-1] }
	asked := func(i int) string { return list[i+2] }
	c.leads = func(machine string) error {
		url := "http://" + asked(slices.Index(c.machines, machine)) + "/leader"
		answer, err := http.Get(url)
		for until := time.Now().Add(patience); err != nil; answer, err = http.Get(url) {
			if time.Now().After(until) { // the API begins a moment after the hook
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("its agent answers by %s", answer.Status)
		}
		return nil
	}
	cluster := []*exec.Cmd{nil} // machine 0 is none of it
	for i := 1; i <= 3; i++ {
		common := []string{"--algorithm", "quorum", "--data-dir", c.t.TempDir(), "--no-preempt", "--t-max", "500ms", "--t-process", "1s",
			"--id", strconv.Itoa(i), "--listen", listen(i), "--http", asked(i)}
		for j := 1; j <= 3; j++ {
			if j != i {
				common = append(common, "--member", fmt.Sprintf("%d=%s", j, listen(j)))
			}
		}
		cmd := exec.Command(program, args(common)...)
		cmd.Env, cmd.Stderr, cmd.WaitDelay = c.environment(i), c.t.Output(), patience
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		cluster = append(cluster, cmd)
		c.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	c.t.Cleanup(func() { // a guard of a killed member would wait for members that have ended
		for _, cmd := range cluster[1:] {
			cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, cmd := range cluster[1:] {
			late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
			cmd.Wait()
			late.Stop()
		}
	})
	leader := c.await(c.machines[1:]...)
	cluster[leader].Process.Kill()
	c.await(slices.Delete(slices.Clone(c.machines[1:]), leader-1, leader)...)
	if _, taken := c.state(); len(slices.Compact(slices.Clone(taken))) != len(taken) {
		c.t.Errorf("a machine asked twice for an address that it had: %q", taken)
	}
}
