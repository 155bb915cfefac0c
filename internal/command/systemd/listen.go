package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
