// Package systemd sends the state of this process to the service manager, as sd_notify(3)
// describes it: datagrams of NAME=VALUE lines to the socket that NOTIFY_SOCKET names.
package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Notifier notifies a service manager. A nil Notifier sends nothing: there is no service
// manager.
type Notifier struct {
	conn *net.UnixConn
	beat time.Duration
}

// Open finds the service manager by the environment that lookup reads; nil when
// there is none. pid is this process's.
func Open(lookup func(string) (string, bool), pid int) (*Notifier, error) {
	path, _ := lookup("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "@") {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%q: want a path, or a name after @", path)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return &Notifier{conn, watchdog(lookup, pid)}, nil
}

// watchdog is half the time that the manager waits for a message from pid; 0: it does not wait.
func watchdog(lookup func(string) (string, bool), pid int) time.Duration {
	if whose, ok := lookup("WATCHDOG_PID"); ok && whose != strconv.Itoa(pid) {
		return 0
	}
	text, _ := lookup("WATCHDOG_USEC")
	us, err := strconv.ParseInt(text, 10, 63)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond / 2 // as sd_watchdog_enabled(3) advises
}

// Ready reports that the service has started.
func (n *Notifier) Ready() error { return n.tell("READY=1") }

// Stopping reports that the service ends.
func (n *Notifier) Stopping() error { return n.tell("STOPPING=1") }

// Status sends a line for people to read.
func (n *Notifier) Status(line string) error {
	return n.tell("STATUS=" + strings.ReplaceAll(line, "\n", " "))
}

// Alive reports that the service does its work.
func (n *Notifier) Alive() error { return n.tell("WATCHDOG=1") }

// Beat is the time between two calls of Alive; 0: none are needed.
func (n *Notifier) Beat() time.Duration {
	if n == nil {
		return 0
	}
	return n.beat
}

func (n *Notifier) tell(line string) error {
	if n == nil {
		return nil
	}
	_, err := n.conn.Write([]byte(line))
	return err
}

// Await has a command be served as by a service manager: set is what its environment has to have. ready is called when
// a process that can read a directory of only this user reports READY=1. The caller must call end.
func Await(ready func()) (set string, end func(), err error) {
	dir, err := os.MkdirTemp("", "batuta-") // mode 0700
	if err != nil {
		return "", nil, fmt.Errorf("no place for the socket at which the command reports that it is ready: %w; set TMPDIR to a directory that can be written", err)
	}
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for buf := make([]byte, 4096); ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if slices.Contains(strings.Split(string(buf[:n]), "\n"), "READY=1") {
				ready()
			}
		}
	}()
	return variable + path, func() { conn.Close(); os.RemoveAll(dir); <-over }, nil
}

const variable = "NOTIFY_SOCKET="

// Remove removes the socket of [Await] that an environment names. Its process may have died.
func Remove(env []string) {
	for _, e := range env {
		if path, ok := strings.CutPrefix(e, variable); ok && os.Remove(path) == nil {
			os.Remove(filepath.Dir(path)) // it is empty
		}
	}
}
