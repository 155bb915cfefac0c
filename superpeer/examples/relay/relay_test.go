package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
)

// relayNode is a process of this example.
type relayNode struct {
	id   string
	cmd  *exec.Cmd
	said io.WriteCloser // what is typed into it
	done chan struct{}

	mu    sync.Mutex
	lines []string
}

func startRelay(t *testing.T, program, id string, args ...string) *relayNode {
	t.Helper()
	n := &relayNode{id: id, cmd: exec.Command(program, append([]string{"-id", id, "-listen", "127.0.0.1:0", "-round", "300ms"}, args...)...), done: make(chan struct{})}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if n.said, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	n.cmd.Stderr = t.Output()
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(n.done)
		for in := bufio.NewScanner(out); in.Scan(); {
			n.mu.Lock()
			n.lines = append(n.lines, in.Text())
			n.mu.Unlock()
		}
	}()
	t.Cleanup(n.kill)
	return n
}

func (n *relayNode) kill() {
	n.cmd.Process.Kill()
	<-n.done // its output must be read before Wait
	n.cmd.Wait()
}

// last is the last line that begins with word, "" for none.
func (n *relayNode) last(word string) (found string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.lines {
		if strings.HasPrefix(l, word) {
			found = l
		}
	}
	return found
}

// count is how many lines begin with word.
func (n *relayNode) count(word string) (k int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.lines {
		if strings.HasPrefix(l, word) {
			k++
		}
	}
	return k
}

// await waits until holds does for all of nodes; meanwhile it does again, now and then.
func await(t *testing.T, what string, nodes []*relayNode, again func(), holds func(*relayNode) bool) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if !slices.ContainsFunc(nodes, func(n *relayNode) bool { return !holds(n) }) {
			return
		}
		again()
	}
	for _, n := range nodes {
		if !holds(n) {
			t.Errorf("%s: not so at %s", what, n.id)
		}
	}
	t.FailNow()
}

func TestRelay(t *testing.T) {
	program := buildtest.Program(t, "../relay")
	founder := startRelay(t, program, "n0")
	nodes := []*relayNode{founder}
	await(t, "it is ready", nodes, func() {}, func(n *relayNode) bool { return n.last("ready ") != "" })
	address := strings.TrimPrefix(founder.last("ready "), "ready ")
	for i := range 4 {
		nodes = append(nodes, startRelay(t, program, fmt.Sprintf("n%d", i+1), "-join", address))
	}
	talk := func(n *relayNode) func() {
		return func() { fmt.Fprintln(n.said, "hello") }
	}
	await(t, "it hears the last", nodes, talk(nodes[4]), func(n *relayNode) bool { return n.last("n4: ") != "" })

	// Whoever dies, super peer or not, the others hear each other again. One after the other
	// does, so that super peers are among them.
	for len(nodes) > 2 {
		nodes[0].kill()
		nodes = nodes[1:]
		heard := map[*relayNode]int{}
		for _, n := range nodes {
			heard[n] = n.count(nodes[0].id + ": ")
		}
		await(t, "it hears the others after one has died", nodes, talk(nodes[0]), func(n *relayNode) bool { return n.count(nodes[0].id+": ") > heard[n] })
	}
}
