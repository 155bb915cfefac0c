package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/work/systemd"
)

// guardFD is the file descriptor of a guard's end of the pipe.
const guardFD = 3

// Guard is the main function of a guard process. It returns when its parent does not need it any
// more, or has ended, and nothing of the command is left. Orphaned: the parent died while a command
// ran. When it kills a command, after each command, and before it attests, it calls clear, which
// removes what the command may have outside of its processes; nil: there is nothing to remove.
func Guard(clear func() error) (orphaned bool, err error) {
	parent := os.Getppid()
	named()
	// The kernel ties the command to the thread that starts it, so the thread must not change.
	runtime.LockOSThread()
	file := os.NewFile(guardFD, "guarded")
	syscall.CloseOnExec(guardFD) // or the command would keep the pipe open
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeSocket == 0 {
		return false, errors.New("a guard is started by 'batuta run', not by hand")
	}
	if err := adoptOrphans(); err != nil {
		return false, err
	}
	// Caught and dropped rather than ignored: a command would inherit an ignored signal. A guard
	// ends with its parent, regardless of the keys pressed.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	g := &guard{inbox: inbox{fd: guardFD}, pipe: newPipe(file), clear: clear, wake: make(chan struct{}), ended: make(chan os.Signal, 1), timer: time.NewTimer(0)}
	g.parent = parent
	if g.dead, err = awaitDeath(parent); errors.Is(err, syscall.ESRCH) {
		g.late = true
	} else if err != nil {
		g.Bar(fmt.Sprintf("the guard cannot see the end of its agent: %v", err))
	}
	signal.Notify(g.ended, syscall.SIGCHLD)
	go g.inbox.watch(g.wake)
	g.loop()
	err = g.attest()      // before all that touches a disk
	systemd.Remove(g.env) // the agent has, unless it was killed
	return g.left && gone(parent), err
}

// Bounds of an attestation: how long an agent that has closed its files may take to end, and how
// long to retry members that do not answer.
const (
	deathTime  = 5 * time.Second
	attestTime = 5 * time.Second
)

// attest proves to the members that their leader is over. Nothing of its work is left by now.
func (g *guard) attest() error {
	if !g.Swore() {
		return nil
	}
	if !g.late {
		select {
		case <-g.dead:
		case <-time.After(deathTime):
			return nil
		}
	}
	g.Died()
	if !g.removed { // what ran under an earlier guard, which was killed, may have left something
		if err := g.remove(); err != nil {
			return fmt.Errorf("cannot remove what an earlier command has left: the next leader comes when the lease has ended: %w", err)
		}
	}
	if oath, ok := g.Attests(); ok {
		ctx, cancel := context.WithTimeout(context.Background(), attestTime)
		defer cancel()
		_ = transport.SendOath(ctx, oath) // members that it does not reach wait for the end of the lease
	}
	return nil
}

// remove removes what a command may have left.
func (g *guard) remove() (err error) {
	if g.clear != nil {
		err = g.clear()
	}
	g.removed = err == nil
	return err
}

// gone reports whether this process's parent has died. The parent's files are closed a moment
// before the kernel reports its death.
func gone(parent int) bool {
	for late := time.Now().Add(buryTime); time.Now().Before(late); time.Sleep(time.Millisecond) {
		if os.Getppid() != parent {
			return true
		}
	}
	return false
}

// guard starts, stops and reaps a single command at a time.
type guard struct {
	inbox
	pipe  *pipe
	wake  chan struct{}   // the inbox has input; nil: the parent has ended
	ended chan os.Signal  // a child has ended
	dead  <-chan struct{} // closed once the parent is dead; nil: not detected

	parent  int  // when this process began
	late    bool // the parent had died by then, or a moment later
	timer   *time.Timer
	clear   func() error // nil: a command leaves nothing
	removed bool         // what the last command has left, by clear
	left    bool         // something ran when the parent ended
	news    bool         // a child has ended since the last look
	env     []string     // of the last command

	attest.Witness
	duty // written only by the loop
}

// duty is the state of the command that a guard starts, stops and reaps.
type duty struct {
	group   *group // nil: nothing runs
	grace   time.Duration
	last    time.Duration  // grace once its time has run out
	until   instant        // end of the lease
	ask     instant        // when it is asked to end unless the lease is renewed; 0: never
	clock   *clock.Clock   // detects that the virtual machine was paused while the command ran
	killAt  instant        // end of the grace period; 0: no stop was requested
	with    syscall.Signal // by which it was asked to stop
	parting bool           // its time has run out
	killing bool
	expired bool
	refused bool // a process that may not be signaled was reported
}

func (g *guard) loop() {
	for dead := g.dead; g.wake != nil || g.group != nil; {
		g.arm()
		select {
		case <-dead:
			dead = nil // the pipe may have a copy elsewhere
		case <-g.wake:
		case <-g.ended:
			g.news = true
		case <-g.timer.C:
		}
		// Orders that had arrived by then count, however late they are read: the guard may have
		// been stopped.
		at := now()
		g.read()
		if dead == nil && g.dead != nil {
			g.orphaned()
		}
		g.checkTime(at)
		g.look()
	}
}

// read obeys the orders that have arrived.
func (g *guard) read() {
	if g.wake == nil {
		return
	}
	orders, open := g.inbox.take()
	for i, o := range orders {
		if o.Do == orderStart { // a guard that starts slowly finds renewals queued after this order
			for _, later := range orders[i+1:] {
				if later.Do == orderRenew {
					o.Until, o.Ask = max(o.Until, later.Until), max(o.Ask, later.Ask)
				}
			}
		}
		g.obey(o)
	}
	if !open {
		g.orphaned()
	}
}

