// Package systemd tells the service manager how this process is, as sd_notify(3)
// describes it: datagrams of NAME=VALUE lines to the socket that NOTIFY_SOCKET names.
package systemd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Notifier tells a service manager. A nil Notifier tells nobody, which is right
// where there is none.
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

// watchdog is how often the manager wants to hear from pid; 0: never.
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

// Ready tells that the service has started.
func (n *Notifier) Ready() error { return n.tell("READY=1") }

// Stopping tells that the service ends.
func (n *Notifier) Stopping() error { return n.tell("STOPPING=1") }

// Status tells a line for a person.
func (n *Notifier) Status(line string) error {
	return n.tell("STATUS=" + strings.ReplaceAll(line, "\n", " "))
}

// Alive tells that the service does its work.
func (n *Notifier) Alive() error { return n.tell("WATCHDOG=1") }

// Beat is how often Alive is wanted; 0: not at all.
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
