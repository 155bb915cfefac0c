package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// guardedRun is one run of a command under a guard of its own.
type guardedRun struct {
	factory
	keeper keeper
	cancel context.CancelCauseFunc
	over   chan struct{}
	renew  atomic.Bool // the lease, whenever that is asked
	strict bool        // nothing may be left at its end
	clears []string    // what the guard removes

	outcome Outcome // valid once over is closed
	err     error
}

// begin runs a worker; lease is renewed until its renew is set to false.
func begin(t *testing.T, f factory, lease, grace time.Duration, argv ...string) *guardedRun {
	t.Helper()
	return beginCommand(t, f, lease, &Command{Argv: argv, Env: os.Environ(), Grace: grace})
}

func beginCommand(t *testing.T, f factory, lease time.Duration, c *Command) *guardedRun {
	t.Helper()
	return beginRun(t, lease, c, &guardedRun{factory: f})
}

// beginStrict runs a worker of whom nothing may be left when the lease ends.
func beginStrict(t *testing.T, f factory, lease time.Duration, argv ...string) *guardedRun {
	t.Helper()
	return beginRun(t, lease, &Command{Argv: argv, Env: os.Environ(), Grace: long}, &guardedRun{factory: f, strict: true})
}

func beginRun(t *testing.T, lease time.Duration, c *Command, r *guardedRun) *guardedRun {
	t.Helper()
	r.keeper.program, r.keeper.argv, r.over = os.Args[0], append([]string{os.Args[0], "guard"}, r.clears...), make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	r.cancel = cancel
	r.renew.Store(true)
	go func() {
		defer close(r.over)
		r.outcome, r.err = r.keeper.run(ctx, c, lease/4, long, func() (term, bool) {
			if r.strict {
				return termOf(now().add(lease), lease, 2), r.renew.Load()
			}
			return term{until: now().add(lease)}, r.renew.Load()
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

const (
	long  = time.Minute // a lease or grace period that no test outlasts
	lease = time.Second // one that a test sees the end of

	ample = 4 * lease // one that is renewed in time on a busy machine too, while processes start
)

func TestACommandIsAskedToEnd(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, long, f.argv()...)
	w := f.Next()
	r.cancel(nil)
	f.Awaits(w, "terminated")
	if got := r.wait(); got != (Outcome{}) || r.err != nil {
		t.Errorf("ended as %+v, %v; want exit code 0", got, r.err)
	}
}

func TestTheCauseOfTheEndChoosesTheSignal(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, 2*lease, f.argv()...)
	w := f.Next()
	r.cancel(StopSignal{syscall.SIGINT})
	f.Awaits(w, "interrupt")
	if got := r.wait(); got.Signal != syscall.SIGKILL {
		t.Errorf("ended as %+v; want it killed after the grace period", got)
	}
}

// Whoever does not hear SIGTERM, nor stays in the group, is killed all the same,
// and the run is over only then.
func TestNobodyOutlivesTheGrace(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, 50*time.Millisecond, f.argv("deaf", "child", "stray")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next()}
	r.cancel(nil)
	if got := r.wait(); got.Signal != syscall.SIGKILL || got.Expired {
		t.Errorf("ended as %+v; want it killed for its deafness", got)
	}
	for _, w := range family {
		if !over(w.Pid) {
			t.Errorf("process %d (%s) is still there", w.Pid, w.Words)
		}
	}
}

// over reports whether a process has ended; it may still have to be reaped.
func over(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func TestACommandThatEndsLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, 50*time.Millisecond, f.argv("child", "stray", "quit=7")...)
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
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, ample, long, f.argv("child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	r.renew.Store(false)
	if got := r.wait(); !got.Expired || got.Signal != syscall.SIGKILL {
		t.Errorf("ended as %+v; want it killed by its lease", got)
	}
	for _, w := range family {
		f.Dies(w)
	}
}

// A lease bounds the grace period too: who cannot renew may be replaced already.
func TestALeaseEndsTheGrace(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, ample, long, f.argv("deaf")...)
	f.Next()
	r.renew.Store(false)
	r.cancel(nil)
	if got := r.wait(); !got.Expired {
		t.Errorf("ended as %+v; want it killed by its lease", got)
	}
}

