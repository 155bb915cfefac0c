package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrGuard is wrapped by errors about the guard process itself, not the command.
var ErrGuard = errors.New("guard process")

// keeper is the node's side of a guard: it starts a guard before it is needed, so that a command
// can start at once, and replaces a guard that has died.
type keeper struct {
	starter
	pool *Guards      // the source of guards, which return to it after each run; nil: it keeps its own
	log  *slog.Logger // nil: none

	mu    sync.Mutex
	guard *guarded // nil: none runs
	oaths oaths
}

// starter is how a guard is started.
type starter struct {
	program string   // path of this program
	argv    []string // arguments that make it a guard
	stdin   bool     // its commands get this process's input, unless that is a terminal
	stdout  *os.File // of its commands; nil: this process's own
	bare    bool     // it has no commands, and so leaves nothing behind
}

// guarded is a running guard, and its command.
type guarded struct {
	*pipe
	cmd     *exec.Cmd
	reports chan report   // closed: the guard has died
	gone    chan struct{} // closed before reports
	group   atomic.Int64  // process group of its last command; 0: none, or gone
	owes    atomic.Bool   // it was ordered to start a command, and has not reported its end
	killed  atomic.Bool   // by this process: it can run nothing more
	late    atomic.Bool   // because it had not killed the command in time
	last    atomic.Int64  // when this process kills the command itself; 0: it leaves that to the guard
	due     atomic.Int64  // when the lease of its command ends
}

// ready returns a running guard.
func (k *keeper) ready() (*guarded, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.guard != nil && !k.guard.dead() {
		return k.guard, nil
	}
	if k.guard != nil {
		k.guard.end()
		k.guard = nil
	}
	var g *guarded
	var err error
	if k.pool != nil {
		g, err = k.pool.take()
	} else {
		g, err = k.start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGuard, unstarted(err))
	}
	k.guard = g
	k.oaths.started()
	if k.pool == nil {
		go k.watch(g)
	}
	return g, nil
}

// watch reports when a guard dies, also while it runs nothing.
func (k *keeper) watch(g *guarded) {
	<-g.gone
	k.mu.Lock()
	present := k.guard == g
	k.mu.Unlock()
	if present {
		k.bar(guardDied)
	}
}

// unstarted adds to the error of a process that the machine refuses to start what to do about it.
func unstarted(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return fmt.Errorf("%w: no further process may be started: raise the limit of this user (ulimit -u), unit (TasksMax) or container", err)
	}
	return err
}

// done returns the guard of a finished run, once speakers, which send to it, are done.
func (k *keeper) done(speakers *sync.WaitGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.guard
	if k.pool == nil || g == nil {
		return
	}
	k.guard = nil
	k.pool.out.Go(func() {
		speakers.Wait()
		k.pool.give(g)
	})
}

func (s starter) start() (*guarded, error) {
	if !s.bare {
		if err := adoptLeft(); err != nil {
			return nil, err
		}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(s.program)
	cmd.Args = s.argv
	cmd.Stdout, cmd.Stderr = cmp.Or(s.stdout, os.Stdout), os.Stderr
	if s.stdin {
		cmd.Stdin = stdin()
	}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C does not reach it
	if err := StartChild(cmd); err != nil {
		ours.Close()
		return nil, err
	}
	g := &guarded{pipe: newPipe(ours), cmd: cmd, reports: make(chan report), gone: make(chan struct{})}
	go g.read()
	return g, nil
}

// stdin returns this process's input unless that is a terminal: a process group in the background
// of a terminal is stopped when it reads.
func stdin() io.Reader {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return nil // the null device
	}
	return os.Stdin
}

func (g *guarded) read() {
	defer close(g.reports)
	defer close(g.gone)
	for {
		var r report
		if g.in.Decode(&r) != nil {
			return
		}
		g.reports <- r
	}
}

// dead reports whether an idle guard has died.
func (g *guarded) dead() bool {
	select {
	case <-g.reports:
		return true
	default:
		return g.killed.Load()
	}
}

func (g *guarded) kill() {
	g.killed.Store(true)
	g.cmd.Process.Kill()
}

// lost cleans up after a guard that has died, or is not needed any more. Nothing that the guard has
// started runs afterwards.
func (k *keeper) lost() {
	k.mu.Lock()
	g := k.guard
	k.guard = nil
	k.mu.Unlock()
	if g != nil {
		g.bury(k.refused)
		k.bar(guardDied)
	}
}

// refused reports a process of the command that this process may not kill.
func (k *keeper) refused(pid int) {
	if k.log != nil {
		k.log.Error("the system does not let batuta signal a process of the command; leadership is kept until that process ends, but where batuta cannot keep it two commands may run at once; run batuta as the command's user, or as root",
			"pid", pid, "error", syscall.EPERM)
	}
}

// overran reports a command of g that ended at a time after its lease.
func (k *keeper) overran(g *guarded, at instant) {
	if late := at.sub(instant(g.due.Load())); late > 0 && k.log != nil {
		k.log.Warn("the command ended after its lease: another member may have led meanwhile", "late", late)
	}
}

// buryTime is how long a guard may take to clean up once its pipe has ended.
const buryTime = time.Second

// bury ends a guard, and kills what it leaves behind. It returns when nothing of that runs. It
// calls refused for each process that it may not kill.
func (g *guarded) bury(refused func(pid int)) {
	over := g.end()
	if !g.owes.Load() {
		return
	}
	<-over
	buryOrphans(int(g.group.Load()), refused)
}

