package runtest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Serve listens on a socket in the file system until the test ends, for commands that "batuta run"
// runs. It calls its argument for each connection, in a separate goroutine, with the process that
// made it, and then closes the connection.
func Serve(t *testing.T, hear func(c *net.UnixConn, pid int)) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "batuta") // a test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l, func(c net.Conn) { hear(c.(*net.UnixConn), pidOf(c.(*net.UnixConn))) })
	return socket
}

// pidOf returns the process at the far end of a connection; 0: not known.
func pidOf(c *net.UnixConn) (pid int) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				pid = int(cred.Pid)
			}
		})
	}
	return pid
}
