package ask

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// onThread runs f on a thread that ends with it, without those capabilities.
func onThread(t *testing.T, without uint32, f func() error) (err error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&h, &caps[0]); err != nil {
			done <- err
			return
		}
		caps[0].Effective &^= without
		if err := unix.Capset(&h, &caps[0]); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// inReal counts the threads of this process that have real-time scheduling.
func inReal(t *testing.T) (n int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		if a, err := unix.SchedGetAttr(id, 0); err == nil && a.Policy == unix.SCHED_RR {
			n++
		}
	}
	return n
}

// What real-time scheduling brings is measured where it is permitted, on a thread that ends with it. Elsewhere the
// reason is given.
func TestTuneMeasuresRealTimeScheduling(t *testing.T) {
	await := func(what string, want int) {
		t.Helper()
		for began := time.Now(); inReal(t) != want; time.Sleep(time.Millisecond) {
			if time.Since(began) > runtest.Patience {
				t.Fatalf("%s, %d threads have real-time scheduling, want %d", what, inReal(t), want)
			}
		}
	}
	nothing := func() error { return inRealTime(func() {}) }
	refused := onThread(t, 0, nothing)
	await("before", 0)
	var seen tuning
	end := seen.measure()
	if refused == nil {
		await("meanwhile", 1)
	}
	time.Sleep(50 * time.Millisecond) // so long it measures
	end()
	await("afterward", 0)
	if (seen.RealTime != nil) != (refused == nil) || (seen.RealTimeError == "") != (refused == nil) || seen.Machine <= 0 {
		t.Errorf("it is permitted: %v; measured: %+v", refused, seen)
	}
	if err := onThread(t, 1<<unix.CAP_SYS_NICE, nothing); err == nil || !strings.Contains(err.Error(), "operation not permitted: run tune as root, or with CAP_SYS_NICE") {
		t.Errorf("without the permission: %v", err)
	}
}