// Where nobody else may run before the lease has ended, the command is asked to end at
// half of it, and what does not hear is killed before its end.
func TestALeaseThatIsNotRenewedAsksAtHalf(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := beginStrict(t, f, 4*lease, f.argv()...)
	w := f.Next()
	r.renew.Store(false)
	f.Awaits(w, "terminated")
	if got := r.wait(); !got.Expired || got.Code != 0 {
		t.Errorf("ended as %+v; want exit code 0, because its lease was not renewed", got)
	}
}

func TestNobodyOutlivesAStrictLease(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := beginStrict(t, f, ample, f.argv("deaf", "child", "stray")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next()}
	r.renew.Store(false)
	f.Awaits(family[slices.IndexFunc(family, func(w *runtest.Worker) bool { return w.Words == "deaf,child,stray" })], "terminated")
	// On a machine that stalls the guard may be late; its starter then kills both.
	if got := r.wait(); !got.Expired || got.Signal != syscall.SIGKILL || r.err != nil {
		t.Errorf("ended as %+v, %v; want it killed by its lease", got, r.err)
	}
	for _, w := range family {
		f.Dies(w)
	}
}

// Neither the guard nor its starter ran in time: the log has it, since two may have worked at once.
func TestACommandThatEndsAfterItsLeaseIsReported(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	var log bytes.Buffer
	k := keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "guard"}}, log: slog.New(slog.NewTextHandler(&log, nil))}
	defer k.close()
	run := func(argv []string, lease time.Duration) {
		at := now().add(lease)
		if _, err := k.run(t.Context(), &Command{Argv: argv, Env: os.Environ()}, long, long, func() (term, bool) { return term{until: at}, true }); err != nil {
			t.Error(err)
		}
	}
	run([]string{"true"}, long)
	if strings.Contains(log.String(), "after its lease") {
		t.Errorf("of a command that ended in time: %s", &log)
	}
	over := make(chan struct{})
	go func() { defer close(over); run(f.argv("deaf"), ample) }()
	f.Next()
	k.mu.Lock()
	guard := k.guard.cmd.Process
	k.mu.Unlock()
	guard.Signal(syscall.SIGSTOP)
	time.Sleep(ample)
	guard.Signal(syscall.SIGCONT)
	<-over
	if !strings.Contains(log.String(), "the command ended after its lease: another member may have led meanwhile") {
		t.Errorf("of one that ended late: %q", &log)
	}
}

// A guard that is stopped kills nobody: whoever started it does.
func TestAStrictLeaseEndsWithoutTheGuard(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := beginStrict(t, f, ample, f.argv("deaf", "child", "stray")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next()}
	r.keeper.mu.Lock()
	r.keeper.guard.cmd.Process.Signal(syscall.SIGSTOP)
	r.keeper.mu.Unlock()
	r.renew.Store(false)
	for _, w := range family {
		f.Dies(w)
	}
	if got := r.wait(); got != (Outcome{Code: -1, Signal: syscall.SIGKILL, Expired: true}) || r.err != nil {
		t.Errorf("ended as %+v, %v; want it killed by its lease", got, r.err)
	}
}

