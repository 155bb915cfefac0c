package run

import (
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/core/attest"
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
	reportGone    reportKind = "gone"    // Outcome: nothing of the command is left
	reportBarred  reportKind = "barred"  // Error: why the guard attests nothing
)

// report is a line from the guard.
type report struct {
	What    reportKind `json:"what"`
	Group   int        `json:"group,omitempty"` // process group of the command, or a single process
	Error   string     `json:"error,omitempty"`
	Outcome Outcome    `json:"outcome,omitzero"`
}

// Command is what to run while leading.
type Command struct {
	Argv  []string      `json:"argv"`
	Env   []string      `json:"env"`            // the whole environment, NAME=VALUE
	Grace time.Duration `json:"grace"`          // from SIGTERM to SIGKILL
	Last  time.Duration `json:"last"`           // grace after the end of the lease, or of the starter; 0: SIGKILL at once
	Name  string        `json:"name,omitempty"` // prefix of each line of its output; "": it writes directly
}

// Outcome is how a command ended.
type Outcome struct {
	Code    int            `json:"code"`             // exit code; -1 if a signal ended it
	Signal  syscall.Signal `json:"signal,omitempty"` // that ended it; 0: none
	Expired bool           `json:"expired"`          // killed, or asked to end, because the lease was not renewed

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
