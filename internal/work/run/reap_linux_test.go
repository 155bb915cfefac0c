package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/batuta-dev/batuta/internal/work/run/runtest"
	"golang.org/x/sys/unix"
)

func init() { programs["unreaping"], programs["reapless"] = unreaping, reapless }

// unreaping is a guard that the kernel keeps forever in each call that reaps a child. After some
// reads of /proc the kernel does that for seconds.
func unreaping() {
	if err := neverReap(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Guard(nil)
}

// neverReap makes each later call of this process that would reap a child hang: the filter asks a
// listener what to do, and no process reads that.
func neverReap() error {
	const number, options = 0, 16 + 3*8 // where struct seccomp_data has them
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | code | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	filter := []unix.SockFilter{
		load(number),
		jump(unix.BPF_JEQ, unix.SYS_WAIT4, 3, 0),
		jump(unix.BPF_JEQ, unix.SYS_WAITID, 0, 3),
		load(options),
		jump(unix.BPF_JSET, unix.WNOWAIT, 1, 0),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// mayHang skips a test where the system has no such filter.
func mayHang(t *testing.T) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&[]uint32{unix.SECCOMP_RET_USER_NOTIF}[0]))); errno != 0 {
		t.Skipf("the system cannot keep a process in a call: %v", errno)
	}
}

// The kernel can take seconds to reap a process of which /proc was read. The end of a command is
// reported before, and the guard then serves the next, more often than it has threads that reap.
func TestAnEndIsReportedBeforeItIsReaped(t *testing.T) {
	t.Parallel()
	mayHang(t)
	f := newFactory(t)
	k := keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "unreaping"}}}
	t.Cleanup(k.close)
	guard := 0
	for code := range cap(reaping.at) + 4 {
		ended := make(chan Outcome, 1)
		go func() {
			o, err := k.run(t.Context(), &Command{Argv: f.argv("quit=" + strconv.Itoa(code)), Env: os.Environ()}, lease, long, func() (term, bool) {
				return term{until: now().add(long)}, true
			})
			if err != nil {
				t.Error(err)
			}
			ended <- o
		}()
		w := f.Next()
		k.signal(syscall.SIGUSR2)
		select {
		case o := <-ended:
			if o.Code != code || o.Signal != 0 {
				t.Fatalf("ended as %+v; want exit code %d", o, code)
			}
		case <-time.After(runtest.Patience):
			t.Fatalf("the end of command %d is never reported", code)
		}
		if now := k.guard.cmd.Process.Pid; guard != 0 && now != guard {
			t.Fatalf("guard %d has replaced %d", now, guard)
		} else {
			guard = now
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.Pid)); err != nil || !strings.Contains(string(stat), ") Z ") {
			t.Fatalf("process %d was reaped after all: %s, %v", w.Pid, stat, err)
		}
	}
}

// reapless is an agent that the kernel keeps forever in each call that reaps a child. It runs a
// command twice, whatever ends the first run.
func reapless() {
	k := keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "guard"}}}
	_, err := k.ready()
	if err == nil {
		err = neverReap()
	}
	for range 2 {
		if err == nil || errors.Is(err, ErrGuard) {
			fmt.Println("starts", err)
			_, err = k.run(context.Background(), &Command{Argv: os.Args[2:], Env: os.Environ()}, time.Second, long, func() (term, bool) {
				return term{until: now().add(long)}, true
			})
		}
	}
	fmt.Println("ends", err)
}

// Nor does an agent wait for its guard to be reaped: after the death of its guard a command runs again at
// once, under a new guard.
func TestADeadGuardIsReplacedBeforeItIsReaped(t *testing.T) {
	mayHang(t)
	f, v := newFactory(t), newVoter(t)
	agent, _ := v.agent(t, os.Args[0], nil, append([]string{"reapless"}, f.argv("quit=0")...)...)
	first := f.Next()
	syscall.Kill(guardOf(t, agent.Process.Pid, 0), syscall.SIGKILL)
	f.Dies(first)
	syscall.Kill(f.Next().Pid, syscall.SIGUSR2)
	if err := WaitChild(agent); err != nil {
		t.Error(err)
	}
}
