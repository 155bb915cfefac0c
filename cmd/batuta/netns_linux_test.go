package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// lan is agents on machines of their own, as far as they can tell: network
// namespaces, each with a wire to one of two switches. Switches and wires are in
// a namespace too; nothing of this machine's own network is touched.
type lan struct {
	*cluster
	t        *testing.T
	watch    *stalltest.Watch
	prefix   string // of the names of namespaces
	machines int
	dir      string   // data directories, by number of the machine
	runs     []string // the command and its arguments: "agent", or another that is a member too
	ends     map[*process]bool
	handles  []*netlink.Handle // of holders
	clients  []*client
	step     atomic.Pointer[step] // the last of a test, for a watch that runs with it
}

// step is a step of a test.
type step struct {
	what  string
	began time.Time
}

// lans counts them: each has namespaces of its own.
var lans atomic.Int64

// Where things are: machine i has the address 10.77.0.i.
const (
	mainSwitch, farSwitch = "near", "far"
	switchRoom            = "sw"
	cable                 = "cable" // between the two
)

func machineAddress(i int) string { return fmt.Sprintf("10.77.0.%d:7400", i) }
func machineMAC(i int) string     { return fmt.Sprintf("02:00:00:00:00:%02x", i) }

// newLAN makes n machines, all on one switch; nothing runs on them yet. It skips
// the test where there are no namespaces to be had, unless BATUTA_TEST_NETNS
// says that there must be.
func newLAN(t *testing.T, n int) *lan {
	t.Helper()
	unavailable := t.Skipf
	if os.Getenv("BATUTA_TEST_NETNS") != "" {
		unavailable = t.Fatalf
	}
	if os.Getuid() != 0 {
		unavailable("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		unavailable("network namespaces need iproute2: %v", err)
	}
	l := &lan{t: t, watch: stalltest.Start(t), prefix: fmt.Sprintf("batuta%d-%d-", os.Getpid(), lans.Add(1)), dir: stalltest.Dir(t), machines: n, runs: []string{"agent"}, ends: map[*process]bool{},
		cluster: &cluster{lines: make(chan childLine, 64), closing: make(chan struct{})}}
	l.space(switchRoom)
	for _, name := range []string{mainSwitch, farSwitch} {
		l.ip(switchRoom, "link", "add", name, "type", "bridge", "ageing_time", "0") // it learns nothing that a move makes wrong
		l.ip(switchRoom, "link", "set", name, "up")
	}
	l.ip(switchRoom, "link", "add", cable, "master", mainSwitch, "up", "type", "veth", "peer", "name", "plug")
	l.ip(switchRoom, "link", "set", "plug", "master", farSwitch, "up")
	for i := 1; i <= n; i++ {
		l.plugIn(i, n)
	}
	t.Cleanup(l.close) // before the namespaces go
	return l
}

// space makes a namespace that ends with the test.
func (l *lan) space(name string) {
	l.t.Helper()
	l.run("ip", "netns", "add", l.prefix+name)
	l.t.Cleanup(func() { exec.Command("ip", "netns", "del", l.prefix+name).Run() })
}

// plugIn makes machine i of n. It knows the others' hardware addresses: how long
// a kernel takes to ask for them again after a cut is not what is tested here.
func (l *lan) plugIn(i, n int) {
	l.t.Helper()
	name, port := strconv.Itoa(i), wire(i)
	l.space(name)
	l.ip(switchRoom, "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", machineMAC(i), "netns", l.prefix+name)
	l.ip(switchRoom, "link", "set", port, "master", mainSwitch, "up")
	host, _, _ := net.SplitHostPort(machineAddress(i))
	l.ip(name, "addr", "add", host+"/24", "dev", "eth0")
	l.ip(name, "link", "set", "lo", "up")
	l.ip(name, "link", "set", "eth0", "up")
	for other := 1; other <= n; other++ {
		if other != i {
			l.route(i, other, machineMAC(other))
		}
	}
}

func wire(i int) string { return fmt.Sprintf("port%d", i) }

// ip runs an ip command in a namespace.
func (l *lan) ip(space string, args ...string) {
	l.t.Helper()
	l.run("ip", append([]string{"-n", l.prefix + space}, args...)...)
}

func (l *lan) run(name string, args ...string) {
	l.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		l.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
}

// part leaves machines on the far switch, whose cable to the other is pulled then: all of them
// are parted, and healed, at one moment, however long a busy machine takes over each of them.
func (l *lan) part(machines ...int) {
	l.t.Helper()
	var lines strings.Builder
	for i := 1; i <= l.machines; i++ {
		to := mainSwitch
		if slices.Contains(machines, i) {
			to = farSwitch
		}
		fmt.Fprintf(&lines, "link set %s master %s\n", wire(i), to)
	}
	fmt.Fprintf(&lines, "link set %s down\n", cable)
	file := filepath.Join(l.t.TempDir(), "moves")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.ip(switchRoom, "-batch", file)
}

// heal plugs the cable in again, and tells when.
func (l *lan) heal() time.Time {
	l.t.Helper()
	l.ip(switchRoom, "link", "set", cable, "up")
	return l.mark()
}

// vanish takes machine i off the network, as a machine without power is. It does not
// notice: it has its carrier still.
func (l *lan) vanish(i int) {
	l.t.Helper()
	l.ip(switchRoom, "link", "set", wire(i), "nomaster")
}

// route has machine i send what is for the other to mac.
func (l *lan) route(i, other int, mac string) {
	l.t.Helper()
	host, _, _ := net.SplitHostPort(machineAddress(other))
	l.ip(strconv.Itoa(i), "neigh", "replace", host, "lladdr", mac, "dev", "eth0", "nud", "permanent")
}

// cut lets nothing pass between two machines: both send to a hardware address
// that nobody has.
func (l *lan) cut(a, b int) {
	l.t.Helper()
	l.route(a, b, machineMAC(255))
	l.route(b, a, machineMAC(255))
}

func (l *lan) mend(a, b int) {
	l.t.Helper()
	l.route(a, b, machineMAC(b))
	l.route(b, a, machineMAC(a))
}

// mute lets nothing leave a machine; what is for it arrives.
func (l *lan) mute(i int) {
	l.t.Helper()
	l.run("tc", "-n", l.prefix+strconv.Itoa(i), "qdisc", "add", "dev", "eth0", "root", "blackhole")
}

func (l *lan) unmute(i int) time.Time {
	l.t.Helper()
	l.run("tc", "-n", l.prefix+strconv.Itoa(i), "qdisc", "del", "dev", "eth0", "root")
	return l.mark()
}

// boot runs an agent with id on machine i. Its data directory is the machine's.
func (l *lan) boot(i int, id string, flags ...string) *member {
	l.t.Helper()
	m := &member{id: id, listen: machineAddress(i)}
	l.members = append(slices.DeleteFunc(l.members, func(old *member) bool { return old.process == nil }), m)
	args := append(l.in(i, append([]string{"batuta"}, l.runs...)...), "--id", id, "--listen", m.listen, "--insecure", "--http", "127.0.0.1:7500",
		"--events", "json", "--log-level", "error", "--data-dir", filepath.Join(l.dir, strconv.Itoa(i)))
	args = append(args, flags...)
	ip, err := exec.LookPath(args[0])
	if err != nil {
		l.t.Fatal(err)
	}
	if m.process, err = startProcess(ip, l.dir, args); err != nil {
		l.t.Fatal(err)
	}
	go m.process.read(m, l.lines, l.closing)
	return m
}

// in is a command line that runs on machine i.
func (l *lan) in(i int, argv ...string) []string {
	return append([]string{"ip", "netns", "exec", l.prefix + strconv.Itoa(i)}, argv...)
}

// bootAll runs agent i on machine i of n, each with the whole list, and waits
// until they follow the highest.
func (l *lan) bootAll(n int, flags ...string) {
	l.t.Helper()
	flags = append(flags, everyone(n)...)
	highest := l.boot(n, strconv.Itoa(n), flags...) // first, so that it leads with --preempt=false too
	l.until("the highest leads", func() bool { return l.follow(highest.id, highest) })
	for i := n - 1; i > 0; i-- {
		l.members = append([]*member{l.boot(i, strconv.Itoa(i), flags...)}, l.members[:n-i]...)
	}
	l.until("all follow the highest", func() bool { return l.follow(strconv.Itoa(n), l.members...) })
	l.mark()
}

// everyone is the whole list as flags.
func everyone(n int) (flags []string) {
	for i := 1; i <= n; i++ {
		flags = append(flags, "--member", fmt.Sprintf("%d=%s", i, machineAddress(i)))
	}
	return flags
}

// until takes in events until good.
func (l *lan) until(what string, good func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), agreeWithin)
	defer cancel()
	for !good() {
		select {
		case line := <-l.lines:
			l.note(line)
		case <-ctx.Done():
			l.explain()
			l.t.Fatalf("waited %v in vain until %s: %s", agreeWithin, what, l.views())
		}
	}
}

