package boss_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
)

// bridge is network namespaces on one bridge, one for each address. The bridge
// has a namespace of its own: nothing of the machine is touched.
type bridge struct {
	t      *testing.T
	prefix string
	ips    []string
	binary string
	wire   *program // the witness
}

// bridges counts them: each has namespaces of its own.
var bridges atomic.Int64

// newSpaces makes a bridge without a witness. It skips the test where there are no
// namespaces to be had, unless BATUTA_TEST_NETNS says that there must be.
func newSpaces(t *testing.T, ips ...string) *bridge {
	t.Helper()
	unavailable := unavailable(t)
	if os.Getuid() != 0 {
		unavailable("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		unavailable("iproute2 is not installed")
	}
	b := &bridge{t: t, prefix: fmt.Sprintf("bt%d-%d-", os.Getpid(), bridges.Add(1)), ips: ips}
	if out, err := exec.Command("ip", "netns", "add", b.space("br")).CombinedOutput(); err != nil {
		unavailable("network namespaces are not to be had here: %s", out)
	}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", b.space("br")).Run() })
	b.ip("-n", b.space("br"), "link", "add", "br0", "type", "bridge")
	b.ip("-n", b.space("br"), "link", "set", "br0", "up")
	for i, ip := range ips {
		space := b.space(ip)
		b.ip("netns", "add", space)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", space).Run() })
		b.ip("-n", b.space("br"), "link", "add", port(i), "type", "veth", "peer", "name", "eth0", "netns", space)
		b.ip("-n", b.space("br"), "link", "set", port(i), "master", "br0", "up")
		b.ip("-n", space, "addr", "add", ip+"/16", "dev", "eth0")
		b.ip("-n", space, "link", "set", "lo", "up")
		b.ip("-n", space, "link", "set", "eth0", "up")
	}
	return b
}

// port is the bridge's end of the i-th node's link.
func port(i int) string { return fmt.Sprintf("p%d", i) }

func newBridge(t *testing.T, binary string, ips ...string) *bridge {
	t.Helper()
	b := newSpaces(t, ips...)
	b.binary = binary
	b.wire = run(t, "bridge", b.in("br", python(t, "witness.py")...))
	return b
}

func (b *bridge) space(name string) string { return b.prefix + name[strings.LastIndex(name, ".")+1:] }

func (b *bridge) ip(args ...string) {
	b.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		b.t.Fatalf("ip %s: %s", strings.Join(args, " "), out)
	}
}

// in is the command that runs another in a namespace.
func (b *bridge) in(name string, command ...string) []string {
	return append([]string{"ip", "netns", "exec", b.space(name)}, command...)
}

// start runs a node: batuta, or the program that knows nothing of it.
func (b *bridge) start(ip string, foreign bool) *node {
	b.t.Helper()
	command := []string{b.binary, "agent", "--wire", "boss", "--node-type", "scrapper", "--id", ip,
		"--insecure", "--http", "off", "--events", "json", "--log-level", "warn"}
	leader := `"event":"leader"`
	var peers []string
	for _, other := range b.ips {
		if other != ip {
			peers = append(peers, other+":8080")
			command = append(command, "--member", other+"="+other+":8080")
		}
	}
	if foreign {
		leader = `"boss": `
		command = python(b.t, "node.py", "--ip", ip, "--peers", strings.Join(peers, ","))
	}
	return &node{run(b.t, ip, b.in(ip, command...)), leader}
}

// node is a running node of either sort.
type node struct {
	*program
	leader string // what a line holds that tells of a leader
}

// follows waits until, after the first from lines, the node takes ip for its boss.
func (n *node) follows(from int, ip string) {
	n.t.Helper()
	n.waitFrom(from, n.leader, `"`+ip+`"`)
}

func (n *node) signal(s syscall.Signal) { n.cmd.Process.Signal(s) }

// stop returns once the process has stopped: on a busy machine it runs on for a while.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
	for range 10_000 {
		if n.stopped() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	n.t.Fatal("it does not stop")
}

// stopped reports whether each of the process's threads has stopped (proc(5), the third
// field of stat).
func (n *node) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		n.t.Fatalf("it has no threads: %v", err)
	}
	return !slices.ContainsFunc(threads, func(file string) bool {
		stat, _ := os.ReadFile(file)
		return len(stat) > 0 && !strings.Contains(string(stat), ") T ")
	})
}

