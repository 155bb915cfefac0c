package examples

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// If a hook's packets to the API are dropped, curl itself ends each try, long before the kernel does. The hook prints the
// reason of the last try. TestFloatingAddressReportsInTime checks, with a clock of its own, that --hook-timeout is later.
func TestFloatingAddressOfADroppingAPI(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "hetzner", "hetzner.sh")
	hook := c.hook(3, "FLOATING_API=http://"+dropping(t), "FLOATING_PAUSE=1")
	began := time.Now()
	out, err := hook.CombinedOutput()
	if took := time.Since(began); err == nil || took > patience {
		t.Errorf("%v after %v, want a failure within %v", err, took, patience)
	}
	if !strings.Contains(string(out), "/v1/floating_ips/4711 failed: curl: (28) ") || !strings.HasSuffix(string(out), "; gave up after 9 s\n") {
		t.Errorf("it printed %q, want the reason of the last try", out)
	}
}

// dropping is an address at which packets are dropped: nothing accepts the connections that wait there, and
// there is room for no further one.
func dropping(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 16 {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal(addr + " accepts connections")
	return ""
}