// explain logs what every agent that runs did lately, and why.
func (l *lan) explain() {
	for _, m := range l.members {
		argv := l.in(m.machine(), "batuta", "explain", "--trace", "--http", "127.0.0.1:7500")
		if out, err := exec.Command(argv[0], argv[1:]...).Output(); err == nil {
			l.t.Logf("member %s at %s:\n%s", m.id, m.listen, out)
		}
	}
}

// machine is the number of the machine that m runs on.
func (m *member) machine() (i int) {
	for machineAddress(i) != m.listen {
		i++
	}
	return i
}

// quiet takes in events for d.
func (l *lan) quiet(d time.Duration) {
	l.t.Helper()
	over := time.After(d)
	for {
		select {
		case line := <-l.lines:
			l.note(line)
		case <-over:
			return
		}
	}
}

// note takes in a line, or the end of a process.
func (l *lan) note(line childLine) {
	l.t.Helper()
	if line.end {
		l.ends[line.process] = true
		l.t.Logf("a process of member %s has ended: %s", line.member.id, line.process.lastWords())
		if line.member.process == line.process {
			line.member.process = nil
		}
		return
	}
	if err := l.take(line); err != nil {
		l.t.Fatal(err)
	}
}

// follow reports whether all of ms follow leader under one epoch.
func (l *lan) follow(leader string, ms ...*member) bool {
	for _, m := range ms {
		if m.leader != leader || m.epoch != ms[0].epoch {
			return false
		}
	}
	return true
}

