// Package floor measures the least that replacing a leader costs on a machine: connections
// of processes on loopback end, and a round of messages follows. No election is held.
package floor

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// Round starts n processes by command, which is to run [Member] with the arguments it adds.
// Then the connections of a victim end, because it is killed or closes them. A claimant
// notices, and sends a message to the rest. Each saves a few bytes in dir first; empty: none
// does. It measures how long a write takes by itself, and how long after the fault the claimant
// sends, and the last process is done.
func Round(ctx context.Context, command []string, n int, kill bool, dir string) (sync, first, all time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	listeners, args := make([]*os.File, 2), []string{strconv.Itoa(n), dir}
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, 0, err
		}
		defer l.Close()
		if listeners[i], err = l.(*net.TCPListener).File(); err != nil {
			return 0, 0, 0, err
		}
		defer listeners[i].Close()
		args = append(args, l.Addr().String())
	}
	commands, stdin, stdout := make([]*exec.Cmd, n), make([]io.WriteCloser, n), make([]*bufio.Scanner, n)
	for i := range commands {
		c := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], args, []string{strconv.Itoa(i)})...)
		c.Args[0], c.Stderr, c.ExtraFiles = "batuta", os.Stderr, listeners
		in, broken := c.StdinPipe()
		out, err := c.StdoutPipe()
		if err = cmp.Or(broken, err, c.Start()); err != nil {
			return 0, 0, 0, err
		}
		defer c.Wait()
		defer in.Close()
		commands[i], stdin[i], stdout[i] = c, in, bufio.NewScanner(out)
	}
	next := func(i int) int64 {
		stdout[i].Scan()
		ns, broken := strconv.ParseInt(stdout[i].Text(), 10, 64)
		if broken != nil {
			err = fmt.Errorf("measure the floor: process %d of %d ends early, or takes more than 10 s: %w", i+1, n, broken)
		}
		return ns
	}
	took := make([]int64, n)
	for i := range took {
		took[i] = next(i)
	}
	at := time.Now()
	if kill {
		commands[0].Process.Kill()
	} else {
		stdin[0].Write([]byte{1})
	}
	for i := 1; i < n && err == nil; i++ {
		all = max(all, time.Unix(0, next(i)).Sub(at))
		first = cmp.Or(first, all)
	}
	return time.Duration(slices.Min(took)), first, all, err
}

// Member is a process of a round, with the arguments that [Round] gives it. It prints how
// many nanoseconds a write took, and then the time at which it is done, in nanoseconds.
func Member(args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 5 {
		return fmt.Errorf("%d arguments: this command is started by batuta bench failover only", len(args))
	}
	n, _ := strconv.Atoi(args[0])
	number, err := strconv.Atoi(args[4])
	var dialed, accepted []net.Conn
	for _, address := range args[2 : 2+min(number, 2)] {
		c, broken := net.Dial("tcp", address)
		dialed, err = append(dialed, c), cmp.Or(err, broken)
	}
	var l net.Listener
	if number < 2 && err == nil {
		l, err = net.FileListener(os.NewFile(uintptr(3+number), "listener"))
	}
	for i := number + 1; i < n && l != nil && err == nil; i++ {
		var c net.Conn
		c, err = l.Accept()
		accepted = append(accepted, c)
	}
	save := func() {}
	if args[1] != "" && err == nil {
		var f *os.File
		if f, err = os.CreateTemp(args[1], "floor-"); err != nil {
			return err
		}
		defer f.Close()
		save = func() { err = cmp.Or(err, datadir.Write(f, make([]byte, 512), 0)) }
	}
	save() // and the file has its size
	began, b := time.Now(), make([]byte, 1)
	if save(); err != nil {
		return err
	}
	fmt.Fprintln(out, time.Since(began).Nanoseconds())
	if number == 0 {
		in.Read(b)
		for _, c := range accepted {
			c.Close()
		}
		_, err = io.Copy(io.Discard, in) // so that its end costs the rest nothing
		return err
	}
	for _, c := range dialed {
		c.Read(b) // the end of the victim's, and the claimant's message
	}
	save()
	done := time.Now()
	for _, c := range accepted {
		c.Write(b)
	}
	fmt.Fprintln(out, done.UnixNano())
	return err
}

// Machine is what figures were measured on; what the system does not report is empty.
type Machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Kernel string  `json:"kernel"`
	Go     string  `json:"go"`
	Commit string  `json:"commit"` // of this program; unknown: it was built without
	Load   float64 `json:"load"`   // the mean of the last minute
}

var commit string // of a release's build (-ldflags "-X …/floor.commit=…"), which has no stamp of the go command

// Here is this machine, with its load now.
func Here() Machine {
	read := func(file, from, to string) string {
		content, _ := os.ReadFile(file)
		_, s, _ := strings.Cut(string(content), from)
		s, _, _ = strings.Cut(s, to)
		return strings.TrimSpace(s)
	}
	m := Machine{CPU: read("/proc/cpuinfo", "model name\t:", "\n"), Cores: runtime.NumCPU(),
		Kernel: runtime.GOOS + " " + read("/proc/sys/kernel/osrelease", "", "\n"), Go: runtime.Version()}
	m.Load, _ = strconv.ParseFloat(read("/proc/loadavg", "", " "), 64)
	info, _ := debug.ReadBuildInfo() // nil: built without modules
	_, revision, _ := strings.Cut(fmt.Sprint(info), "vcs.revision=")
	revision, _, _ = strings.Cut(revision, "\n")
	m.Commit = cmp.Or(commit, revision, "unknown")
	return m
}

// String is a line of text.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, commit %.12s, load %.1f", m.CPU, m.Cores, m.Kernel, m.Go, m.Commit, m.Load)
}
