package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/core/attest"
	"golang.org/x/sys/unix"
)

// orderKind is the kind of an order from the node's process to the guard.
type orderKind string

const (
	orderStart  orderKind = "start"  // Command, Until, Ask, Leap
	orderRenew  orderKind = "renew"  // Until, Ask
	orderSignal orderKind = "signal" // Signal: send it to the group
	orderStop   orderKind = "stop"   // Signal: the group has the grace period to end
	orderKill   orderKind = "kill"
	orderOath   orderKind = "oath" // Oath, Agent: what to attest once Agent is dead and the group gone
)

// order is a line to the guard.
type order struct {
	Do      orderKind      `json:"do"`
	Command *Command       `json:"command,omitempty"`
	Until   instant        `json:"until,omitempty"` // end of the lease
	Ask     instant        `json:"ask,omitempty"`   // when the group is asked to end without a renewal; 0: never
	Leap    time.Duration  `json:"leap,omitempty"`  // a wall clock that runs ahead by more ends the lease
	Signal  syscall.Signal `json:"signal,omitempty"`
	Oath    *attest.Oath   `json:"oath,omitempty"`
	Agent   int            `json:"agent,omitempty"` // the sender's pid
}

// reportKind is the kind of a report from the guard to the node's process.
type reportKind string

const (
	reportStarted reportKind = "started" // Group
	reportFailed  reportKind = "failed"  // Error: nothing was started
	reportRefused reportKind = "refused" // Group: a process of the command that the guard may not signal
	reportGone    reportKind = "gone"    // Outcome, At: nothing of the command is left
	reportBarred  reportKind = "barred"  // Error: why the guard attests nothing
)

// report is a line from the guard.
type report struct {
	What    reportKind `json:"what"`
	Group   int        `json:"group,omitempty"` // process group of the command, or a single process
	Error   string     `json:"error,omitempty"`
	Outcome Outcome    `json:"outcome,omitzero"`
	At      instant    `json:"at,omitempty"` // when nothing of the command ran any more; 0: nothing was started
}

// Command is what to run while leading.
type Command struct {
	Argv  byteStrings   `json:"argv"`
	Env   byteStrings   `json:"env"`            // the whole environment, NAME=VALUE
	Grace time.Duration `json:"grace"`          // from SIGTERM to SIGKILL
	Last  time.Duration `json:"last"`           // grace after the end of the lease, or of the starter; 0: SIGKILL at once
	Name  string        `json:"name,omitempty"` // prefix of each line of its output; "": it writes directly
}

// byteStrings are strings that JSON keeps byte for byte, although they may not be UTF-8.
type byteStrings []string

// MarshalJSON implements [json.Marshaler].
func (list byteStrings) MarshalJSON() ([]byte, error) {
	all := make([][]byte, len(list))
	for i, s := range list {
		all[i] = []byte(s)
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (list *byteStrings) UnmarshalJSON(b []byte) error {
	var all [][]byte
	err := json.Unmarshal(b, &all)
	for _, s := range all {
		*list = append(*list, string(s))
	}
	return err
}

// Outcome is how a command ended.
type Outcome struct {
	Code    int            `json:"code"`             // exit code; -1 if a signal ended it
	Signal  syscall.Signal `json:"signal,omitempty"` // that ended it; 0: none
	Expired bool           `json:"expired"`          // killed, or asked to end, because the lease was not renewed
	Unbegun bool           `json:"unbegun"`          // expired, or was to be asked to end, before it was started

	TimedOut bool `json:"-"` // stopped at its timeout
}

// pipe is an end of the connection between the two processes. Each end detects the death of the
// peer as the end of the stream.
type pipe struct {
	file *os.File
	in   *json.Decoder

	mu  sync.Mutex
	out *json.Encoder
}

func newPipe(f *os.File) *pipe {
	return &pipe{file: f, in: json.NewDecoder(f), out: json.NewEncoder(f)}
}

// tell writes a line. Its error is ignored on purpose where the reader detects the peer's death
// anyway.
func (p *pipe) tell(v any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(v)
}

// socketPair makes both ends of a connection; no further child inherits either.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	// Non-blocking, so that closing our end wakes its reader.
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, os.NewSyscallError("setnonblock", err)
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "guarded"), nil
}

// output prefixes each line of a command with its name. A nil output does nothing.
type output struct {
	theirs []*os.File // the command's ends, until it has begun
	ours   []*os.File
	copied sync.WaitGroup
}

