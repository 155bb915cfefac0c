package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// serveHTTP has machine i say its number to whoever asks, until stop.
func (l *lan) serveHTTP(i int, addr string) (stop func()) {
	ready := make(chan net.Listener)
	l.inside(strconv.Itoa(i), func() {
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			panic(err)
		}
		ready <- listener
	})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) })}
	go s.Serve(<-ready)
	l.t.Cleanup(func() { s.Close() })
	return func() { s.Close() }
}

// overHTTP asks a balancer on the client's own machine, with a connection for each request.
func overHTTP(addr string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var d net.Dialer // not http.Client, which dials on another thread
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Second))
	fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: service\r\n\r\n")
	answer, err := io.ReadAll(conn)
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if err == nil && !strings.Contains(strings.SplitN(head, "\r\n", 2)[0], " 200 ") {
		err = fmt.Errorf("answered %q", strings.SplitN(head, "\r\n", 2)[0])
	}
	return body, err
}

// daemon starts a program in a namespace, and ends it with the test.
func (l *lan) daemon(space, name string, args ...string) {
	l.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	if err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			l.t.Fatal(err)
		}
		l.t.Skip(err)
	}
	cmd := exec.Command("ip", append([]string{"netns", "exec", l.prefix + space, path}, args...)...)
	cmd.Stdout, cmd.Stderr = l.t.Output(), l.t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
}

// shipped is the path of a copy of an example's file, its machines being those of the LAN.
func (l *lan) shipped(name string) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	if err != nil {
		l.t.Fatal(err)
	}
	path := filepath.Join(l.t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "10.0.0.", "10.77.0.")), 0o644); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// The balancers that examples/ shows how to set up, with the very files that are there.
func TestLoadBalancers(t *testing.T) {
	fulltest.Parallel(t)
	t.Run("haproxy", func(t *testing.T) {
		testBalancer(t, "127.0.0.1:8080", ":8080", func(l *lan, _ int) {
			l.daemon("client", "haproxy", "-db", "-f", l.shipped("haproxy/haproxy.cfg"))
		})
	})
	t.Run("nginx", func(t *testing.T) {
		testBalancer(t, "127.0.0.1:80", "127.0.0.1:8081", func(l *lan, n int) {
			conf := l.shipped("nginx/nginx.conf")
			for _, space := range append([]string{"client"}, numbers(n)...) {
				own := filepath.Join(l.t.TempDir(), "nginx"+space)
				l.daemon(space, "nginx", "-c", conf, "-g", "daemon off; worker_processes 1; pid "+own+"; error_log stderr crit;")
			}
		})
	})
}

func numbers(n int) (list []string) {
	for i := 1; i <= n; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

// health is what agents are asked by a balancer that is elsewhere.
var health = []string{"--health-http", "0.0.0.0:7501"}

func testBalancer(t *testing.T, asked, service string, start func(l *lan, n int)) {
	const n = 3
	l := newLAN(t, n)
	l.plugInClient()
	stop := map[int]func(){}
	for i := 1; i <= n; i++ {
		stop[i] = l.serveHTTP(i, service)
	}
	start(l, n)
	l.bootAll(n, health...)
	c := l.askBy(func() (string, error) { return overHTTP(asked) })
	l.answers("start", 3, c)
	c.count()

	l.find("3").process.cmd.Process.Signal(syscall.SIGTERM)
	l.answers("SIGTERM", 2, c)
	l.again(3, n, health...)
	l.answers("it returns and takes over", 3, c)
	stop[3]()
	l.find("3").process.cmd.Process.Kill()
	l.answers("kill -9 of agent and service", 2, c)
	if !fulltest.Enabled() {
		return
	}
	stop[3] = l.serveHTTP(3, service)
	l.again(3, n, health...)
	l.answers("it returns and takes over", 3, c)
	// Cut off from the others and not from the balancer it leads on, beside the next one.
	l.cut(3, 1)
	l.cut(3, 2)
	l.until("two lead", func() bool { return l.follow("3", l.find("3")) && l.follow("2", l.find("1"), l.find("2")) })
	l.alone("its members cannot reach it", c)
	l.mend(3, 1)
	l.mend(3, 2)
	l.until("all follow 3 again", func() bool { return l.follow("3", l.members...) })
	l.answers("they can", 3, c)
	l.ip(switchRoom, "link", "set", wire(3), "down")
	l.answers("its machine vanishes", 2, c)
	l.ip(switchRoom, "link", "set", wire(3), "up")
	l.answers("it is back", 3, c)
}

// alone waits until one machine answers and goes on to.
func (l *lan) alone(what string, c *client) {
	l.t.Helper()
	l.quiet(1500 * time.Millisecond) // nginx asks a machine again once its fail_timeout of 1 s has passed
	l.look(what+": one machine answers", func() bool { return c.answeredBy() != "" })
	by := c.answeredBy()
	l.quiet(500 * time.Millisecond)
	if now := c.answeredBy(); now != by {
		l.t.Errorf("%s: %q answered for a while, then %q", what, by, now)
	}
	lost, longest := c.count()
	l.t.Logf("%s: machine %s answers; %d requests lost, the longest time without an answer was %v", what, by, lost, longest.Round(time.Millisecond))
}

// answers waits until it is machine i that the client hears, and tells what it has lost.
func (l *lan) answers(what string, i int, c *client) {
	l.t.Helper()
	l.look(what+": machine "+strconv.Itoa(i)+" answers", func() bool { return c.answeredBy() == strconv.Itoa(i) })
	lost, longest := c.count()
	l.t.Logf("%s: %d requests lost, the longest time without an answer was %v", what, lost, longest.Round(time.Millisecond))
	if tolerable := l.tolerable(); longest > tolerable {
		l.t.Errorf("%s: no answer for %v, want %v at most", what, longest, tolerable)
	}
}
