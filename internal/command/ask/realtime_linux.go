package ask

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// inRealTime runs f on a thread with real-time scheduling, as CPUSchedulingPolicy=rr gives it.
func inRealTime(f func()) error {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 10, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("%w: run tune as root, or with CAP_SYS_NICE", err)
	}
	f()
	before.Flags |= unix.SCHED_FLAG_RESET_ON_FORK // to clear it takes a right of its own
	if unix.SchedSetAttr(0, before, 0) == nil {
		runtime.UnlockOSThread() // else the thread ends with this goroutine
	}
	return nil
}

// sleep is that of the calling thread: Go's is woken by a different thread.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	unix.Nanosleep(&t, nil)
}