// neighbours are the other ends of the connections that stand at ip.
func (b *bridge) neighbours(ip string) []string {
	command := b.in(ip, "ss", "-Htn", "state", "established")
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	var ends []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		end, _, _ := strings.Cut(fields[len(fields)-1], ":")
		ends = append(ends, end)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// The example of docs/sources.md, "Scrapper", seen from the bridge, with each of the nodes run by
// batuta or by the foreign program.
func TestTheExampleOfSource002(t *testing.T) {
	t.Parallel()
	binary := buildtest.Program(t, "../../cmd/batuta")
	for _, ips := range [][]string{{"172.18.0.3", "172.18.0.4", "172.18.0.5"}, {"172.18.0.8", "172.18.0.9", "172.18.0.10"}} {
		for mix := range 8 {
			foreign := []bool{mix&1 != 0, mix&2 != 0, mix&4 != 0}
			if ips[0] == "172.18.0.8" && mix != 0 && mix != 5 {
				continue
			}
			name := ips[2]
			for i, f := range foreign {
				name += map[bool]string{true: "-foreign", false: "-batuta"}[f] + ips[i][len("172.18.0"):]
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				example(t, newBridge(t, binary, ips...), foreign)
			})
		}
	}
}

func example(t *testing.T, b *bridge, foreign []bool) {
	low, mid, top := b.ips[0], b.ips[1], b.ips[2]
	five := b.start(top, foreign[2])
	four := b.start(mid, foreign[1])
	three := b.start(low, foreign[0])
	three.follows(0, top)
	four.follows(0, top)
	b.wire.waitFrom(0, `"identification"`, low+">"+top, `"is_temporary": false`)
	b.wire.waitFrom(0, `"identification"`, top+">"+low, `"is_boss": true`, `"is_temporary": false`)
	b.wire.waitFrom(0, `"identification"`, top+">"+mid, `"is_boss": true`, `"is_temporary": false`)

	// 172.18.0.5 dies. 172.18.0.3 is the first to notice.
	from, told := b.wire.mark(), three.mark()
	four.stop()
	five.kill()
	asked := b.wire.waitFrom(from, `"dial"`, low+">"+top)
	if !foreign[0] { // the first dial finds that the process is gone, the next one asks it
		asked = b.wire.waitFrom(asked+1, `"dial"`, low+">"+top)
	}
	asked = b.wire.waitFrom(asked, `"election"`, low+">"+mid)
	four.signal(syscall.SIGCONT)
	// The answer has a connection of its own: the bridge may see it before or after the rest.
	b.wire.waitFrom(asked, `"election_response"`, mid+">"+low)
	if foreign[1] { // it may notice the death before it hears of the election
		b.wire.waitFrom(from, `"dial"`, mid+">"+top)
		b.wire.waitFrom(from, `"new_boss"`, mid+">"+low)
	} else {
		gone := b.wire.waitFrom(asked, `"dial"`, mid+">"+top)
		asks := b.wire.waitFrom(gone+1, `"dial"`, mid+">"+top)
		said := b.wire.waitFrom(asks, `"new_boss"`, mid+">"+low)
		b.wire.waitFrom(said, `"identification"`, mid+">"+low, `"is_boss": true`, `"is_temporary": true`)
	}
	three.follows(told, mid)
	kept := b.wire.waitFrom(asked, `"identification"`, low+">"+mid, `"is_temporary": false`)
	b.wire.waitFrom(kept, `"identification"`, mid+">"+low, `"is_boss": true`, `"is_temporary": false`)
	if ends := b.neighbours(low); !slices.Equal(ends, []string{mid}) {
		t.Errorf("%s keeps connections with %v", low, ends)
	}

	// 172.18.0.5 returns. batuta's follows the boss that it finds; the foreign one
	// looks above itself alone, and takes over.
	from, told = three.mark(), four.mark()
	seen := b.wire.mark()
	five = b.start(top, foreign[2])
	if !foreign[2] {
		five.follows(0, mid)
		b.wire.waitFrom(seen, `"identification"`, top+">"+mid, `"is_temporary": false`)
		return
	}
	five.follows(0, top)
	three.follows(from, top)
	four.follows(told, top)
	b.wire.waitFrom(seen, `"new_boss"`, top+">"+low)
	b.wire.waitFrom(seen, `"new_boss"`, top+">"+mid)
}
