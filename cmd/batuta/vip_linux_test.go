package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// The floating addresses of the tests, and the port of the service behind them.
const (
	floating4, floating6 = "10.77.0.100", "fd77::100"
	servicePort          = "8000"
)

// inside runs f on machine name of the LAN: what it opens belongs there.
func (l *lan) inside(name string, f func()) {
	l.t.Helper()
	space, err := netns.GetFromName(l.prefix + name)
	if err != nil {
		l.t.Fatal(err)
	}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		defer space.Close()
		if err := netns.Set(space); err != nil {
			panic(err)
		}
		f()
	}()
}

// serve has machine i say its number to whoever connects.
func (l *lan) serve(i int) {
	ready := make(chan net.Listener)
	l.inside(strconv.Itoa(i), func() {
		listener, err := net.Listen("tcp", ":"+servicePort)
		if err != nil {
			panic(err)
		}
		ready <- listener
	})
	listener := <-ready
	l.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, i)
			conn.Close()
		}
	}()
}

// client asks for an address again and again, from a machine of its own.
type client struct {
	addr string

	mu      sync.Mutex
	by      string    // who has answered last
	at      time.Time // when
	lost    int       // requests without an answer, since the last count
	longest time.Duration
}

func (l *lan) ask(addr string) *client {
	c := &client{addr: net.JoinHostPort(addr, servicePort)}
	over, ended := make(chan struct{}), make(chan struct{})
	l.inside("client", func() {
		defer close(ended)
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				c.request()
			case <-over:
				return
			}
		}
	})
	l.t.Cleanup(func() { close(over); <-ended })
	return c
}

func (c *client) request() {
	by, err := answerOf(c.addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lost++
		return
	}
	if now := time.Now(); c.at.IsZero() {
		c.by, c.at = by, now
	} else {
		c.longest, c.by, c.at = max(c.longest, now.Sub(c.at)), by, now
	}
}

func answerOf(addr string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(250 * time.Millisecond))
	by, err := io.ReadAll(conn)
	if err == nil && len(by) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return string(by), err
}

// count gives what was lost since it was last called, and the longest time without an answer.
func (c *client) count() (lost int, longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, longest = c.lost, c.longest
	c.lost, c.longest = 0, 0
	return lost, longest
}

func (c *client) answeredBy() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > 100*time.Millisecond {
		return ""
	}
	return c.by
}

// holders are the machines of n that have the address.
func (l *lan) holders(n int, addr string) (list []int) {
	l.t.Helper()
	for i := 1; i <= n; i++ {
		out, err := exec.Command("ip", "-n", l.prefix+strconv.Itoa(i), "-o", "addr", "show", "dev", "eth0").Output()
		if err != nil {
			l.t.Fatal(err)
		}
		if strings.Contains(string(out), " "+addr+"/") {
			list = append(list, i)
		}
	}
	return list
}

// moved waits until machine i alone of n has the addresses and answers both clients, and
// tells what they have lost.
func (l *lan) moved(what string, i, n int, clients ...*client) {
	l.t.Helper()
	const tolerable = 5 * time.Second // on a machine that is busy; documented is what an idle one takes
	want := fmt.Sprint([]int{i})
	late := time.After(agreeWithin)
	for {
		good := fmt.Sprint(l.holders(n, floating4)) == want && fmt.Sprint(l.holders(n, floating6)) == want
		for _, c := range clients {
			good = good && c.answeredBy() == strconv.Itoa(i)
		}
		if good {
			break
		}
		select {
		case line := <-l.lines:
			l.note(line)
		case <-time.After(5 * time.Millisecond):
		case <-late:
			l.explain()
			l.t.Fatalf("%s: it is not machine %d that has the addresses and answers: %v, %v; %s, %s",
				what, i, l.holders(n, floating4), l.holders(n, floating6), clients[0].answeredBy(), clients[1].answeredBy())
		}
	}
	for _, c := range clients {
		lost, longest := c.count()
		l.t.Logf("%s: %s lost %d requests, the longest time without an answer was %v", what, c.addr, lost, longest.Round(time.Millisecond))
		if longest > tolerable {
			l.t.Errorf("%s: %s had no answer for %v, want %v at most", what, c.addr, longest, tolerable)
		}
	}
}

// all are the processes of the member on machine i: batuta, its guard, and what holds the address.
func (l *lan) all(i int) (pids []int) {
	l.t.Helper()
	out, err := exec.Command("ip", "netns", "pids", l.prefix+strconv.Itoa(i)).Output()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, field := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A floating address is where the leader is, whatever ends one. It is documented in
// docs/operations.md what a client loses.
func TestAFloatingAddress(t *testing.T) {
	const n = 3
	l := newLAN(t, n)
	l.runs = []string{"vip", floating4 + "/24", floating6 + "/64", "--dev", "eth0"}
	for i := 1; i <= n; i++ {
		l.ip(strconv.Itoa(i), "addr", "add", fmt.Sprintf("fd77::%d/64", i), "dev", "eth0", "nodad")
		l.serve(i)
	}
	l.plugInClient()
	l.ip("1", "addr", "add", floating4+"/24", "dev", "eth0") // an earlier life has left it
	l.bootAll(n)
	clients := []*client{l.ask(floating4), l.ask(floating6)}
	l.moved("start", 3, n, clients...)
	for _, c := range clients {
		c.count()
	}
	leader := func() *member { return l.find("3") }
	back := func() {
		t.Helper()
		l.until("its end is seen", func() bool { return leader().process == nil })
		var flags []string
		for i := 1; i <= n; i++ {
			flags = append(flags, "--member", fmt.Sprintf("%d=%s", i, machineAddress(i)))
		}
		l.boot(3, "3", flags...)
		l.moved("it returns and takes over", 3, n, clients...)
	}

	leader().process.cmd.Process.Signal(syscall.SIGTERM)
	l.moved("SIGTERM", 2, n, clients...)
	back()
	leader().process.cmd.Process.Kill()
	l.moved("kill -9", 2, n, clients...)
	back()
	for _, pid := range l.all(3) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	l.moved("kill -9 of all its processes", 2, n, clients...)
	back()
	leader().process.cmd.Process.Signal(syscall.SIGSTOP)
	l.moved("frozen", 2, n, clients...)
	leader().process.cmd.Process.Signal(syscall.SIGCONT)
	l.moved("it goes on", 3, n, clients...)
	l.ip(switchRoom, "link", "set", wire(3), "down")
	l.moved("its link is down", 2, n, clients...)
	l.ip(switchRoom, "link", "set", wire(3), "up")
	l.moved("its link is up", 3, n, clients...)
}

// plugInClient adds a machine that no member runs on.
func (l *lan) plugInClient() {
	l.t.Helper()
	l.space("client")
	l.ip(switchRoom, "link", "add", "client", "type", "veth", "peer", "name", "eth0", "netns", l.prefix+"client")
	l.ip(switchRoom, "link", "set", "client", "master", mainSwitch, "up")
	l.ip("client", "addr", "add", "10.77.0.200/24", "dev", "eth0")
	l.ip("client", "addr", "add", "fd77::200/64", "dev", "eth0", "nodad")
	l.ip("client", "link", "set", "eth0", "up")
}
