package access_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/api/access"
)

// Many users of a Unix socket have together what two of them have.
func TestAllUsersOfASocketAreBounded(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root becomes another user")
	}
	dir, err := os.MkdirTemp("", "batuta")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ConnState: access.EachClient(2), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go s.Serve(l)
	defer s.Close()
	for i := range 8 {
		dialled := make(chan net.Conn)
		go func() {
			defer close(dialled)
			runtime.LockOSThread() // for good: the thread keeps the user, and ends with its goroutine
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(4242+i), ^uintptr(0)); errno != 0 {
				return
			}
			if c, err := net.Dial("unix", path); err == nil {
				dialled <- c
			}
		}()
		c := <-dialled
		if c == nil {
			t.Fatalf("user %d does not connect", i)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 100)); i < 4 && err != nil || i == 7 && err == nil {
			t.Fatalf("the connection of user %d, of 4 in all: %v", i, err)
		}
	}
}
