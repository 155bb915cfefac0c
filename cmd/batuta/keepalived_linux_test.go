package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// What a client of keepalived loses, with its defaults, in the same namespaces: what
// docs/reach-the-leader.md compares with. It is for a reader that wants to repeat it,
//
//	BATUTA_TEST_KEEPALIVED=1 BATUTA_TEST_FULL=1 go test ./cmd/batuta -run 'AFloatingAddress|Keepalived' -v
//
// and no part of what must pass: nothing of ours is in it.
func TestKeepalivedForComparison(t *testing.T) {
	if os.Getenv("BATUTA_TEST_KEEPALIVED") == "" {
		t.Skip("BATUTA_TEST_KEEPALIVED is not set")
	}
	const n = 3
	l := newLAN(t, n)
	for i := 1; i <= n; i++ {
		l.serve(i)
	}
	l.plugInClient()
	daemons := map[int]*exec.Cmd{}
	for i := 1; i <= n; i++ {
		daemons[i] = l.keepalived(i)
	}
	c := l.ask(floating4)
	moved := func(what string, i int) {
		t.Helper()
		l.look(what, func() bool { return c.answeredBy() == strconv.Itoa(i) })
		lost, longest := c.count()
		t.Logf("%s: %d requests lost, the longest time without an answer was %v", what, lost, longest)
	}
	moved("start", 3)

	daemons[3].Process.Signal(syscall.SIGTERM)
	moved("SIGTERM", 2)
	daemons[3].Wait()
	daemons[3] = l.keepalived(3)
	moved("it returns and takes over", 3)
	l.vanish(3)
	moved("its machine vanishes", 2)
}

// keepalived runs on machine i, which ranks by its number, until the test ends.
func (l *lan) keepalived(i int) *exec.Cmd {
	l.t.Helper()
	config := filepath.Join(l.t.TempDir(), "keepalived.conf")
	text := fmt.Sprintf(`global_defs {
	router_id machine%d
}
vrrp_instance batuta {
	state BACKUP
	interface eth0
	virtual_router_id 51
	priority %d
	virtual_ipaddress {
		%s/24
	}
}
`, i, 50*i, floating4)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	dir := filepath.Dir(config)
	argv := l.in(i, "keepalived", "--dont-fork", "--log-console", "--use-file", config,
		"--pid", filepath.Join(dir, "pid"), "--vrrp_pid", filepath.Join(dir, "vrrp"))
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	return cmd
}
