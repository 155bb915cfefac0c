package run

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/run/runtest"
)

// guardedRun is one run of a command under a guard of its own.
type guardedRun struct {
	factory
	keeper keeper
	cancel context.CancelCauseFunc
	over   chan struct{}

	outcome Outcome // valid once over is closed
	err     error
}

// begin runs a worker; lease is renewed for as long as renew says.
func begin(t *testing.T, f factory, lease, grace time.Duration, renew bool, argv ...string) *guardedRun {
	t.Helper()
	r := &guardedRun{factory: f, keeper: keeper{program: os.Args[0], argv: []string{os.Args[0], "guard"}}, over: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	r.cancel = cancel
	first := true
	go func() {
		defer close(r.over)
		r.outcome, r.err = r.keeper.run(ctx, &Command{argv, os.Environ(), grace}, lease/4, long, func() (instant, bool) {
			give := first || renew
			first = false
			return now().add(lease), give
		})
	}()
	t.Cleanup(func() { cancel(nil); r.wait(); r.keeper.close() })
	return r
}

func (r *guardedRun) wait() Outcome {
	r.T.Helper()
	select {
	case <-r.over:
	case <-time.After(runtest.Patience):
		r.T.Fatal("the command is never over")
	}
	return r.outcome
}

// long is a lease or grace period that no test outlasts.
const long = time.Minute

func TestACommandIsAskedToEnd(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, long, true, f.argv()...)
	w := f.Next()
	r.cancel(nil)
	f.Hears(w, "terminated")
	if got := r.wait(); got != (Outcome{}) || r.err != nil {
		t.Errorf("ended as %+v, %v; want exit code 0", got, r.err)
	}
}

func TestTheCauseOfTheEndChoosesTheSignal(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, 100*time.Millisecond, true, f.argv()...)
	w := f.Next()
	r.cancel(StopSignal{syscall.SIGINT})
	f.Hears(w, "interrupt")
	if got := r.wait(); got.Signal != syscall.SIGKILL {
		t.Errorf("ended as %+v; want it killed after the grace period", got)
	}
}

// Whoever does not hear SIGTERM, nor stays in the group, is killed all the same,
// and the run is over only then.
func TestNobodyOutlivesTheGrace(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, 50*time.Millisecond, true, f.argv("deaf", "child", "stray")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next()}
	r.cancel(nil)
	if got := r.wait(); got.Signal != syscall.SIGKILL || got.Expired {
		t.Errorf("ended as %+v; want it killed for its deafness", got)
	}
	for _, w := range family {
		if err := syscall.Kill(w.Pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d (%s) is still there: %v", w.Pid, w.Words, err)
		}
	}
}

func TestACommandThatEndsLeavesNobodyBehind(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, 50*time.Millisecond, true, f.argv("child", "stray", "quit=7")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next()}
	r.keeper.signal(syscall.SIGUSR2)
	if got := r.wait(); got != (Outcome{Code: 7}) {
		t.Errorf("ended as %+v; want exit code 7", got)
	}
	for _, w := range family {
		f.Dies(w)
	}
}

func TestALeaseThatIsNotRenewedKills(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, 200*time.Millisecond, long, false, f.argv("child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	if got := r.wait(); !got.Expired || got.Signal != syscall.SIGKILL {
		t.Errorf("ended as %+v; want it killed by its lease", got)
	}
	for _, w := range family {
		f.Dies(w)
	}
}

// A lease bounds the grace period too: who cannot renew may be replaced already.
func TestALeaseEndsTheGrace(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, 500*time.Millisecond, long, false, f.argv("deaf")...)
	f.Next()
	r.cancel(nil)
	if got := r.wait(); !got.Expired {
		t.Errorf("ended as %+v; want it killed by its lease", got)
	}
}

func TestARenewedLeaseLasts(t *testing.T) {
	f := newFactory(t)
	lease := 200 * time.Millisecond
	r := begin(t, f, lease, long, true, f.argv()...)
	f.Next()
	select {
	case <-r.over:
		t.Errorf("ended as %+v although its lease was renewed", r.outcome)
	case <-time.After(4 * lease): // time is what is tested here
	}
}

// The end of the node's process, however it comes, is the end of the pipe.
func TestTheEndOfThePipeKills(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, long, true, f.argv("deaf", "child", "stray")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next()}
	r.keeper.mu.Lock()
	r.keeper.guard.file.Close()
	r.keeper.mu.Unlock()
	for _, w := range family {
		f.Dies(w)
	}
	if r.wait(); r.err == nil {
		t.Error("the run has ended well although its guard was cut off")
	}
}

func TestTheEndOfTheGuardKills(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, long, true, f.argv("deaf", "child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	r.keeper.mu.Lock()
	r.keeper.guard.cmd.Process.Kill()
	r.keeper.mu.Unlock()
	if r.wait(); r.err == nil {
		t.Error("the run has ended well although its guard was killed")
	}
	for _, w := range family {
		f.Dies(w)
	}
	if _, err := r.keeper.ready(); err != nil {
		t.Errorf("no other guard takes its place: %v", err)
	}
}

func TestAGuardThatIsStuckIsReplaced(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, 50*time.Millisecond, true, f.argv("child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	r.keeper.mu.Lock()
	r.keeper.guard.cmd.Process.Signal(syscall.SIGSTOP)
	r.keeper.mu.Unlock()
	r.cancel(nil)
	r.wait()
	for _, w := range family {
		f.Dies(w)
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, long, true, f.argv("child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		r.keeper.signal(s)
		for _, w := range family {
			f.Hears(w, s.String())
		}
	}
	r.keeper.kill()
	r.wait()
}

func TestACommandThatCannotStart(t *testing.T) {
	f := newFactory(t)
	r := begin(t, f, long, long, true, "/nowhere/command")
	if r.wait(); r.err == nil {
		t.Error("a missing command has run")
	}
}
