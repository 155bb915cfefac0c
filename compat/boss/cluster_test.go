package boss_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// patience is how long a test waits for an event before it gives up.
const patience = 40 * time.Second

// city is a set of nodes on loopback addresses, batuta's and foreign ones.
type city struct {
	t     *testing.T
	addrs []batuta.Peer
}

func newCity(t *testing.T, ips ...string) *city {
	t.Helper()
	ports, err := freeport.FindOn(ips...)
	if err != nil {
		t.Skipf("loopback addresses beside 127.0.0.1 are not to be had here: %v", err)
	}
	c := &city{t: t}
	for i, ip := range ips {
		c.addrs = append(c.addrs, batuta.Peer{ID: batuta.ID(ip), Addr: net.JoinHostPort(ip, strconv.Itoa(ports[i]))})
	}
	return c
}

func (c *city) address(ip string) string {
	for _, m := range c.addrs {
		if string(m.ID) == ip {
			return m.Addr
		}
	}
	c.t.Fatalf("no %s here", ip)
	return ""
}

func (c *city) config(ip string) batuta.Config {
	return batuta.Config{ID: batuta.ID(ip), Listen: c.address(ip), Peers: c.addrs, Algorithm: bully.New(bully.WithDead()),
		Logger: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("id", ip)}
}

// start runs a batuta member. What it logs goes to the test's log.
func (c *city) start(ip string, change ...func(*batuta.Config, *boss.Options)) *batuta.Node {
	c.t.Helper()
	o := boss.Options{NodeType: "scrapper"}
	cfg := c.config(ip)
	for _, f := range change {
		f(&cfg, &o)
	}
	cfg.Wire = boss.New(o)
	var n *batuta.Node
	err := freeport.Again(func() (err error) {
		n, err = batuta.Start(c.t.Context(), cfg)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { n.Close() })
	return n
}

// waitLeader waits until n follows leader, and gives the token.
func waitLeader(t *testing.T, n *batuta.Node, leader string) batuta.Token {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last batuta.View
	for v := range n.Watch(ctx) {
		if last = v; string(v.Token.Leader.ID) == leader {
			return v.Token
		}
	}
	t.Fatalf("%s waited in vain for %s; last view %+v", n.ID(), leader, last)
	return batuta.Token{}
}

// program is a process that tells what it does, a line of JSON at a time.
type program struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu    sync.Mutex
	more  *sync.Cond
	lines []string
	ended bool
	heard func(line string) // told each line; may be nil

	reading chan struct{} // closed when it has said everything
}

// foreign runs the program that knows nothing of batuta.
func (c *city) foreign(ip string, args ...string) *program {
	c.t.Helper()
	_, port, _ := net.SplitHostPort(c.address(ip))
	var peers []string
	for _, m := range c.addrs {
		if string(m.ID) != ip {
			peers = append(peers, m.Addr)
		}
	}
	return run(c.t, ip, python(c.t, "node.py", append([]string{"--ip", ip, "--port", port, "--peers", strings.Join(peers, ",")}, args...)...))
}

// unavailable is what to do where something is not to be had that a test needs.
func unavailable(t *testing.T) func(format string, args ...any) {
	if os.Getenv("BATUTA_TEST_NETNS") != "" {
		return t.Fatalf
	}
	return t.Skipf
}

// python is the command that runs a program of testdata.
func python(t *testing.T, name string, args ...string) []string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		unavailable(t)("python3 is not installed")
	}
	return append([]string{path, "testdata/" + name}, args...)
}

// run starts a program and waits until it has said that it listens.
func run(t *testing.T, name string, command []string) *program {
	t.Helper()
	f := &program{t: t, name: name}
	f.start(command)
	f.waitFrom(0, `"listen`)
	return f
}

func (f *program) start(command []string) {
	f.t.Helper()
	t := f.t
	f.more = sync.NewCond(&f.mu)
	f.cmd = exec.Command(command[0], command[1:]...)
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if f.stdin, err = f.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	f.cmd.Stderr = t.Output()
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.reading = make(chan struct{})
	go func() {
		defer close(f.reading)
		f.read(out)
	}()
	t.Cleanup(f.kill)
}

