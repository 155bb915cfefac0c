package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/hooks"
)

// process is an agent that runs as a child.
type process struct {
	cmd    *exec.Cmd
	stdout *bufio.Scanner
	stderr tail
	ended  chan struct{} // closed once it is gone and its output is read
}

// childLine is an event line of a member's process, or its end.
type childLine struct {
	member  *member
	process *process
	line    api.Line
	spread  spread // of a spreadEvent
	end     bool
}

// startProcess runs executable in dir (empty: here) with args, args[0] being the name it goes by.
func startProcess(executable, dir string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(executable), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Args = args
	// Variables are meant for the command that starts the members, and would make all of them the same.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "BATUTA_") })
	p.cmd.SysProcAttr = hooks.ChildAttributes()
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewScanner(stdout)
	return p, p.cmd.Start()
}

// read sends the process's event lines to lines until it ends, or closing is
// closed, and then its end.
func (p *process) read(m *member, lines chan<- childLine, closing <-chan struct{}) {
	send := func(l childLine) {
		select {
		case lines <- l:
		case <-closing:
		}
	}
	for p.stdout.Scan() {
		l := childLine{member: m, process: p}
		if json.Unmarshal(p.stdout.Bytes(), &l.line) != nil {
			continue
		}
		if l.line.Event == spreadEvent {
			json.Unmarshal(p.stdout.Bytes(), &l.spread) // it is an object, as we have just seen
		}
		send(l)
	}
	p.cmd.Wait() // its exit code is of no interest: lastWords has the reason
	close(p.ended)
	send(childLine{member: m, process: p, end: true})
}

func (p *process) kill()       { p.cmd.Process.Kill() } // fails only if it has ended already
func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) cont() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// lastWords is the last line it logged, or how it ended.
func (p *process) lastWords() string {
	if last := p.stderr.last(); last != "" {
		return last
	}
	return p.cmd.ProcessState.String()
}

// tail keeps the last line written to it.
type tail struct {
	mu   sync.Mutex
	line []byte
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.TrimRight(b, "\n")
	t.line = bytes.Clone(lines[bytes.LastIndexByte(lines, '\n')+1:])
	return len(b), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.line)
}