// A process that was frozen past a strict lease kills a guard that has done its work already. The next run has another.
func TestAGuardThatItsStarterKilledRunsNothingMore(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	pool, err := NewGuards(os.Args[0], []string{os.Args[0], "guard"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	keepers := map[string]*keeper{"its own guard": {starter: pool.starter}, "guards of a pool": {starter: pool.starter, pool: pool}}
	for name, k := range keepers {
		defer k.close()
		for range 20 {
			at := now().add(100 * time.Millisecond)
			got, err := k.run(t.Context(), &Command{Argv: f.argv("deaf"), Env: os.Environ()}, long, long, func() (term, bool) {
				return term{until: at, last: at}, true
			})
			if err != nil || !got.Expired {
				t.Fatalf("%s: ended as %+v, %v; want it killed by its lease", name, got, err)
			}
		}
	}
}

// The lease may be renewed just after its starter has killed the guard. It had ended all the same.
func TestAGuardThatIsKilledBeforeARenewal(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		g := &guarded{reports: make(chan report)}
		close(g.reports)
		g.last.Store(int64(now().add(long)))
		g.late.Store(late)
		got, err := (&keeper{}).await(t.Context(), g, long)
		if got.Expired != late || errors.Is(err, ErrGuard) == late {
			t.Errorf("killed for its lease: %v; it ended as %+v, %v", late, got, err)
		}
	}
}

func TestAStrictLeaseThatIsRenewedLasts(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	watch, began := stalltest.Start(t), time.Now()
	r := beginStrict(t, f, ample, f.argv()...)
	select {
	case <-r.over:
		if stall := watch.Longest(began, time.Now()); stall < ample/8 {
			t.Errorf("ended as %+v although its lease was renewed; the machine stalled for %v at most", r.outcome, stall)
		}
	case <-time.After(2 * ample): // time is what is tested here
	}
}

// A command that has a last time is asked to end even then: what it holds, such as an
// address, it has to give back.
func TestALastTime(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := beginCommand(t, f, ample, &Command{Argv: f.argv(), Env: os.Environ(), Grace: long, Last: long})
	w := f.Next()
	r.renew.Store(false)
	f.Awaits(w, "terminated")
	if got := r.wait(); !got.Expired || got.Code != 0 {
		t.Errorf("ended as %+v; want exit code 0 at the end of its lease", got)
	}
}

func TestALastTimeEndsToo(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := beginCommand(t, f, ample, &Command{Argv: f.argv("deaf"), Env: os.Environ(), Grace: long, Last: lease})
	w := f.Next()
	r.renew.Store(false)
	f.Awaits(w, "terminated")
	if got := r.wait(); !got.Expired || got.Signal != syscall.SIGKILL {
		t.Errorf("ended as %+v; want it killed after its last time", got)
	}
}

func TestACommandWithoutALeaseIsNotStarted(t *testing.T) {
	t.Parallel()
	want := Outcome{Code: -1, Expired: true, Unbegun: true}
	for name, tt := range map[string]struct {
		term    term
		renewed bool
	}{
		"the starter refuses":          {term{until: now()}, false},
		"the guard refuses":            {term{until: now()}, true},
		"it would be asked to end now": {term{until: now().add(long), ask: now()}, true},
	} {
		k := keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "guard"}}}
		c := &Command{Argv: newFactory(t).argv(), Env: os.Environ(), Grace: long}
		got, err := k.run(t.Context(), c, long, long, func() (term, bool) { return tt.term, tt.renewed })
		if k.close(); got != want || err != nil {
			t.Errorf("%s: ended as %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// Arguments and variables are bytes, in whatever encoding.
func TestACommandGetsItsBytes(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	beginCommand(t, f, long, &Command{Argv: f.argv("exit=0", "caf\xe9"), Env: append(os.Environ(), "BATUTA_TOKEN=\xff7"), Grace: long})
	if w := f.Next(); w.Words != "exit=0,caf\xe9" || w.Token != "\xff7" {
		t.Errorf("words %q, variable %q", w.Words, w.Token)
	}
}

// A guard removes what a killed command has left, before it reports the end.
func TestAGuardRemovesWhatAKilledCommandLeft(t *testing.T) {
	t.Parallel()
	left := filepath.Join(t.TempDir(), "left")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFactory(t)
	r := beginRun(t, ample, &Command{Argv: f.argv("deaf"), Env: os.Environ(), Grace: long, Last: lease}, &guardedRun{factory: f, clears: []string{left}})
	f.Next()
	r.renew.Store(false)
	r.wait()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what it left is there: %v", err)
	}
}

// What a guard cannot remove may be there when another member leads: it attests nothing.
func TestAGuardThatCannotRemoveAttestsNothing(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	missing := filepath.Join(t.TempDir(), "missing")
	r := beginRun(t, ample, &Command{Argv: f.argv("exit=0"), Env: os.Environ(), Grace: long}, &guardedRun{factory: f, clears: []string{missing}})
	f.Next()
	r.wait()
	if why := r.keeper.Bars(); !strings.Contains(why, missing) {
		t.Errorf("it attests: what it reports is %q", why)
	}
}

func TestALastTimeWithoutTheStarter(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := beginCommand(t, f, long, &Command{Argv: f.argv(), Env: os.Environ(), Grace: long, Last: long})
	w := f.Next()
	r.keeper.mu.Lock()
	r.keeper.guard.file.Close()
	r.keeper.mu.Unlock()
	f.Awaits(w, "terminated")
	f.Dies(w)
	r.wait()
}

func TestARenewedLeaseLasts(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	watch, began := stalltest.Start(t), time.Now()
	r := begin(t, f, ample, long, f.argv()...)
	select {
	case <-r.over:
		if stall := watch.Longest(began, time.Now()); stall < ample/2 {
			t.Errorf("ended as %+v although its lease was renewed; the machine stalled for %v at most", r.outcome, stall)
		} else {
			t.Logf("the machine stalled for %v: too long to renew a lease of %v", stall, ample)
		}
	case <-time.After(2 * ample): // time is what is tested here
	}
}

// A guard that was stopped for longer than a lease lets its command run on, provided that the
// lease was renewed meanwhile.
func TestAGuardThatWasStoppedReadsItsRenewals(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, ample, long, f.argv()...)
	w := f.Next()
	r.keeper.mu.Lock()
	guard := r.keeper.guard.cmd.Process
	r.keeper.mu.Unlock()
	guard.Signal(syscall.SIGSTOP)
	time.Sleep(ample + ample/4) // time is what is tested here
	guard.Signal(syscall.SIGCONT)
	r.keeper.signal(syscall.SIGUSR1) // waits behind the renewals
	f.Awaits(w, syscall.SIGUSR1.String())
	r.cancel(nil)
	if got := r.wait(); got.Expired || got.Code != 0 {
		t.Errorf("ended as %+v; want it to run until it is asked to end", got)
	}
}

