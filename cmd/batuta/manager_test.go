package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// The service manager hears when the agent is ready, who leads, that it lives, and
// that it ends; the command that the agent runs does not know where to say so.
func TestTheServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"batuta", "run", "--id", "1", "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error",
		"--", "sh", "-c", `test -z "$NOTIFY_SOCKET$WATCHDOG_USEC" && exec sleep 1000`}
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=100000")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	awaitTold(t, conn, "READY=1", "STATUS=leading, epoch 1", "WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitTold(t, conn, "STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// awaitTold reads until all of want have been told.
func awaitTold(t *testing.T, conn *net.UnixConn, want ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, w := range want {
		missing[w] = true
	}
	conn.SetReadDeadline(time.Now().Add(runtest.Patience))
	for line := make([]byte, 1000); len(missing) > 0; {
		n, err := conn.Read(line)
		if err != nil {
			t.Fatalf("never told: %v (%v)", missing, err)
		}
		delete(missing, strings.TrimSpace(string(line[:n])))
	}
}