func (f *program) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		f.mu.Lock()
		f.lines = append(f.lines, lines.Text())
		fmt.Fprintf(f.t.Output(), "%s: %s\n", f.name, lines.Text())
		f.mu.Unlock()
		if f.heard != nil {
			f.heard(lines.Text())
		}
		f.more.Broadcast()
	}
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.more.Broadcast()
}

// kill ends the program as the kernel does; again is no harm.
func (f *program) kill() {
	f.cmd.Process.Kill()
	<-f.reading
	f.cmd.Wait()
}

// mark is how much it has told so far.
func (f *program) mark() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lines)
}

// wait waits for a line that holds every part.
func (f *program) wait(parts ...string) { f.t.Helper(); f.waitFrom(0, parts...) }

// waitFrom is wait, for a line after the first from; it gives its place.
func (f *program) waitFrom(from int, parts ...string) int {
	f.t.Helper()
	late := time.AfterFunc(patience, func() { f.mu.Lock(); f.ended = true; f.mu.Unlock(); f.more.Broadcast() })
	defer late.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for ; from < len(f.lines); from++ {
			if holds(f.lines[from], parts) {
				return from
			}
		}
		if f.ended {
			f.t.Fatalf("%s never told %q; it told:\n%s", f.name, parts, strings.Join(f.lines, "\n"))
		}
		f.more.Wait()
	}
}

func holds(line string, parts []string) bool {
	if !json.Valid([]byte(line)) {
		return false
	}
	for _, p := range parts {
		if !strings.Contains(line, p) {
			return false
		}
	}
	return true
}

// preempting has a member take over from a lower boss.
func preempting(_ *batuta.Config, o *boss.Options) { o.Preempt = true }

func TestBatutaAloneElectsTheHighest(t *testing.T) {
	t.Parallel()
	c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
	three, four, five := c.start("127.0.0.3", preempting), c.start("127.0.0.4", preempting), c.start("127.0.0.5", preempting)
	first := waitLeader(t, three, "127.0.0.5")
	waitLeader(t, four, "127.0.0.5")
	waitLeader(t, five, "127.0.0.5")
	five.Close()
	token := waitLeader(t, three, "127.0.0.4")
	if waitLeader(t, four, "127.0.0.4") != token || !token.Above(first) {
		t.Errorf("after %s: %s", first, token)
	}
	five = c.start("127.0.0.5", preempting)
	for _, n := range []*batuta.Node{three, four, five} {
		waitLeader(t, n, "127.0.0.5")
	}
}

func TestANewcomerFollowsTheBossThatItFinds(t *testing.T) {
	t.Parallel()
	c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
	first := waitLeader(t, c.start("127.0.0.4", patient), "127.0.0.4")
	for _, ip := range []string{"127.0.0.5", "127.0.0.3"} {
		n := c.start(ip, patient)
		if token := waitLeader(t, n, "127.0.0.4"); token != first {
			t.Errorf("%s follows %s, not %s", ip, token, first)
		}
	}
}

func TestAForeignBossDies(t *testing.T) {
	t.Parallel()
	c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
	old := c.foreign("127.0.0.5")
	three, four := c.start("127.0.0.3"), c.start("127.0.0.4")
	first := waitLeader(t, three, "127.0.0.5")
	waitLeader(t, four, "127.0.0.5")
	old.wait(`"received": "identification"`, "127.0.0.3", `"is_temporary": false`)
	old.wait(`"received": "identification"`, "127.0.0.4", `"is_temporary": false`)
	old.kill()
	token := waitLeader(t, three, "127.0.0.4")
	if !token.Above(first) {
		t.Errorf("after %s: %s", first, token)
	}
	waitLeader(t, four, "127.0.0.4")
	c.foreign("127.0.0.5")
	waitLeader(t, three, "127.0.0.5")
	waitLeader(t, four, "127.0.0.5")
}

