package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The image is built from scratch, and small systems have no tzdata: CRON_TZ works there too.
func TestTimeZonesOnASystemWithoutThem(t *testing.T) {
	unavailable := t.Skipf
	if os.Getenv("BATUTA_TEST_NETNS") != "" {
		unavailable = t.Fatalf
	}
	if os.Getuid() != 0 {
		unavailable("a file system of one's own needs root")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	batuta := filepath.Join(t.TempDir(), "batuta")
	if err := os.Symlink(executable, batuta); err != nil {
		t.Fatal(err)
	}
	// Where package time looks, each covered by an empty directory.
	const hide = `set -e; for dir in /usr/share/zoneinfo /usr/share/lib/zoneinfo /usr/lib/locale/TZ /etc/zoneinfo "$0"; do
		[ ! -e "$dir" ] || mount -t tmpfs none "$dir"
	done
	[ ! -e /usr/share/zoneinfo/Europe/Madrid ]
	exec "$@"`
	//lint:ignore SA1019 package time looks there
	zones := filepath.Join(runtime.GOROOT(), "lib", "time")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", hide, zones, batuta, "config", "check",
		"--id", "1", "--listen", "127.0.0.1:0", "--schedule", "CRON_TZ=Europe/Madrid 30 4 * * *")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // no ZONEINFO
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the configuration is good") {
		t.Errorf("%v: %s", err, out)
	}
}
