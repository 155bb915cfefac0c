package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// netlinks are what asks the kernel about machines 1 to n, until the test ends.
func (l *lan) netlinks(n int) (machines []*netlink.Handle) {
	l.t.Helper()
	for i := 1; i <= n; i++ {
		h := l.netlink(strconv.Itoa(i))
		l.t.Cleanup(h.Close)
		machines = append(machines, h)
	}
	return machines
}

// netlink is what asks the kernel about a namespace. The caller closes it.
func (l *lan) netlink(name string) *netlink.Handle {
	l.t.Helper()
	space, err := netns.GetFromName(l.prefix + name)
	if err != nil {
		l.t.Fatal(err)
	}
	defer space.Close()
	h, err := netlink.NewHandleAt(space)
	if err != nil {
		l.t.Fatal(err)
	}
	return h
}

// neverTwo watches that no two machines of n have the address at one moment. What it gives ends
// that, and reports how often it has looked. A failure names the last step, and when that began. Two may have the address
// for as long as the machine held up a process, or the removal of any address, beyond what is left of the lease.
func (l *lan) neverTwo(n int, addr string) (end func() int) {
	l.t.Helper()
	want := netip.MustParseAddr(addr)
	machines := l.netlinks(n)
	kernel := l.watchRemovals()
	over, looked := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		var since time.Time // of the present overlap; zero: none
		defer func() { looked <- count }()
		for {
			began := time.Now()
			both := together(l.t, machines, want)
			if len(both) < 2 {
				since = time.Time{}
			} else if since.IsZero() {
				since = began
			}
			if len(both) > 1 {
				at, now := *l.step.Load(), time.Now()
				held := max(l.watch.Longest(since.Add(-defaults.T()), now), kernel.longest(since.Add(-defaults.T()), now))
				if overlap := now.Sub(since); held < spare+overlap {
					l.t.Errorf("machines %v have %s at the same time for %v, %v after %q; the machine held up a process or a removal for %v at most", both, addr, overlap, now.Sub(at.began), at.what, held)
					return
				}
			}
			count++
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	end = sync.OnceValue(func() int { close(over); return <-looked })
	l.t.Cleanup(func() { end() }) // before its connections to the machines are closed
	return end
}

// spare is what is left of a lease when the guard has been due to remove the address: it asks at half of the lease,
// and removes 100 ms later.
const spare = 150 * time.Millisecond

// together are the machines that have an address at the same moment. Two looks: a machine that had it before the second
// look began, and still has it, had it together with the others.
func together(t *testing.T, machines []*netlink.Handle, want netip.Addr) []int {
	first := haveAddress(t, machines, want)
	if len(first) < 2 {
		return nil
	}
	again := haveAddress(t, machines, want)
	return slices.DeleteFunc(first, func(i int) bool { return !slices.Contains(again, i) })
}

// removals records how long the kernel takes to remove an address. All namespaces share its lock, which a process of low
// priority may hold for more than a second on a busy machine.
type removals struct {
	mu    sync.Mutex
	began time.Time // of the present one
	waits [][2]time.Time
}

// watchRemovals begins to record, in a namespace of its own, until the test ends.
func (l *lan) watchRemovals() *removals {
	l.t.Helper()
	const name = "removals"
	l.space(name)
	h := l.netlink(name)
	lo, err := h.LinkByName("lo")
	if err != nil {
		l.t.Fatal(err)
	}
	none, _ := netlink.ParseAddr(floating4 + "/24")
	r, over, ended := &removals{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			r.begin(time.Now())
			if err := h.AddrDel(lo, none); !errors.Is(err, syscall.EADDRNOTAVAIL) {
				l.t.Errorf("removing no address: %v", err)
			}
			r.end(time.Now())
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	l.t.Cleanup(func() { close(over); <-ended; h.Close() })
	return r
}

func (r *removals) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = now
}

func (r *removals) end(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.began) > spare {
		r.waits = append(r.waits, [2]time.Time{r.began, now})
	}
	r.began = time.Time{}
}

