package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// offWall is what the build adds to batuta: its wall clock is off by the seconds in a file.
const offWall = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	go func() {
		for ; ; time.Sleep(10 * time.Millisecond) {
			text, _ := os.ReadFile(os.Getenv("OFF_WALL"))
			if off, err := strconv.ParseInt(string(text), 10, 64); err == nil {
				time.Off.Store(off)
			}
		}
	}()
}
`

// buildOffWall builds batuta with a package time that lets the test set the wall clock. The monotonic clock does not change.
func buildOffWall(t *testing.T) (program string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	here, err2 := os.Getwd()
	source := filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
	text, err3 := os.ReadFile(source)
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	const reads = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {"
	if strings.Count(string(text), reads) != 1 {
		t.Fatalf("time.Now of this Go differs: have %s and this test agree", source)
	}
	off := strings.Replace(string(text), reads, strings.Replace(reads, "\n", "\n	sec += Off.Load()\n", 1), 1)
	off = strings.Replace(off, "import (\n", "import (\n	\"sync/atomic\"\n", 1) + "\nvar Off atomic.Int64\n"
	dir := t.TempDir()
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(dir, "time.go"), filepath.Join(here, "offwall.go"): filepath.Join(dir, "offwall.go")}})
	for name, text := range map[string]string{"time.go": off, "offwall.go": offWall, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(dir, "batuta")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The wall clock of a real agent is set back and ahead by hours. Leases and streams end by their bounds, no sooner and no later.
// A step back ends no leadership. A step ahead, as after a pause of a virtual machine, ends it once.
func TestCandidaciesWhileTheWallClockIsSet(t *testing.T) {
	if !fulltest.Enabled() {
		t.Skip("it builds the standard library: BATUTA_TEST_FULL=1")
	}
	file := filepath.Join(t.TempDir(), "off")
	agent := exec.Command(buildOffWall(t), "agent", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--heartbeat", "500ms",
		"--t-max", "3s", "--t-process", "6s", "--log-level", "error", "--events", "json") // no stall of this machine is as long
	agent.Env = append(os.Environ(), "OFF_WALL="+file)
	agent.Stderr, agent.SysProcAttr = os.Stderr, hooks.ChildAttributes()
	events, err := agent.StdoutPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Process.Kill(); agent.Wait() })
	var ready struct{ HTTP string }
	first, err := bufio.NewReader(events).ReadBytes('\n')
	if err != nil || json.Unmarshal(first, &ready) != nil || ready.HTTP == "" {
		t.Fatalf("%s: %v", first, err)
	}
	go io.Copy(io.Discard, events)
	request := func(method, name, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+ready.HTTP+"/v1/elections/"+name+"/candidacy", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > runtest.Patience {
				t.Fatal("never: ", what)
			}
		}
	}
	put := func(name, body string) (turn candidacy.Turn, ok bool) {
		t.Helper()
		until("the agent answers", func() bool {
			resp := request("PUT", name, body)
			defer resp.Body.Close()
			ok = resp.StatusCode == http.StatusOK
			if err := json.NewDecoder(resp.Body).Decode(&turn); err != nil {
				t.Fatal(err)
			}
			return ok || resp.StatusCode == http.StatusNotFound // not while the machine stalls
		})
		return turn, ok
	}
	lease := func(name string, ttl time.Duration) (ended func() bool) { // it is not renewed
		t.Helper()
		asked := time.Now()
		turn, ok := put(name, fmt.Sprintf(`{"ttl":"%v"}`, ttl))
		if !ok {
			t.Fatalf("%+v", turn)
		}
		return func() bool {
			t.Helper()
			_, ok := put(name, fmt.Sprintf(`{"candidacy":%q}`, turn.Candidacy))
			if lasted := time.Since(asked); !ok && lasted < ttl {
				t.Fatalf("a lease of %v has ended after %v", ttl, lasted)
			}
			return !ok
		}
	}
	set := func(off time.Duration) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, "%d", int(off.Seconds())), 0o600); err != nil {
			t.Fatal(err)
		}
		until("the agent's clock is set", func() bool {
			resp := request("DELETE", "none", "")
			resp.Body.Close()
			at, err := http.ParseTime(resp.Header.Get("Date"))
			return err == nil && time.Until(at.Add(-off)).Abs() < time.Hour/2
		})
	}
	setUnderLease := func(off time.Duration) (check func()) {
		t.Helper()
		before := lease("before", 2*time.Second)
		set(off)
		after := lease("after", 3*time.Second)
		return func() {
			t.Helper()
			until("a lease from after the step has ended", func() bool {
				over, ended := after(), before()
				if over && !ended {
					t.Fatalf("set by %v: a lease from before it lasts longer than one of more time from after it", off)
				}
				return over
			})
		}
	}
	held, ok := put("held", `{"ttl":"5m"}`)
	if !ok {
		t.Fatalf("%+v", held)
	}
	mine := fmt.Sprintf(`{"candidacy":%q}`, held.Candidacy)
	leading := func() bool {
		t.Helper()
		turn, ok := put("held", mine)
		if !ok {
			t.Fatal("its lease has ended")
		}
		if turn.State == candidacy.Lost {
			put("held", fmt.Sprintf(`{"candidacy":%q,"released":true}`, held.Candidacy))
		}
		held = turn
		return turn.State == candidacy.Leading
	}
	until("the lease leads", leading)
	var streamed chan string
	begin := func() {
		t.Helper()
		lines, to := bufio.NewScanner(request("PUT", "streamed", "").Body), make(chan string, 10_000)
		streamed = to
		go func() {
			defer close(to)
			for lines.Scan() {
				if state, isOne := strings.CutPrefix(lines.Text(), "event: "); isOne {
					to <- state
				}
			}
		}()
	}
	next := func(want string) {
		t.Helper()
		for late := time.After(runtest.Patience); ; {
			select {
			case state, open := <-streamed:
				if state == want {
					return
				}
				if !open || state == "lost" {
					t.Fatalf("the stream has %q, open: %v", state, open)
				}
			case <-late:
				t.Fatalf("the stream is never %s", want)
			}
		}
	}
	begin()
	next("leading")
	was := *held.Token
	for _, off := range []time.Duration{-time.Hour, -10 * time.Hour, -1000 * time.Hour} {
		check := setUnderLease(off)
		if !leading() || *held.Token != was {
			t.Fatalf("set by %v: %s, under %s before", off, *held.Token, was)
		}
		check()
		for len(streamed) > 0 {
			<-streamed
		}
		next("leading")
	}
	for _, off := range []time.Duration{10 * time.Hour, 1000 * time.Hour} {
		began := time.Now()
		check := setUnderLease(off)
		check()
		next("lost")
		for range streamed { // it ends, for the loss is not acknowledged
		}
		if lasted := time.Since(began); lasted < candidacy.DefaultGrace {
			t.Fatalf("the stream has ended %v after its loss at most", lasted)
		}
		until("the lease leads again", func() bool { return leading() && *held.Token != was })
		was = *held.Token
		begin()
		next("leading")
	}
}
