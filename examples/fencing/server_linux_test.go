package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// This file is a register behind a socket, and its clients. A request is a line
// "TOKEN write VALUE" or "TOKEN read", its answer "ok VALUE" or "refused".

// mark is a token; zero: none.
type mark struct {
	epoch  uint64
	leader string
}

func (m mark) String() string { return fmt.Sprintf("%d:%s", m.epoch, m.leader) }

// allows reports whether a call under t may follow one under m.
func (m mark) allows(t mark) bool {
	return t.epoch > m.epoch || t.epoch == m.epoch && t.leader == m.leader
}

type request struct {
	token mark
	write bool
	value string
}

type answer struct {
	value   string
	refused bool
	unknown bool // nobody has had it
}

// stored is what stands in the register.
type stored struct {
	value string
	token mark
}

func parseRequest(line string) (r request, ok bool) {
	word := strings.Fields(line)
	if len(word) < 2 {
		return r, false
	}
	epoch, leader, _ := strings.Cut(word[0], ":")
	n, err := strconv.ParseUint(epoch, 10, 64)
	r = request{token: mark{n, leader}, write: word[1] == "write"}
	if r.write && len(word) == 3 {
		r.value = word[2]
	}
	return r, err == nil && (r.value != "") == r.write
}

func parseAnswer(line string) answer {
	word, value, _ := strings.Cut(line, " ")
	return answer{value: value, refused: word == "refused"}
}

// server is a register, and what is between it and its clients.
type server struct {
	socket  string
	history string // directory of what the scribes note
	checks  bool   // tokens; false: it takes every call

	mu      sync.Mutex
	changed *sync.Cond
	stored  stored
	written uint64 // the highest epoch of a write that was taken
	refused int
	reads   int // of the readers
	read    []porcupine.Operation
	hold    chan *lateWrite // whoever writes next is late; nil: nobody
}

// lateWrite is a write that is on its way until it is let go.
type lateWrite struct {
	token   mark
	pid     int
	release chan struct{}
}

func newServer(t *testing.T, checks bool) *server {
	t.Helper()
	s := &server{history: t.TempDir(), checks: checks}
	s.changed = sync.NewCond(&s.mu)
	s.socket = runtest.Serve(t, s.serve)
	return s
}

// serve takes in what one process asks for. What it has sent arrives, also when it is dead.
func (s *server) serve(c *net.UnixConn, pid int) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		r, ok := parseRequest(lines.Text())
		if !ok {
			continue // it died in it
		}
		s.mu.Lock()
		hold := s.hold
		if hold != nil && r.write {
			s.hold = nil
		}
		s.mu.Unlock()
		if hold != nil && r.write {
			l := &lateWrite{r.token, pid, make(chan struct{})}
			hold <- l
			<-l.release
		}
		if a := s.do(r); a.refused {
			fmt.Fprintln(c, "refused")
		} else {
			fmt.Fprintln(c, "ok", a.value)
		}
	}
}

// do is the register itself.
func (s *server) do(r request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	if r.token != (mark{}) {
		if s.checks && !s.stored.token.allows(r.token) {
			s.refused++
			return answer{refused: true}
		}
		s.stored.token = r.token
	}
	if r.write {
		s.stored.value = r.value
		s.written = max(s.written, r.token.epoch)
	}
	return answer{value: s.stored.value}
}

// holdWrite has the next write be late, and waits for it.
func (s *server) holdWrite(t *testing.T) *lateWrite {
	t.Helper()
	c := make(chan *lateWrite, 1)
	s.mu.Lock()
	s.hold = c
	s.mu.Unlock()
	select {
	case l := <-c:
		return l
	case <-time.After(patience):
		t.Fatal("nobody writes")
		return nil
	}
}

// await waits until what is told by f is so.
func (s *server) await(t *testing.T, what string, f func() bool) {
	t.Helper()
	overdue := false
	defer time.AfterFunc(patience, func() {
		s.mu.Lock()
		overdue = true
		s.mu.Unlock()
		s.changed.Broadcast()
	}).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !f() {
		if overdue {
			t.Fatalf("%s: not within %v", what, patience)
		}
		s.changed.Wait()
	}
}

// awaitWrite waits for a write of an epoch above this one.
func (s *server) awaitWrite(t *testing.T, epoch uint64) {
	t.Helper()
	s.await(t, fmt.Sprintf("a write after epoch %d", epoch), func() bool { return s.written > epoch })
}

// awaitReads waits until readers have begun and ended n reads.
func (s *server) awaitReads(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	until := s.reads + n + 2 // those on their way
	s.mu.Unlock()
	s.await(t, "some reads", func() bool { return s.reads >= until })
}

// readers read, without a token, until they are told to stop.
func (s *server) readers(n int) (stop func()) {
	var all sync.WaitGroup
	done := make(chan struct{})
	for client := range n {
		all.Go(func() {
			for {
				call := now()
				a := s.do(request{})
				returned := now()
				s.mu.Lock()
				s.reads++
				s.read = append(s.read, porcupine.Operation{ClientId: client, Input: request{}, Call: call, Output: a, Return: returned})
				s.mu.Unlock()
				s.changed.Broadcast()
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	return func() { close(done); all.Wait() }
}

// now is a clock that all processes of a machine share, and that nobody sets.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func init() {
	if socket, ok := os.LookupEnv("FENCING_SCRIBE"); ok {
		if token, leads := os.LookupEnv("BATUTA_TOKEN"); leads {
			scribe(socket, token)
			os.Exit(1)
		}
	}
}

// scribe is the work of a leader: it reads and writes under its token until it is killed,
// also when it is refused. It notes each call before it makes it, and each answer, in a file:
// what is written there outlives it.
func scribe(socket, token string) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	notes, err := os.CreateTemp(os.Getenv("FENCING_HISTORY"), "")
	if err != nil {
		return
	}
	answers := bufio.NewReader(c)
	for n := 0; ; n++ {
		line := token + " read"
		if n%2 == 1 {
			line = fmt.Sprintf("%s write %s/%d/%d", token, token, os.Getpid(), n)
		}
		if _, err := fmt.Fprintf(notes, "%d %s\n", now(), line); err != nil {
			return
		}
		fmt.Fprintln(c, line)
		got, err := answers.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(notes, "%d %s", now(), got); err != nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