// longest is the longest of at least spare that had begun by to, and had not ended by from.
func (r *removals) longest(from, to time.Time) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waits {
		if w[1].After(from) && w[0].Before(to) {
			longest = max(longest, w[1].Sub(w[0]))
		}
	}
	if !r.began.IsZero() {
		longest = max(longest, to.Sub(r.began))
	}
	return longest
}

// haveAddress are those of the machines, from 1, that have an address.
func haveAddress(t *testing.T, machines []*netlink.Handle, want netip.Addr) (list []int) {
	for i, h := range machines {
		link, err := h.LinkByName("eth0")
		if err != nil {
			t.Errorf("machine %d: %v", i+1, err)
			continue
		}
		addresses, err := h.AddrList(link, netlink.FAMILY_ALL)
		for errors.Is(err, netlink.ErrDumpInterrupted) { // they have changed meanwhile
			addresses, err = h.AddrList(link, netlink.FAMILY_ALL)
		}
		if err != nil {
			t.Errorf("machine %d: %v", i+1, err)
		}
		if slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.String() == want.String() }) {
			list = append(list, i+1)
		}
	}
	return list
}

// signal signals the process of batuta on machine i that runs a subcommand. A member that lost leadership after a stall
// of the machine starts one when it leads again.
func (l *lan) signal(i int, subcommand string, s syscall.Signal) {
	l.t.Helper()
	l.look(fmt.Sprintf("machine %d runs %s", i, subcommand), func() bool { return l.signaled(i, subcommand, s) })
}

// signaled reports whether there was such a process, which it has signaled.
func (l *lan) signaled(i int, subcommand string, s syscall.Signal) bool {
	return slices.ContainsFunc(l.all(i), func(pid int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(string(line), "\x00")
		return len(words) > 1 && words[1] == subcommand && syscall.Kill(pid, s) == nil
	})
}

// Under quorum one machine at a time has the address, whatever process of it is killed or stuck.
func TestAFloatingAddressOfAQuorum(t *testing.T) {
	t.Parallel()
	const n = 3
	l := newLAN(t, n)
	l.runs = []string{"vip", floating4 + "/24", "--dev", "eth0", "--algorithm", "quorum"}
	l.step.Store(&step{"boot", time.Now()})
	end := l.neverTwo(n, floating4)
	holds := func(what string, i int) {
		t.Helper()
		l.step.Store(&step{what, time.Now()})
		l.look(fmt.Sprintf("%s: machine %d has the address", what, i), func() bool { return slices.Equal(l.holders(n, floating4), []int{i}) })
	}
	for i := n; i > 0; i-- {
		l.members = append([]*member{l.boot(i, strconv.Itoa(i), everyone(n)...)}, l.members[:n-i]...)
	}
	holds("start", 3)
	l.find("3").process.cmd.Process.Kill()
	holds("kill -9 of the agent", 2)
	l.again(3, n)
	holds("it returns", 3)
	passes := func(subcommand string) { // the member tries again after a second: a busy machine may look too late for the address
		t.Helper()
		l.mark()
		l.step.Store(&step{"kill -9 of " + subcommand, time.Now()})
		l.signal(3, subcommand, syscall.SIGKILL)
		l.look("kill -9 of "+subcommand+": member 2 leads", func() bool { return slices.Contains(l.claims(), "2") })
	}
	passes("guard")
	holds("it tries again", 3)
	passes("hold-address")
	holds("it tries again", 3)
	l.find("3").process.cmd.Process.Signal(syscall.SIGSTOP)
	holds("the agent is frozen", 2)
	for killed := false; !killed; { // a stall of the machine may have just ended that process
		l.find("3").process.cmd.Process.Signal(syscall.SIGCONT)
		holds("it goes on", 3)
		l.find("3").process.cmd.Process.Signal(syscall.SIGSTOP) // or it would remove the address
		killed = l.signaled(3, "hold-address", syscall.SIGKILL)
	}
	l.find("3").process.cmd.Process.Kill()
	holds("kill -9 of the agent and of hold-address", 2)
	if looked := end(); looked < 100 && !t.Failed() {
		t.Errorf("it was looked %d times alone", looked)
	}
}
