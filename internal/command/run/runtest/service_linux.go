package runtest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Serve listens on a socket in the file system until the test ends, for commands that "batuta
// run" runs. hear is called for each connection, in a goroutine of its own, with the process
// that made it; the connection is closed when hear returns.
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

// pidOf is the process at the other end of a connection; 0: nobody knows.
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
