package stalltest

import (
	"syscall"
	"testing"
	"time"
)

// A process that ends with the thread that has started it outlives a watch: threads go
// back when a watch is over, and do not end.
func TestAWatchEndsNoThread(t *testing.T) {
	EndsNoThread(t, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, func() {
		t.Run("watch", func(t *testing.T) {
			Start(t)
			time.Sleep(2 * period) // so that others run on this thread meanwhile
		})
	})
}
