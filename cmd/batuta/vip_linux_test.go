package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// The floating addresses of the tests, and the port of the service behind them.
const (
	floating4, floating6 = "10.77.0.100", "fd77::100"
	servicePort          = "8000"
)

// inside runs f on machine name of the LAN: what it opens belongs there.
func (l *lan) inside(name string, f func()) {
	l.t.Helper()
	if err := l.visit(name, f); err != nil {
		l.t.Fatal(err)
	}
}

// visit is inside, for any goroutine. f has not ended when it returns.
func (l *lan) visit(name string, f func()) error {
	space, err := netns.GetFromName(l.prefix + name)
	if err != nil {
		return err
	}
	go func() {
		// The thread goes back when it is done, and must not end: what it has started is tied to it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		home, err := netns.Get()
		if err == nil {
			err = netns.Set(space)
		}
		if err != nil {
			panic(err)
		}
		f()
		if err := netns.Set(home); err != nil {
			panic(err)
		}
		home.Close()
		space.Close()
	}()
	return nil
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

// client asks a service again and again, from a machine of its own.
type client struct {
	request func() (by string, err error)

	mu      sync.Mutex
	by      string    // who has answered last
	at      time.Time // when
	times   int       // how often in a row
	lost    int       // requests without an answer, since the last count
	err     error     // of the last of them
	longest time.Duration
}

func (l *lan) ask(addr string) *client {
	addr = net.JoinHostPort(addr, servicePort)
	return l.askBy(func() (string, error) {
		now := time.Now()
		return answerOf(addr, 250*time.Millisecond+4*l.watch.Longest(now.Add(-5*time.Second), now)) // a process that is held up has longer
	})
}

func (l *lan) askBy(request func() (by string, err error)) *client {
	c := &client{request: request}
	l.clients = append(l.clients, c)
	over, ended := make(chan struct{}), make(chan struct{})
	l.inside("client", func() {
		defer close(ended)
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				c.asks()
			case <-over:
				return
			}
		}
	})
	l.t.Cleanup(func() { close(over); <-ended })
	return c
}

func (c *client) asks() {
	by, err := c.request()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lost, c.err = c.lost+1, err
		c.times = 0
		return
	}
	now := time.Now()
	if !c.at.IsZero() {
		c.longest = max(c.longest, now.Sub(c.at))
	}
	if by != c.by {
		c.times = 0
	}
	c.by, c.at, c.times = by, now, c.times+1
}

func answerOf(addr string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(within))
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

// answeredBy gives the one that has answered 5 requests in a row, the last included; "": none has.
func (c *client) answeredBy() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times < 5 {
		return ""
	}
	return c.by
}

// holders are the machines of n that have the address. It starts no process: a busy machine may hold that up for seconds.
func (l *lan) holders(n int, addr string) (list []int) {
	l.t.Helper()
	if l.handles == nil {
		l.handles = l.netlinks(n)
	}
	return haveAddress(l.t, l.handles, netip.MustParseAddr(addr))
}

// tolerable is how long a client may be without an answer: long enough for any machine
// that has time to spare, and less than it takes a neighbour to find out by itself
// where an address is now. Documented is what an idle machine takes. On one that held
// processes up it may be many times that: to start one takes many turns.
func (l *lan) tolerable() time.Duration {
	stall := l.stall()
	l.mark()
	return 5*time.Second + 20*stall
}

// moved waits until machine i alone of n has the addresses and answers both clients, and
// tells what they have lost.
func (l *lan) moved(what string, i, n int, clients ...*client) {
	l.t.Helper()
	want := fmt.Sprint([]int{i})
	l.look(fmt.Sprintf("%s: machine %d alone has the addresses and answers", what, i), func() bool {
		good := fmt.Sprint(l.holders(n, floating4)) == want && fmt.Sprint(l.holders(n, floating6)) == want
		for _, c := range clients {
			good = good && c.answeredBy() == strconv.Itoa(i)
		}
		return good
	})
	tolerable := l.tolerable()
	for _, c := range clients {
		lost, longest := c.count()
		l.t.Logf("%s: %d requests lost, the longest time without an answer was %v", what, lost, longest.Round(time.Millisecond))
		if longest > tolerable {
			l.t.Errorf("%s: no answer for %v, want %v at most", what, longest, tolerable)
		}
	}
}

// look takes in events, and looks again and again until good.
func (l *lan) look(what string, good func() bool) {
	l.t.Helper()
	for late := time.After(agreeWithin); !good(); {
		select {
		case line := <-l.lines:
			l.note(line)
		case <-time.After(5 * time.Millisecond):
		case <-late:
			l.explain()
			for _, c := range l.clients {
				c.mu.Lock()
				l.t.Logf("a client: %d answers in a row, by %q; %d requests lost, the last: %v", c.times, c.by, c.lost, c.err)
				c.mu.Unlock()
			}
			if n := len(l.handles); n > 0 {
				l.t.Logf("machines that have the addresses: %v, %v", l.holders(n, floating4), l.holders(n, floating6))
			}
			l.t.Fatalf("waited %v in vain until %s: %s", agreeWithin, what, l.views())
		}
	}
}

// again boots machine i of n once more when its member has ended.
func (l *lan) again(i, n int, flags ...string) {
	l.t.Helper()
	id := strconv.Itoa(i)
	l.until("its end is seen", func() bool { return l.find(id).process == nil })
	l.boot(i, id, slices.Concat(flags, everyone(n))...)
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
// docs/reach-the-leader.md what a client loses.
func TestAFloatingAddress(t *testing.T) {
	t.Parallel()
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
		l.again(3, n)
		l.moved("it returns and takes over", 3, n, clients...)
	}

	leader().process.cmd.Process.Signal(syscall.SIGTERM)
	l.moved("SIGTERM", 2, n, clients...)
	back()
	at := time.Now()
	l.signal(3, "hold-address", syscall.SIGTERM)
	l.until("member 2 has led", func() bool { // for a second, which a busy machine may take for one look
		return slices.ContainsFunc(l.find("2").events, func(e api.Line) bool { return e.Event == "leader" && e.Leader == "2" && e.Time.After(at) })
	})
	l.moved("SIGTERM to the process that holds the address", 3, n, clients...)
	leader().process.cmd.Process.Kill()
	l.moved("kill -9", 2, n, clients...)
	if !fulltest.Enabled() {
		return
	}
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
	l.vanish(3)
	for _, pid := range l.all(3) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	l.moved("its machine vanishes", 2, n, clients...)
	l.ip(switchRoom, "link", "set", wire(3), "master", mainSwitch)
	back()
}

// plugInClient adds a machine that no member runs on.
func (l *lan) plugInClient() {
	l.t.Helper()
	l.space("client")
	l.ip(switchRoom, "link", "add", "client", "type", "veth", "peer", "name", "eth0", "netns", l.prefix+"client")
	l.ip(switchRoom, "link", "set", "client", "master", mainSwitch, "up")
	l.ip("client", "addr", "add", "10.77.0.200/24", "dev", "eth0")
	l.ip("client", "addr", "add", "fd77::200/64", "dev", "eth0", "nodad")
	l.ip("client", "link", "set", "lo", "up")
	l.ip("client", "link", "set", "eth0", "up")
}
