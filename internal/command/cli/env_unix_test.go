//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

// nohup starts a process that ignores SIGHUP: the terminal's end does not end the command.
func TestAHangupThatIsIgnoredEndsNothing(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	ctx, stop := Interruptible(t.Context())
	defer stop()
	others := make(chan os.Signal, 1)
	signal.Notify(others, syscall.SIGUSR1)
	defer signal.Stop(others)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	<-others
	select {
	case <-ctx.Done():
		t.Error("SIGHUP was ignored at the start, and ends the command")
	case <-time.After(20 * time.Millisecond):
	}
	if got := Caught(syscall.SIGTERM, syscall.SIGHUP); !slices.Equal(got, []os.Signal{syscall.SIGTERM}) {
		t.Errorf("caught are %v, want SIGTERM only", got)
	}
}