// orphaned records that the parent has ended.
func (g *guard) orphaned() {
	if g.wake != nil {
		g.wake = nil
		g.left = g.group != nil
		g.part()
	}
}

func (g *guard) obey(o order) {
	switch {
	case o.Do == orderStart:
		g.start(o)
	case o.Do == orderOath && o.Oath != nil:
		g.Takes(*o.Oath)
		g.late = g.late || o.Agent != g.parent
		_ = transport.SendOath(context.Background(), attest.Oath{Token: o.Oath.Token, Secret: o.Oath.Secret}) // to no member: the first frame takes milliseconds to encode
	case g.group == nil: // it ended before the order arrived
	case o.Do == orderRenew:
		g.until, g.ask = max(g.until, o.Until), max(g.ask, o.Ask)
	case o.Do == orderSignal:
		g.group.send(-g.group.id, o.Signal) // only to the group: a process that left it left it on purpose
	case o.Do == orderStop:
		g.stop(o.Signal)
	case o.Do == orderKill:
		g.kill()
	}
}

func (g *guard) start(o order) {
	g.duty = duty{grace: o.Command.Grace, last: o.Command.Last, until: o.Until, ask: o.Ask}
	if at := now(); at >= o.Until || o.Ask != 0 && at >= o.Ask {
		g.pipe.tell(report{What: reportGone, Outcome: Outcome{Code: -1, Expired: true, Unbegun: true}})
		return
	}
	g.env = o.Command.Env
	started, err := startGroup(o.Command)
	if err != nil {
		g.pipe.tell(report{What: reportFailed, Error: unstarted(err).Error()})
		return
	}
	g.group = started
	g.Works(true)
	g.clock = clock.New(clock.System(), o.Leap)
	g.pipe.tell(report{What: reportStarted, Group: started.id})
}

// stop asks the group to end. SIGCONT makes stopped processes receive the signal.
func (g *guard) stop(s syscall.Signal) {
	if g.killAt != 0 {
		return
	}
	g.killAt, g.with = now().add(g.grace), s
	g.group.signal(s)
	g.group.signal(syscall.SIGCONT)
}

// kill kills the group, and removes at once what it has: a killed process may wait in the kernel
// for longer than the lease.
func (g *guard) kill() {
	if g.group == nil {
		return
	}
	g.group.signal(syscall.SIGKILL)
	if !g.killing {
		g.killing = true
		_ = g.remove() // repeated when nothing of the group runs
	}
}

// part ends a group whose time has run out: a new leader may exist by then.
func (g *guard) part() {
	switch {
	case g.group == nil || g.parting:
	case g.last == 0:
		g.kill()
	default:
		g.parting = true
		g.stop(syscall.SIGTERM)
		if g.killAt = min(g.killAt, now().add(g.last)); g.ask != 0 {
			g.killAt = min(g.killAt, g.until) // no other member leads before
		}
	}
}

// checkTime ends a command whose lease had ended by at, and kills it if its grace period had.
func (g *guard) checkTime(at instant) {
	if g.group == nil || g.killing {
		return
	}
	g.clock.Now()
	if at >= g.until || g.clock.Leapt() > 0 {
		g.expired = true
		g.part()
	}
	if g.ask != 0 && at >= g.ask && g.killAt == 0 {
		g.expired = true
		g.stop(syscall.SIGTERM)
	}
	if g.killAt != 0 && at >= g.killAt {
		g.kill()
	}
}

// look checks which processes have ended. When nothing of the command runs, it removes what the
// command has left, and then reports the end.
func (g *guard) look() {
	if g.group == nil {
		return
	}
	if g.news || g.killing || g.group.ended || groupPoll > 0 {
		g.news = false
		g.group.look()
	}
	switch {
	case g.group.over:
		over := g.group
		g.group = nil
		if err := g.remove(); err != nil {
			g.bar(fmt.Sprintf("cannot remove what the command has left: %v", err))
		}
		g.Works(!groupSeen)
		over.outcome.Expired = g.expired
		over.said.finish()
		g.pipe.tell(report{What: reportGone, Outcome: over.outcome, At: now()})
		over.release()
		return
	case g.killing:
		g.kill() // an adopted process may have had a child since
	case g.group.ended:
		g.stop(syscall.SIGTERM) // the command has left processes behind
		g.group.ask(g.with)
	default:
		g.group.send(g.group.id, 0)
	}
	if g.group.refused != 0 && !g.refused {
		g.refused = true
		g.pipe.tell(report{What: reportRefused, Group: g.group.refused})
		g.bar(fmt.Sprintf("the system does not let batuta end process %d of the command", g.group.refused))
	}
}

// bar makes the guard attest nothing, and reports why.
func (g *guard) bar(why string) {
	if g.Barred() == "" {
		g.Bar(why)
		g.pipe.tell(report{What: reportBarred, Error: why})
	}
}

// awake is the longest time that a guard waits: its timer does not advance while the machine is
// suspended, but the lease does.
const awake = 100 * time.Millisecond

// arm sets the timer to the next time at which something must be done or checked.
func (g *guard) arm() {
	if g.group == nil {
		g.timer.Stop()
		return
	}
	wait := awake
	if !g.killing {
		if !g.parting {
			wait = min(wait, g.until.sub(now()))
		}
		if g.ask != 0 && g.killAt == 0 {
			wait = min(wait, g.ask.sub(now()))
		}
		if g.killAt != 0 {
			wait = min(wait, g.killAt.sub(now()))
		}
	}
	if groupPoll > 0 && (g.killing || g.group.ended) {
		wait = min(wait, groupPoll)
	}
	g.timer.Reset(max(wait, 0))
}
