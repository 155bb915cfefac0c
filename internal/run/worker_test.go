package run

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

// patience is how long a test waits for an event before it gives up.
const patience = 15 * time.Second

// TestMain lets the test binary be a guard and the command that it guards.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "guard":
		if err := Guard(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(os.Args) > 1 && os.Args[1] == "worker":
		work(os.Args[2], os.Args[3:])
	default:
		os.Exit(m.Run())
	}
}

// work is a command: it says hello to the test at addr, tells what signals it
// gets, and lives until it is killed, unless its words say otherwise:
//
//	deaf       SIGTERM does not end it
//	child      it has a child that is deaf
//	stray      it has a deaf child in a session of its own
//	lock=FILE  it must be alone to lock FILE; its children hold the lock too
//	exit=CODE  it ends at once
//	quit=CODE  it ends on SIGUSR2
func work(addr string, words []string) {
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
		case "child", "stray":
			child := exec.Command(os.Args[0], "worker", addr, "deaf")
			child.ExtraFiles = inherited
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: name == "stray"}
			if child.Start() != nil {
				os.Exit(92)
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

// factory hears from the workers that a test has run.
type factory struct {
	t      *testing.T
	listen net.Listener
	hired  chan *worker
}

// worker is a process that has said hello.
type worker struct {
	pid   int
	alone bool
	token string
	words string
	said  chan string // closed when it has died
}

func newFactory(t *testing.T) *factory {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &factory{t, l, make(chan *worker, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.hear(c)
		}
	}()
	return f
}

func (f *factory) hear(c net.Conn) {
	defer c.Close()
	w := &worker{said: make(chan string, 100)}
	defer close(w.said)
	lines := bufio.NewScanner(c)
	if !lines.Scan() {
		return
	}
	words := strings.SplitN(lines.Text(), " ", 4)
	w.pid, _ = strconv.Atoi(words[0])
	w.alone, w.token, w.words = words[1] == "alone", words[2], words[3]
	f.hired <- w
	for lines.Scan() {
		w.said <- lines.Text()
	}
}

// argv is the command line of a worker.
func (f *factory) argv(words ...string) []string {
	return append([]string{os.Args[0], "worker", f.listen.Addr().String()}, words...)
}

// next waits for a worker to say hello.
func (f *factory) next() *worker {
	f.t.Helper()
	select {
	case w := <-f.hired:
		return w
	case <-time.After(patience):
		f.t.Fatal("no worker came")
		return nil
	}
}

// hears waits until w says what.
func (f *factory) hears(w *worker, what string) {
	f.t.Helper()
	for late := time.After(patience); ; {
		select {
		case said, alive := <-w.said:
			if !alive {
				f.t.Fatalf("worker %d died without saying %q", w.pid, what)
			}
			if said == what {
				return
			}
		case <-late:
			f.t.Fatalf("worker %d never said %q", w.pid, what)
		}
	}
}

// dies waits until w has died.
func (f *factory) dies(w *worker) {
	f.t.Helper()
	for late := time.After(patience); ; {
		select {
		case _, alive := <-w.said:
			if !alive {
				return
			}
		case <-late:
			f.t.Fatalf("worker %d (%s) lives on", w.pid, w.words)
		}
	}
}
