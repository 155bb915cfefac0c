package run

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// guarding is a guard's state in the test's own process, while a deaf worker runs.
func guarding(t *testing.T, until instant, read clock.Source) (*guard, *runtest.Worker, factory) {
	t.Helper()
	runtime.LockOSThread() // who starts a command must live as long
	t.Cleanup(runtime.UnlockOSThread)
	f := newFactory(t)
	started, err := startGroup(&Command{Argv: f.argv("deaf"), Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{duty: duty{group: started, until: until, clock: clock.New(read, time.Second)}}
	w := f.Next()
	t.Cleanup(func() {
		syscall.Kill(w.Pid, syscall.SIGKILL)
		syscall.Wait4(w.Pid, nil, 0, nil)
	})
	return g, w, f
}

// A paused virtual machine shows in its wall clock alone.
func TestAPausedMachineEndsTheLease(t *testing.T) {
	wall := time.Unix(1e9, 0)
	g, w, f := guarding(t, now().add(long), func() clock.Reading { return clock.Reading{Wall: wall} })
	for _, step := range []time.Duration{time.Second, -time.Hour, 0} {
		wall = wall.Add(step)
		if g.checkTime(now()); g.expired || g.killing {
			t.Fatalf("a wall clock set by %v ends the lease", step)
		}
	}
	wall = wall.Add(10 * time.Minute)
	if g.checkTime(now()); !g.expired {
		t.Error("the lease outlives a pause of 10 minutes")
	}
	f.Dies(w)
}

// A renewal that waits has the end of the lease in it: where that has passed it is none, since
// another may lead already.
func TestARenewalThatIsOverIsNone(t *testing.T) {
	g, w, f := guarding(t, now().add(-2), clock.System())
	g.obey(order{Do: orderRenew, Until: now().add(-1)})
	if g.checkTime(now()); !g.expired {
		t.Error("it counts")
	}
	f.Dies(w)
}

// A renewal that waits in the pipe counts however late it is read: a guard that was stopped,
// or that took long to start a command, reads all of them before it judges by its clock.
func TestRenewalsThatWaitCount(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	g, _, _ := guarding(t, now().add(-1), clock.System())
	g.inbox.fd, g.wake = int(theirs.Fd()), make(chan struct{})
	agent := newPipe(ours)
	for i := range 100 {
		agent.tell(order{Do: orderRenew, Until: now().add(time.Duration(i) * long), Ask: now().add(long)})
	}
	g.read()
	if g.checkTime(now()); g.expired || g.killAt != 0 {
		t.Error("they do not")
	}
	ours.Close()
	if g.read(); g.wake != nil || !g.killing {
		t.Error("the end of the pipe is not noticed")
	}
}

// A guard that took longer than a lease to start reads the renewals that wait behind its
// order before it judges that order by its clock.
func TestASlowGuardStartsARenewedCommand(t *testing.T) {
	runtime.LockOSThread() // the starter of a command must live as long
	defer runtime.UnlockOSThread()
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	f := newFactory(t)
	g := &guard{inbox: inbox{fd: int(theirs.Fd())}, pipe: newPipe(theirs), wake: make(chan struct{})}
	agent := newPipe(ours)
	agent.tell(order{Do: orderStart, Command: &Command{Argv: f.argv("deaf"), Env: os.Environ()}, Until: now().add(-1), Leap: long})
	agent.tell(order{Do: orderRenew, Until: now().add(long)})
	if g.read(); g.group == nil {
		t.Fatal("the command is not started although its lease was renewed")
	}
	if g.checkTime(now()); g.expired {
		t.Error("the renewal does not count")
	}
	w := f.Next()
	g.kill()
	f.Dies(w)
	syscall.Wait4(w.Pid, nil, 0, nil)
}

// A renewal may come after a later one; it takes nothing away.
func TestARenewalNeverShortensTheLease(t *testing.T) {
	until := now().add(long)
	g, _, _ := guarding(t, until, clock.System())
	g.obey(order{Do: orderRenew, Until: now().add(time.Second)})
	if g.until != until {
		t.Errorf("the lease ends %v earlier", until.sub(g.until))
	}
}

// What the lease is told in goes on while the machine is suspended.
func TestInstants(t *testing.T) {
	at, began := now(), time.Now()
	for time.Since(began) < 10*time.Millisecond {
	}
	if passed := now().sub(at); passed < 10*time.Millisecond {
		t.Errorf("%v have passed, and 10ms have", passed)
	}
	if at.add(time.Second).sub(at) != time.Second {
		t.Error("a second is none")
	}
}

// A renewal puts off that the command is asked to end; without one it is, and the lease
// goes on while it does.
func TestACommandIsAskedOnceItsLeaseIsHalfOver(t *testing.T) {
	g, w, f := guarding(t, now().add(long), clock.System())
	g.grace = long
	g.ask = now().add(-1)
	g.checkTime(now())
	f.Awaits(w, "terminated")
	if g.killing || !g.expired {
		t.Errorf("killed: %v, expired: %v", g.killing, g.expired)
	}
	until := now().add(long)
	g, _, _ = guarding(t, until, clock.System())
	g.ask = now().add(long / 2)
	g.obey(order{Do: orderRenew, Until: until, Ask: now().add(long)})
	if g.checkTime(now()); g.killAt != 0 || g.expired {
		t.Error("it is asked to end although its lease was renewed")
	}
}

// The last time is within a lease that others wait for, and ends with it.
func TestALastTimeEndsWithTheLease(t *testing.T) {
	for name, tt := range map[string]struct {
		until, want time.Duration
		waits       bool
	}{
		"others wait, and the lease is long":     {long, lease, true},
		"others wait, and the lease ends before": {lease / 2, lease / 2, true},
		"the lease has no end that others await": {lease / 2, lease, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := now()
			g, w, f := guarding(t, at.add(tt.until), clock.System())
			g.grace, g.last = long, lease
			if tt.waits {
				g.ask = at.add(tt.until / 2)
			}
			g.part() // as when the process that has started it is killed
			f.Awaits(w, "terminated")
			if left := g.killAt.sub(at); g.killing || left < tt.want || left > tt.want+now().sub(at) {
				t.Errorf("killed: %v, or else %v from now, want %v", g.killing, left, tt.want)
			}
		})
	}
}