// maxLine is the length, in bytes, at which a line without an end is split.
const maxLine = 64 << 10

// lastOutput is how long it may take to read the last output of a command.
const lastOutput = time.Second

// newOutput makes pipes, and replaces standard output and error by the command's ends.
func newOutput(name string, files *[]uintptr) (*output, error) {
	o := &output{}
	for _, to := range []*os.File{os.Stdout, os.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			o.begun()
			o.finish()
			return nil, err
		}
		(*files)[len(o.theirs)+1] = w.Fd()
		o.theirs, o.ours = append(o.theirs, w), append(o.ours, r)
		o.copied.Go(func() { copyLines(to, r, name+": ") })
	}
	return o, nil
}

// begun closes this process's copies of the command's ends.
func (o *output) begun() {
	if o != nil {
		for _, f := range o.theirs {
			f.Close()
		}
	}
}

// finish waits for the last lines once there is no writer left, for a limited time.
func (o *output) finish() {
	if o == nil {
		return
	}
	for _, f := range o.ours {
		f.SetReadDeadline(time.Now().Add(lastOutput))
	}
	done := make(chan struct{})
	go func() { o.copied.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(lastOutput): // the output is not being read
	}
}

// copyLines copies lines, each in a single write. If a write fails, the command's next write fails
// as if it had written directly.
func copyLines(to, from *os.File, prefix string) {
	defer from.Close()
	in := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			out := append(append(make([]byte, 0, len(prefix)+len(line)+1), prefix...), line...)
			if line[len(line)-1] != '\n' {
				out = append(out, '\n')
			}
			if _, err := to.Write(out); err != nil {
				return
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// inbox receives a guard's orders, a line each. It is read without waiting, so that its reader can
// detect that it has read all orders that had arrived.
type inbox struct {
	fd   int
	part []byte // an incomplete line
}

// watch sends to wake whenever there is input, or the sender has closed its end.
func (b *inbox) watch(wake chan<- struct{}) {
	for {
		if b.ready(-1) {
			wake <- struct{}{}
		}
	}
}

// ready reports whether there is input, after waiting for timeout (ms; -1: without limit).
func (b *inbox) ready(timeout int) bool {
	fds := []unix.PollFd{{Fd: int32(b.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, timeout)
		if err == unix.EINTR && timeout == 0 {
			continue
		}
		return err == nil && n > 0
	}
}

// take reads the orders that have arrived. If open is false there are no more: the sender has
// closed its end, or sent something that is no order.
func (b *inbox) take() (orders []order, open bool) {
	for open = true; open && b.ready(0); {
		buffer := make([]byte, 4096)
		n, err := syscall.Read(b.fd, buffer)
		if err == syscall.EINTR {
			continue
		}
		open = err == nil && n > 0
		b.part = append(b.part, buffer[:max(n, 0)]...)
	}
	for {
		line, rest, whole := bytes.Cut(b.part, []byte("\n"))
		if !whole {
			return orders, open
		}
		b.part = rest
		var o order
		if json.Unmarshal(line, &o) != nil {
			return orders, false
		}
		orders = append(orders, o)
	}
}

// own are the children that this process has started itself. Any further child was adopted: it
// descends from a process that has ended.
var own = started{pids: map[int]*exec.Cmd{}}

type started struct {
	sync.Mutex
	pids map[int]*exec.Cmd
}

// keep counts a child as this process's own though it has not started it.
func (s *started) keep(pid int) {
	if s.pids[pid] == nil {
		s.pids[pid] = &exec.Cmd{}
	}
}

// StartChild is c.Start for a process that has guards. When a guard has died, all of this process's
// children are killed, except those that were started by StartChild or [RunChild], or before the
// first guard. The caller must call [WaitChild].
func StartChild(c *exec.Cmd) error {
	own.Lock()
	defer own.Unlock()
	if err := c.Start(); err != nil {
		return err
	}
	own.pids[c.Process.Pid] = c
	return nil
}

// WaitChild is c.Wait for a child of [StartChild].
func WaitChild(c *exec.Cmd) error {
	err := c.Wait()
	own.Lock()
	defer own.Unlock()
	if own.pids[c.Process.Pid] == c {
		delete(own.pids, c.Process.Pid)
	}
	return err
}

// RunChild is c.Run for a process that has guards; see [StartChild].
func RunChild(c *exec.Cmd) error {
	if err := StartChild(c); err != nil {
		return err
	}
	return WaitChild(c)
}
