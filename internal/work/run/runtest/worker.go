//go:build !windows

// Package runtest has commands that tests run with "batuta run", and receives their reports.
package runtest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for an event before it gives up.
const Patience = 30 * time.Second

// Work is the main function of a command. self is how to start this program as a command, and args
// are the result of [Factory.Argv]. It reports its start and the signals that it gets, and lives
// until it is killed, unless an argument changes that:
//
//	deaf       SIGTERM does not end it
//	child      it has a child that is deaf
//	stray      it has a deaf child in a session of its own
//	root       it becomes root, as sudo does; its program must be setuid
//	far        it has a stray that has a stray
//	lock=FILE  it must be alone to lock FILE; its children hold the lock too
//	exit=CODE  it ends at once
//	quit=CODE  it ends on SIGUSR2
func Work(self, args []string) {
	addr, words := args[0], args[1:]
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(90)
	}
	alone := "alone"
	exit, quit := -1, -1
	var inherited []*os.File
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "lock":
			file, err := os.OpenFile(value, os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				os.Exit(91)
			}
			if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
				alone = "crowded"
			}
			inherited = append(inherited, file)
		case "child", "stray", "far":
			words := []string{addr, "deaf"}
			if name == "far" {
				words = append(words, "stray")
			}
			child := exec.Command(self[0], append(slices.Clip(self[1:]), words...)...)
			child.ExtraFiles = inherited
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: name != "child"}
			if child.Start() != nil {
				os.Exit(92)
			}
		case "root":
			if syscall.Setreuid(0, 0) != nil {
				os.Exit(93)
			}
		case "exit":
			exit, _ = strconv.Atoi(value)
		case "quit":
			quit, _ = strconv.Atoi(value)
		}
	}
	fmt.Fprintf(conn, "%d %s %s %s\n", os.Getpid(), alone, os.Getenv("BATUTA_TOKEN"), strings.Join(words, ","))
	if exit >= 0 {
		os.Exit(exit)
	}
	for s := range signals {
		fmt.Fprintln(conn, s)
		if s == syscall.SIGUSR2 && quit >= 0 {
			os.Exit(quit)
		}
		if s == syscall.SIGTERM && !slices.Contains(words, "deaf") {
			os.Exit(0)
		}
	}
}

// Factory receives the reports of the workers that a test has run.
type Factory struct {
	T      testing.TB
	listen net.Listener
	hired  chan *Worker
}

// Worker is a process that has reported its start.
type Worker struct {
	Pid   int
	Alone bool   // it got the lock
	Token string // its BATUTA_TOKEN
	Words string
	Came  time.Time   // when its first report arrived
	said  chan string // closed when it has died
}

// NewFactory opens a Factory for the time of a test.
func NewFactory(t testing.TB) *Factory {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Factory{t, l, make(chan *Worker, 100)}
	t.Cleanup(func() { l.Close() })
	go serve(l, f.hear)
	return f
}

// serve handles each connection in a separate goroutine until l is closed.
func serve(l net.Listener, hear func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			hear(c)
		}()
	}
}

func (f *Factory) hear(c net.Conn) {
	w := &Worker{said: make(chan string, 100)}
	defer close(w.said)
	lines := bufio.NewScanner(c)
	if !lines.Scan() {
		return
	}
	w.Came = time.Now()
	words := strings.SplitN(lines.Text(), " ", 4)
	w.Pid, _ = strconv.Atoi(words[0])
	w.Alone, w.Token, w.Words = words[1] == "alone", words[2], words[3]
	f.hired <- w
	for lines.Scan() {
		w.said <- lines.Text()
	}
}

// Argv returns the arguments of Work for a command line.
func (f *Factory) Argv(words ...string) []string {
	return append([]string{f.listen.Addr().String()}, words...)
}

// Next waits for a worker to report its start.
func (f *Factory) Next() *Worker {
	f.T.Helper()
	w := f.Within(Patience)
	if w == nil {
		f.T.Fatal("no worker came")
	}
	return w
}

// Within is Next with a time limit; it returns nil if no worker starts by then.
func (f *Factory) Within(limit time.Duration) *Worker {
	select {
	case w := <-f.hired:
		return w
	case <-time.After(limit):
		return nil
	}
}

// Awaits waits until w reports what.
func (f *Factory) Awaits(w *Worker, what string) {
	f.T.Helper()
	for late := time.After(Patience); ; {
		select {
		case said, alive := <-w.said:
			if !alive {
				f.T.Fatalf("worker %d died without saying %q", w.Pid, what)
			}
			if said == what {
				return
			}
		case <-late:
			f.T.Fatalf("worker %d never said %q", w.Pid, what)
		}
	}
}

// Dies waits until w has died.
func (f *Factory) Dies(w *Worker) {
	f.T.Helper()
	for late := time.After(Patience); ; {
		select {
		case _, alive := <-w.said:
			if !alive {
				return
			}
		case <-late:
			f.T.Fatalf("worker %d (%s) lives on", w.Pid, w.Words)
		}
	}
}