// end makes a guard end. The channel is closed when it has, which matters only if the guard has not
// reported the end of its command.
func (g *guarded) end() (over <-chan struct{}) {
	g.file.Close()
	// A live guard does its last work now, within this time.
	late := time.AfterFunc(buryTime, func() { g.cmd.Process.Kill() })
	ended := make(chan struct{})
	go awaitEnd(g.cmd, func() { late.Stop(); close(ended) })
	return ended
}

// close ends the guard, which must be idle.
func (k *keeper) close() {
	k.oaths.shut()
	k.lost()
}

// signal sends s to the command, if there is any.
func (k *keeper) signal(s syscall.Signal) { k.order(order{Do: orderSignal, Signal: s}) }

// kill ends the command's grace period.
func (k *keeper) kill() { k.order(order{Do: orderKill}) }

func (k *keeper) order(o order) {
	k.mu.Lock()
	g := k.guard
	k.mu.Unlock()
	if g != nil {
		g.tell(o) // the reader detects a guard that has died
	}
}

// term is how long a command may run without a renewal.
type term struct {
	until instant // the guard kills it then
	ask   instant // the guard asks it to end then; 0: never
	last  instant // this process kills it then if the guard has not; 0: never
	end   instant // another member may lead from then on; 0: from until on
}

// run runs c, and returns when nothing of it is left. When ctx ends, the command is asked to end by
// ctx's [StopSignal], or SIGTERM. renew returns its term. It is called now, and then at every tick,
// until run returns; it may block, and a late result does no harm. A wall clock that runs ahead by
// more than leap ends the lease too.
func (k *keeper) run(ctx context.Context, c *Command, every, leap time.Duration, renew func() (term, bool)) (Outcome, error) {
	g, err := k.ready()
	if err != nil {
		return Outcome{}, err
	}
	var speakers sync.WaitGroup
	defer k.done(&speakers)
	t, ok := renew()
	if !ok {
		return Outcome{Code: -1, Expired: true, Unbegun: true}, nil
	}
	g.last.Store(int64(t.last))
	g.due.Store(int64(max(t.until, t.end)))
	g.owes.Store(true)
	if g.tell(order{Do: orderStart, Command: c, Until: t.until, Ask: t.ask, Leap: leap}) == nil {
		over := make(chan struct{})
		var enforced sync.WaitGroup
		defer enforced.Wait() // or it may kill the guard in its next run
		defer close(over)
		speakers.Go(func() { g.keepAlive(over, every, renew) })
		if t.last != 0 {
			enforced.Go(func() { g.enforce(over) })
		}
	}
	return k.await(ctx, g, c.Grace)
}

// await handles reports until the command has ended.
func (k *keeper) await(ctx context.Context, g *guarded, grace time.Duration) (Outcome, error) {
	end := ctx.Done()
	for {
		select {
		case r, alive := <-g.reports:
			switch {
			case !alive:
				k.lost()
				if g.late.Load() {
					k.overran(g, now())
					return Outcome{Code: -1, Signal: syscall.SIGKILL, Expired: true}, nil
				}
				return Outcome{}, fmt.Errorf("%w: it has died; its command is killed", ErrGuard)
			case r.What == reportStarted:
				g.group.Store(int64(r.Group))
			case r.What == reportRefused:
				k.refused(r.Group)
			case r.What == reportBarred:
				k.bar(r.Error)
			case r.What == reportFailed:
				g.owes.Store(false)
				return Outcome{}, errors.New(r.Error)
			case r.What == reportGone:
				g.group.Store(0)
				g.owes.Store(false)
				k.overran(g, r.At)
				return r.Outcome, nil
			}
		case <-end:
			end = nil
			// A guard that is stuck itself is killed. It may not even read its orders, so the timer
			// comes first.
			stuck := time.AfterFunc(grace+buryTime, g.kill)
			defer func() {
				if !stuck.Stop() { // its function may only have begun
					g.killed.Store(true)
				}
			}()
			g.tell(order{Do: orderStop, Signal: stopSignal(ctx)})
		}
	}
}

// keepAlive renews the lease until over is closed.
func (g *guarded) keepAlive(over <-chan struct{}, every time.Duration, renew func() (term, bool)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if t, ok := renew(); ok {
			g.last.Store(max(g.last.Load(), int64(t.last)))
			g.due.Store(max(g.due.Load(), int64(t.until), int64(t.end)))
			g.tell(order{Do: orderRenew, Until: t.until, Ask: t.ask})
		}
	}
}

// enforce kills the group and the guard if the guard has not killed the group in time: the guard
// may have been stopped.
func (g *guarded) enforce(over <-chan struct{}) {
	for {
		wait := instant(g.last.Load()).sub(now())
		if wait <= 0 {
			break
		}
		select {
		case <-over:
			return
		case <-time.After(min(wait, awake)):
		}
	}
	if group := int(g.group.Load()); group != 0 {
		syscall.Kill(-group, syscall.SIGKILL)
	}
	g.late.Store(true)
	g.kill() // await buries what it leaves behind
}

// StopSignal is the cause of a context whose end stops a command by that signal.
type StopSignal struct{ syscall.Signal }

// Error returns the name of the signal.
func (s StopSignal) Error() string { return s.Signal.String() }

func stopSignal(ctx context.Context) syscall.Signal {
	if s, ok := errors.AsType[StopSignal](context.Cause(ctx)); ok {
		return s.Signal
	}
	return syscall.SIGTERM
}