// The end of the node's process, however it comes, is the end of the pipe.
func TestTheEndOfThePipeKills(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, long, f.argv("deaf", "child", "stray")...)
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

// By the end of the run nothing of the command is left, though the guard was killed: neither
// what has left the session nor what that has started.
func TestTheEndOfTheGuardKills(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, long, f.argv("deaf", "child", "stray", "far")...)
	family := []*runtest.Worker{f.Next(), f.Next(), f.Next(), f.Next(), f.Next()}
	r.keeper.mu.Lock()
	r.keeper.guard.cmd.Process.Kill()
	r.keeper.mu.Unlock()
	if r.wait(); r.err == nil {
		t.Error("the run has ended well although its guard was killed")
	}
	for _, w := range family {
		if !over(w.Pid) {
			t.Errorf("process %d (%s) runs on", w.Pid, w.Words)
		}
	}
	if _, err := r.keeper.ready(); err != nil {
		t.Errorf("no other guard takes its place: %v", err)
	}
}

func TestAGuardThatIsStuckIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, 50*time.Millisecond, f.argv("child")...)
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
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, long, f.argv("child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		r.keeper.signal(s)
		for _, w := range family {
			f.Awaits(w, s.String())
		}
	}
	r.keeper.kill()
	r.wait()
}

func TestACommandThatCannotStart(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	r := begin(t, f, long, long, "/nowhere/command")
	if r.wait(); r.err == nil {
		t.Error("a missing command has run")
	}
}