func TestABatutaBossAmongForeigners(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{false, true} {
		t.Run(fmt.Sprintf("older=%v", older), func(t *testing.T) {
			var args []string
			if older {
				args = append(args, "--older")
			}
			c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
			three, four := c.foreign("127.0.0.3", args...), c.foreign("127.0.0.4", args...)
			three.wait(`"boss": "127.0.0.4"`)
			five := c.start("127.0.0.5", preempting)
			waitLeader(t, five, "127.0.0.5")
			three.wait(`"boss": "127.0.0.5"`)
			four.wait(`"boss": "127.0.0.5"`)
			four.wait(`"received": "election_response"`) // an answer that came after five had gone would have it wait for five
			from := three.mark()
			five.Close()
			three.waitFrom(from, `"boss": "127.0.0.4"`)
			four.wait(`"unreachable": "127.0.0.5"`)
			five = c.start("127.0.0.5", preempting)
			from = three.mark()
			waitLeader(t, five, "127.0.0.5")
			three.waitFrom(from, `"boss": "127.0.0.5"`)
		})
	}
}

// calm checks that n's view stays as it is for long enough that every wait of the
// Machine and of the wire has come round several times.
func calm(t *testing.T, n *batuta.Node, long time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	first := n.Leader()
	for v := range n.Watch(ctx) {
		if v.Token != first.Token {
			t.Errorf("%s: %+v becomes %+v", n.ID(), first, v)
		}
	}
}

// patient has a T of 2 s: a busy machine may stop a process for some tenths of that.
func patient(c *batuta.Config, o *boss.Options) {
	c.TMax, c.TProcess, o.Heartbeat = 500*time.Millisecond, time.Second, 200*time.Millisecond
}

func TestAMixedClusterIsCalm(t *testing.T) {
	t.Parallel()
	for _, top := range []string{"batuta", "foreign"} {
		t.Run(top+" leads", func(t *testing.T) {
			t.Parallel()
			c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
			if top == "foreign" {
				c.foreign("127.0.0.5", "--beat", "0.2", "--death", "5")
			} else {
				waitLeader(t, c.start("127.0.0.5", patient), "127.0.0.5")
			}
			n := c.start("127.0.0.4", patient)
			three := c.foreign("127.0.0.3", "--beat", "0.2", "--death", "5")
			waitLeader(t, n, "127.0.0.5")
			three.wait(`"boss": "127.0.0.5"`)
			from := three.mark()
			calm(t, n, 6*time.Second)
			three.waitFrom(from, `"received": "heartbeat"`)
			three.mu.Lock()
			defer three.mu.Unlock()
			for _, line := range three.lines[from:] {
				if holds(line, []string{`"lost"`}) || holds(line, []string{`"calls"`}) {
					t.Errorf("127.0.0.3 tells %s", line)
				}
			}
		})
	}
}

// The one that resigns stands again if the others have found no leader within 2·T.
func TestABossResignsAmongForeigners(t *testing.T) {
	t.Parallel()
	c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
	five := c.start("127.0.0.5", patient)
	waitLeader(t, five, "127.0.0.5")
	four, three := c.foreign("127.0.0.4"), c.foreign("127.0.0.3")
	four.wait(`"boss": "127.0.0.5"`)
	three.wait(`"boss": "127.0.0.5"`)
	waitLinks(t, five, 2)
	from := three.mark()
	if err := five.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitLeader(t, five, "127.0.0.4")
	three.waitFrom(from, `"boss": "127.0.0.4"`)
}

// waitLinks waits until n has that many members up.
func waitLinks(t *testing.T, n *batuta.Node, up int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n.Events(ctx) {
		if statusOf(n).Links >= up {
			return
		}
	}
	t.Fatalf("%s has %d links, want %d", n.ID(), statusOf(n).Links, up)
}

func TestEitherAnnouncementAlone(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]boss.Announce{"new_boss": boss.NewBoss, "identification": boss.Identification} {
		t.Run(name, func(t *testing.T) {
			c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
			alone := func(_ *batuta.Config, o *boss.Options) { o.Announce, o.Preempt = way, true }
			three, four := c.foreign("127.0.0.3"), c.start("127.0.0.4", alone)
			waitLeader(t, four, "127.0.0.4")
			five := c.start("127.0.0.5", alone)
			waitLeader(t, five, "127.0.0.5")
			waitLeader(t, four, "127.0.0.5")
			three.wait(`"boss": "127.0.0.5"`)
			three.mu.Lock()
			defer three.mu.Unlock()
			for _, line := range three.lines {
				if way == boss.Identification && holds(line, []string{`"received": "new_boss"`}) {
					t.Errorf("announced as %s", line)
				}
			}
		})
	}
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *batuta.Node) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