// undisturbed takes in events for d and fails the test if one of ms, who all follow
// leader, sees that change since the last mark. A machine that held processes up for
// t_max or longer earns a suspicion: then it marks and looks once more.
func (l *lan) undisturbed(d time.Duration, leader string, ms ...*member) {
	l.t.Helper()
	const looks = 10
	for range looks {
		l.quiet(d)
		seen, stall := l.disturbances(ms), l.stall()
		if len(seen) == 0 && l.follow(leader, ms...) {
			return
		}
		if stall < defaults.TMax {
			l.explain()
			l.t.Fatalf("disturbed, and the machine stalled for %v at most: %s; now %s", stall, strings.Join(seen, "; "), l.views())
		}
		l.t.Logf("the machine stalled for %v: %s", stall, strings.Join(seen, "; "))
		l.until("all follow "+leader+" again", func() bool { return l.follow(leader, ms...) })
		l.mark()
	}
	l.t.Fatalf("the machine stalled each of %d times: nothing can be said on it", looks)
}

// disturbances are the changes of leader that ms have seen since the last mark.
func (l *lan) disturbances(ms []*member) (seen []string) {
	for _, m := range ms {
		for _, e := range m.events {
			if e.Event == "leader" || e.Event == "lost" {
				seen = append(seen, fmt.Sprintf("%v after the mark %s tells %s %s of epoch %d %s", e.Time.Sub(l.since), m.id, e.Event, e.Leader, e.Epoch, e.Cause))
			}
		}
	}
	return seen
}

// stall is the machine's longest since the last mark, or shortly before: a member that stalled may report its loss only
// after the mark.
func (l *lan) stall() time.Duration { return l.watch.Longest(l.since.Add(-defaults.T()), time.Now()) }

// once fails the test unless m has lost its own lead once since the last mark, or
// oftener on a machine that stalled.
func (l *lan) once(m *member) {
	l.t.Helper()
	n, stall := m.count(lost(m.id)), l.stall()
	if n == 0 || n > 1 && stall < defaults.TMax {
		l.explain()
		l.t.Errorf("%s says %d times that it has lost its lead, want once; the machine stalled for %v at most", m.id, n, stall)
	}
}

// within fails the test if a member came to its view later than d after since, but
// for what the machine held up.
func (l *lan) within(d time.Duration, since time.Time) {
	l.t.Helper()
	for _, m := range l.members {
		if took := l.watch.Given(since, m.at); took > d {
			l.t.Errorf("%s follows %s %v after the heal, %v of it given by the machine; want %v at most", m.id, m.leader, m.at.Sub(since), took, d)
		}
	}
}

// ended waits until a process has ended by itself, as it must: with this code
// and these last words.
func (l *lan) ended(m *member, p *process, code int, words string) {
	l.t.Helper()
	l.until("member "+m.id+" ends", func() bool { return l.ends[p] })
	if got := p.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(p.lastWords(), words) {
		l.t.Errorf("member %s ended with %d, saying %q; want %d and %q", m.id, got, p.lastWords(), code, words)
	}
}

// tell runs a batuta command on machine i, which must succeed.
func (l *lan) tell(i int, args ...string) {
	l.t.Helper()
	argv := l.in(i, append(append([]string{"batuta"}, args...), "--http", "127.0.0.1:7500")...)
	l.cluster.mark()
	l.run(argv[0], argv[1:]...)
}

// count is how many of m's events since the last mark are good.
func (m *member) count(good func(api.Line) bool) (n int) {
	for _, e := range m.events {
		if good(e) {
			n++
		}
	}
	return n
}

func lost(leader string) func(api.Line) bool {
	return func(e api.Line) bool { return e.Event == "lost" && e.Leader == leader }
}

func state(of, is string) func(api.Line) bool {
	return func(e api.Line) bool { return e.Event == "member" && e.Member == of && e.State == is }
}
