package systemd

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// manager is what systemd is to a service.
func manager(t *testing.T) (*net.UnixConn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, path
}

func lookup(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
}

func TestNotify(t *testing.T) {
	conn, path := manager(t)
	n, err := Open(lookup(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "42"}), 42)
	if err != nil {
		t.Fatal(err)
	}
	defer n.conn.Close()
	if n.Beat() != 1500*time.Millisecond {
		t.Errorf("beat %v, want half of what the watchdog allows", n.Beat())
	}
	for _, tell := range []func() error{n.Ready, n.Alive, n.Stopping, func() error { return n.Status("a\nb") }} {
		if err := tell(); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"READY=1", "WATCHDOG=1", "STOPPING=1", "STATUS=a b"} {
		got := make([]byte, 100)
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if size, err := conn.Read(got); err != nil || string(got[:size]) != want {
			t.Errorf("told %q, %v; want %q", got[:size], err, want)
		}
	}
}

func TestNobodyToNotify(t *testing.T) {
	n, err := Open(lookup(nil), 42)
	if n != nil || err != nil || n.Ready() != nil || n.Beat() != 0 {
		t.Errorf("%v, %v: want silence", n, err)
	}
	if _, err := Open(lookup(map[string]string{"NOTIFY_SOCKET": "vsock:2"}), 42); err == nil {
		t.Error("an address of another family is taken")
	}
}

// A watchdog that waits for another process is none of ours.
func TestAnothersWatchdog(t *testing.T) {
	_, path := manager(t)
	n, err := Open(lookup(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}), 42)
	if err != nil {
		t.Fatal(err)
	}
	defer n.conn.Close()
	if n.Beat() != 0 {
		t.Errorf("beat %v", n.Beat())
	}
}
