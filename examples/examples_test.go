// Package examples tests that the examples do what they say, as processes of a
// cluster whose leader is killed.
package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// patience is how long a test waits for an event before it gives up.
const patience = 30 * time.Second

// members gives the addresses of three members on loopback, and of a service of each.
func members(t *testing.T) (list, services []string) {
	all := addresses(t, 6)
	for i, addr := range all[:3] {
		list = append(list, fmt.Sprintf("%d=%s", i+1, addr))
	}
	return list, all[3:]
}

// addresses gives n addresses on loopback.
func addresses(t *testing.T, n int) (list []string) {
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

// process is a member that runs.
type process struct {
	cmd   *exec.Cmd
	lines chan string
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{exec.Command(program, args...), make(chan string, 1000)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = t.Output()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	for range p.lines { // its output must be read before Wait
	}
	p.cmd.Wait()
}

// says waits until p says a line with all words in it.
func (p *process) says(t *testing.T, words ...string) {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case line, alive := <-p.lines:
			if !alive {
				t.Fatalf("it ended before it said %q", words)
			}
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return
			}
		case <-late:
			t.Fatalf("it never said %q", words)
		}
	}
}

// flags are what member i of list is started with.
func flags(list []string, i int, more ...string) []string {
	id, addr, _ := strings.Cut(list[i], "=")
	args := append([]string{"-id", id, "-listen", addr}, more...)
	for j, m := range list {
		if j != i {
			args = append(args, "-member", m)
		}
	}
	return args
}

func TestCron(t *testing.T) {
	program := buildtest.Program(t, "./cron")
	list, _ := members(t)
	var cluster []*process
	for i := range list {
		cluster = append(cluster, start(t, program, flags(list, i, "-every", "20ms")...))
	}
	cluster[2].says(t, "job done by 3")
	cluster[2].kill()
	cluster[1].says(t, "job done by 2")
}

func TestFailover(t *testing.T) {
	program := buildtest.Program(t, "./failover")
	list, services := members(t)
	var cluster []*process
	for i := range list {
		cluster = append(cluster, start(t, program, flags(list, i, "-service", services[0])...))
	}
	awaitService(t, services[0], "3 serves")
	cluster[2].kill()
	awaitService(t, services[0], "2 serves")
}

// A write goes to the leader, whoever is asked, and to the next one when that is gone.
func TestRedirect(t *testing.T) {
	program := buildtest.Program(t, "./redirect")
	list, services := members(t)
	var cluster []*process
	for i := range list {
		cluster = append(cluster, start(t, program, flags(list, i, "-serve", services[i])...))
	}
	for i := len(list) - 1; i > 0; i-- {
		awaitAnswer(t, http.MethodPost, "http://"+services[0]+"/orders", "POST /orders by "+services[i]+"\n")
		awaitAnswer(t, http.MethodGet, "http://"+services[0]+"/", "GET / by "+services[0]+"\n")
		cluster[i].kill()
	}
}

// awaitAnswer asks until the answer is want.
func awaitAnswer(t *testing.T, method, url, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if answer, err := http.DefaultClient.Do(r); err == nil {
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if got = string(body); got == want {
				return
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s %s: the last answer is %q, want %q", method, url, got, want)
		}
	}
}

// awaitService asks until the service says want.
func awaitService(t *testing.T, addr, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			line, _ := bufio.NewReader(conn).ReadString('\n')
			conn.Close()
			if strings.HasPrefix(line, want) {
				return
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("the service never said %q", want)
		}
	}
}

func TestPool(t *testing.T) {
	program := buildtest.Program(t, "./pool")
	list, _ := members(t)
	var cluster []*process
	for i := range list {
		args := append([]string{list[i]}, slices.Delete(slices.Clone(list), i, i+1)...)
		cluster = append(cluster, start(t, program, args...))
	}
	cluster[2].says(t, "boss 3", "scraped-by-1")
	cluster[2].says(t, "boss 3", "scraped-by-2")
	cluster[2].kill()
	cluster[1].says(t, "boss 2", "scraped-by-1")
}

// An example that does not fit on two screens explains nothing.
func TestExamplesAreShort(t *testing.T) {
	sources, err := filepath.Glob("*/*.go")
	if err != nil || len(sources) < 3 {
		t.Fatalf("examples: %q, %v", sources, err)
	}
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n >= 80 {
			t.Errorf("%s has %d lines, want fewer than 80", path, n)
		}
	}
}
