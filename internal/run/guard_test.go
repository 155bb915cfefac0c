package run

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/run/runtest"
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

// A renewal that comes when the lease is over is none: another may lead already.
func TestARenewalThatIsLateIsNone(t *testing.T) {
	g, w, f := guarding(t, now().add(-1), clock.System())
	g.obey(received{order{Do: orderRenew, Until: now().add(long)}, now()})
	if !g.expired {
		t.Error("it counts")
	}
	f.Dies(w)
}

// A renewal that comes while a command is being started is in time, however long that takes.
func TestARenewalThatWaitsCounts(t *testing.T) {
	g, _, _ := guarding(t, now().add(long), clock.System())
	came := received{order{Do: orderRenew, Until: now().add(long), Ask: now().add(long)}, now()}
	g.ask, g.until = came.at.add(1), came.at.add(2)
	time.Sleep(time.Millisecond)
	if g.obey(came); g.expired || g.killAt != 0 {
		t.Error("it does not, because it was obeyed late")
	}
}

// A renewal may come after a later one; it takes nothing away.
func TestARenewalNeverShortensTheLease(t *testing.T) {
	until := now().add(long)
	g, _, _ := guarding(t, until, clock.System())
	g.obey(received{order{Do: orderRenew, Until: now().add(time.Second)}, now()})
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
	g.obey(received{order{Do: orderRenew, Until: now().add(long), Ask: now().add(long)}, now()})
	f.Hears(w, "terminated") // the renewal came too late for that
	if g.killing || !g.expired {
		t.Errorf("killed: %v, expired: %v", g.killing, g.expired)
	}
	until := now().add(long)
	g, _, _ = guarding(t, until, clock.System())
	g.ask = now().add(long / 2)
	g.obey(received{order{Do: orderRenew, Until: until, Ask: now().add(long)}, now()})
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
			f.Hears(w, "terminated")
			if left := g.killAt.sub(at); g.killing || left < tt.want || left > tt.want+now().sub(at) {
				t.Errorf("killed: %v, or else %v from now, want %v", g.killing, left, tt.want)
			}
		})
	}
}
