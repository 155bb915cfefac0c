// Package hooks runs commands when leadership begins, ends or changes.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/run"
	"github.com/batuta-dev/batuta/internal/follow"
)

// Node is what hooks need of a [batuta.Node], or of an election that is held otherwise.
type Node interface {
	ID() batuta.ID
	Lead(ctx context.Context, fn func(ctx context.Context, l batuta.Leadership) error) error
	Leader() batuta.View
	Watch(ctx context.Context) iter.Seq2[batuta.View, error]
}

// Config says what to run. A command is its words; no shell reads it, and what
// has happened is in its environment alone.
type Config struct {
	OnLead   []string      // this member leads
	OnLose   []string      // leadership of this member has ended; and at the start, before anything else
	OnChange []string      // a leadership has begun or ended, whoever's
	Timeout  time.Duration // after which a hook is killed, with its process group
	Logger   *slog.Logger

	Ready func(context.Context, batuta.Token) error // called when OnLead has succeeded; nil: it is not
}

// Any reports whether there is anything to run.
func (c Config) Any() bool { return len(c.OnLead)+len(c.OnLose)+len(c.OnChange) > 0 }

// What has happened, in BATUTA_EVENT.
const (
	eventStart  = "start"  // the agent has started; what an earlier one held is to be dropped
	eventLeader = "leader" // BATUTA_LEADER leads
	eventLost   = "lost"   // its leadership has ended by BATUTA_CAUSE
)

// Follow runs hooks for what node sees, one at a time and in order, until node
// ends and the last has run. A leadership that this member gives up passes to another only
// when its OnLose has run; except one that is lost in the moment before it is held, for
// which no OnLead has run. One that ends by silence is over when OnLose begins.
func Follow(node Node, c Config) {
	f := &follower{Config: c, node: node, more: make(chan struct{})}
	defer f.holding.Wait()
	present := true
	for v, err := range follow.On(context.Background(), batuta.ErrBehind, node.Watch) {
		switch {
		case err != nil:
			f.Logger.Error("hooks have missed what happened meanwhile and go on with the present leader", "error", err)
		case !f.started:
			f.start(v)
			f.see(v)
		case !present || !f.catchUp(v):
			f.see(v)
		}
		present = err != nil // the next is what is so then
	}
}

// follower is one node's hooks.
type follower struct {
	Config
	node Node

	started bool
	holding sync.WaitGroup
	seen    batuta.View // the leadership that was seen last
	led     batuta.View // the leadership of ours that OnLose has still to be run for

	mu   sync.Mutex
	past batuta.Token  // the last leadership of ours whose end has been seen to
	more chan struct{} // closed when past has moved on
}

// start runs OnLose for what an earlier process may have left. Our place among the
// watchers is taken: of whatever this member leads from now on we are told the end.
func (f *follower) start(v batuta.View) {
	f.started = true
	f.holding.Go(func() { f.node.Lead(context.Background(), f.hold) })
	f.run(context.Background(), "on-lose", f.OnLose, eventStart, v)
}

// see runs what belongs to a view.
func (f *follower) see(v batuta.View) {
	if v.Same(f.seen) {
		if f.seen = v; v.Same(f.led) {
			f.led = v
		}
		return // its leader has new metadata, or a higher epoch, which is no change of leader
	}
	f.seen = v
	switch {
	case v.Defined():
		if v.Token.Leader.ID == f.node.ID() {
			f.led = v
			f.lead(v)
		}
		f.run(context.Background(), "on-change", f.OnChange, eventLeader, v)
	case v.Lost.Defined():
		if v.Lost.Leader.ID == f.node.ID() {
			f.lose(v)
		}
		f.run(context.Background(), "on-change", f.OnChange, eventLost, v)
	}
}

// lose runs OnLose for v.Lost, a leadership of ours.
func (f *follower) lose(v batuta.View) {
	f.run(context.Background(), "on-lose", f.OnLose, eventLost, v)
	f.led = batuta.View{}
	f.pass(v.Lost)
}

// catchUp sees to the end of what ended unseen before v, the present view. It
// reports whether v itself has been seen.
func (f *follower) catchUp(v batuta.View) (seen bool) {
	if f.led.Defined() && !v.Same(f.led) && f.led.Token != v.Lost {
		f.lose(batuta.View{Election: v.Election, Lost: f.led.Token, Cause: election.CauseSuperseded})
	}
	if v.Defined() && v.Token.Leader.ID != f.node.ID() {
		f.pass(v.Token) // and all of ours before it
	}
	return v.Same(f.led)
}

// lead runs OnLead. It is killed when the lead is lost meanwhile: what it has
// begun is for OnLose to end, and soon.
func (f *follower) lead(v batuta.View) {
	if !f.node.Leader().Same(v) {
		return // lost already: there is nothing to begin
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for now := range f.node.Watch(ctx) {
			if !now.Same(v) {
				cancel()
			}
		}
	})
	if f.run(ctx, "on-lead", f.OnLead, eventLeader, v) && f.Ready != nil {
		_ = f.Ready(ctx, v.Token) // refused where the leadership has ended meanwhile
	}
}

// hold keeps a leadership from passing to another until its end has been seen to.
func (f *follower) hold(ctx context.Context, l batuta.Leadership) error {
	<-ctx.Done()
	for {
		f.mu.Lock()
		past, more := f.past, f.more
		f.mu.Unlock()
		if past.Compare(l.Token) >= 0 {
			return nil
		}
		<-more
	}
}

func (f *follower) pass(token batuta.Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past = token
	close(f.more)
	f.more = make(chan struct{})
}

// run runs one hook. Its failure is logged and changes nothing: it cannot be
// known whether another try would mend or harm.
func (f *follower) run(ctx context.Context, name string, argv []string, event string, v batuta.View) (done bool) {
	if len(argv) == 0 {
		return false
	}
	began := time.Now()
	err := Run(ctx, argv, f.Timeout, f.values(event, v)...)
	if errors.Is(err, context.Canceled) {
		err = errors.New("killed: the lead is lost")
	}
	if err != nil {
		f.Logger.Error("hook failed", "hook", name, "event", event, "command", argv[0], "error", err)
		return false
	}
	f.Logger.Info("hook has run", "hook", name, "event", event, "took", time.Since(began))
	return true
}

// Run runs argv with set, each NAME=VALUE, in its environment, and kills it with its process
// group after timeout or when ctx ends; why is then the error.
func Run(ctx context.Context, argv []string, timeout time.Duration, set ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("killed after %v", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = run.Environment(run.WithoutMeta(os.Environ()), set...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // standard output is for events
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := run.RunChild(cmd)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Variables are what the commands of an agent are told by: they are set for those, and
// no settings of a batuta inside.
var Variables = []string{"BATUTA_EVENT", "BATUTA_ID", "BATUTA_ELECTION", "BATUTA_LEADER", "BATUTA_ADDRESS", "BATUTA_EPOCH", "BATUTA_TOKEN", "BATUTA_CAUSE"}

// values are what a hook is told. At the start there is neither token nor cause.
func (f *follower) values(event string, v batuta.View) []string {
	token, cause := v.Token, ""
	if event == eventLost {
		token, cause = v.Lost, string(v.Cause)
	}
	text, address := "", ""
	if token.Defined() && event != eventStart {
		text, address = token.String(), v.Address
	} else {
		token = batuta.Token{}
	}
	return append(run.MetaVariables(v.Meta),
		"BATUTA_EVENT="+event,
		"BATUTA_ID="+string(f.node.ID()),
		"BATUTA_ELECTION="+v.Election,
		"BATUTA_LEADER="+string(token.Leader.ID),
		"BATUTA_ADDRESS="+address,
		fmt.Sprintf("BATUTA_EPOCH=%d", token.Epoch),
		"BATUTA_TOKEN="+text,
		"BATUTA_CAUSE="+cause,
	)
}
