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
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/batuta-dev/batuta/internal/work/run"
)

// Node is the part of a [batuta.Node] that hooks need; different elections implement it too.
type Node interface {
	ID() batuta.ID
	Lead(ctx context.Context, fn func(ctx context.Context, l batuta.Leadership) error) error
	Leader() batuta.View
	Watch(ctx context.Context) iter.Seq2[batuta.View, error]
}

// Config is what to run. A command is a program and its arguments; no shell reads it. Its
// environment describes the event.
type Config struct {
	OnLead   []string      // this member leads
	OnLose   []string      // leadership of this member has ended; and at the start, as the first hook
	OnChange []string      // a leadership of any member has begun or ended
	Timeout  time.Duration // after which a hook is killed, with its process group
	Logger   *slog.Logger

	Ready func(context.Context, batuta.Token) error // called when OnLead has succeeded; nil: it is not
}

// Any reports whether there is anything to run.
func (c Config) Any() bool { return len(c.OnLead)+len(c.OnLose)+len(c.OnChange) > 0 }

// Values of BATUTA_EVENT.
const (
	eventStart  = "start"  // the agent has started; work of an earlier process has to be dropped
	eventLeader = "leader" // BATUTA_LEADER leads
	eventLost   = "lost"   // its leadership has ended by BATUTA_CAUSE
)

// Follow runs hooks for the views of node, a single hook at a time and in order, until node ends
// and the last hook has run. A leadership that this member hands over passes on only when its
// OnLose has run. The exception is a leadership that is lost just before it is held, for which no
// OnLead has run. A leadership that ended by silence is over when OnLose begins.
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
		present = err != nil // the next view is the state at that time
	}
}

// follower is the hooks of a node.
type follower struct {
	Config
	node Node

	started bool
	holding sync.WaitGroup
	seen    batuta.View // the last leadership seen
	led     batuta.View // the leadership of this member for which OnLose has yet to run

	mu   sync.Mutex
	past batuta.Token  // the last leadership of this member after which OnLose has run
	more chan struct{} // closed when past has changed
}

// start runs OnLose for work that an earlier process may have left. The node watches already: it
// receives the end of every leadership of this member from now on.
func (f *follower) start(v batuta.View) {
	f.started = true
	f.holding.Go(func() { f.node.Lead(context.Background(), f.hold) })
	f.run(context.Background(), "on-lose", f.OnLose, eventStart, v)
}

// see runs the hooks for a view.
func (f *follower) see(v batuta.View) {
	if v.Same(f.seen) {
		if f.seen = v; v.Same(f.led) {
			f.led = v
		}
		return // only its leader's metadata or epoch is new
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

// lose runs OnLose for v.Lost, a leadership of this member.
func (f *follower) lose(v batuta.View) {
	f.run(context.Background(), "on-lose", f.OnLose, eventLost, v)
	f.led = batuta.View{}
	f.pass(v.Lost)
}

// catchUp runs the hooks for a leadership that ended unseen before v, the present view. It reports
// whether v itself was handled before.
func (f *follower) catchUp(v batuta.View) (seen bool) {
	if f.led.Defined() && !v.Same(f.led) && f.led.Token != v.Lost {
		f.lose(batuta.View{Election: v.Election, Lost: f.led.Token, Cause: election.CauseSuperseded})
	}
	if v.Defined() && v.Token.Leader.ID != f.node.ID() {
		f.pass(v.Token) // and all earlier leaderships of this member
	}
	return v.Same(f.led)
}

// lead runs OnLead. It is killed when leadership is lost meanwhile: OnLose, which follows soon,
// ends its work.
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

// hold keeps a leadership from passing on until its OnLose has run.
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

// run runs a hook. A failure is only logged: a retry might help or harm.
func (f *follower) run(ctx context.Context, name string, argv []string, event string, v batuta.View) (done bool) {
	if len(argv) == 0 {
		return false
	}
	began := time.Now()
	err := Run(ctx, argv, f.Timeout, f.values(event, v)...)
	if errors.Is(err, context.Canceled) {
		err = errors.New("killed: leadership is lost")
	}
	if err != nil {
		f.Logger.Error("hook failed", "hook", name, "event", event, "command", argv[0], "error", err)
		return false
	}
	f.Logger.Info("hook has run", "hook", name, "event", event, "took", time.Since(began))
	return true
}

// Run runs argv with set, each NAME=VALUE, in its environment. After timeout or when ctx ends it
// kills the command with its process group, and returns why.
func Run(ctx context.Context, argv []string, timeout time.Duration, set ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("killed after %v", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = run.Environment(run.WithoutMeta(os.Environ()), set...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // standard output is for events
	cmd.SysProcAttr = ChildAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := run.RunChild(cmd)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Variables are set for the commands of an agent, and are not read as settings by a batuta that
// such a command runs.
var Variables = []string{"BATUTA_EVENT", "BATUTA_ID", "BATUTA_ELECTION", "BATUTA_LEADER", "BATUTA_ADDRESS", "BATUTA_EPOCH", "BATUTA_TOKEN", "BATUTA_CAUSE"}

// values returns the variables of a hook. At the start there is neither token nor cause.
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

// Command splits a line that runs without a shell, and checks that it can run: its program exists,
// and nothing in it needs a shell.
func Command(line string) (argv []string, err error) {
	argv, err = Words(line)
	if err != nil || len(argv) == 0 {
		return nil, err
	}
	if err := Runnable(argv, line); err != nil {
		return nil, err
	}
	return argv, nil
}

// Runnable does this check for argv, which is at the end of line.
func Runnable(argv []string, line string) error {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("%w; give the path of a program, or one that is in PATH", err)
	}
	shells := []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}
	if what := forShell(line); what != "" && !slices.Contains(shells, path.Base(argv[0])) {
		return fmt.Errorf("%s is for a shell to read, and none does: write sh -c '…', or put it in single quotes if it is meant literally", what)
	}
	return nil
}

// operator matches shell operators, which join or redirect commands.
var operator = regexp.MustCompile(`^(\|\|?|&&?|;+|[0-9]?(<|>|>>|>&|&>).*|.*;)$`)

// expansion matches what a shell would replace.
var expansion = regexp.MustCompile("^(\\$([A-Za-z_][A-Za-z0-9_]*|[{(].*|[?!#@*$0-9])|`.*)")

// forShell returns the first part of line that only a shell understands; "" if there is none. Text
// in single quotes, or after a backslash, is literal.
func forShell(line string) string {
	var word strings.Builder
	plain, inWord, escaped, quote := true, false, false, rune(0)
	for i, c := range line + " " {
		switch {
		case escaped:
			escaped, plain = false, false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote == '\'' && c != quote:
		case c == '$' || c == '`':
			if found := expansion.FindString(line[i:]); found != "" {
				return found
			}
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote, plain, inWord = c, false, true
		case strings.ContainsRune(" \t\r\n", c):
			if w := word.String(); inWord && plain && operator.MatchString(w) {
				return w
			}
			word.Reset()
			plain, inWord = true, false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	return ""
}

// Words splits a command line at blanks; quotes of either kind, and a backslash outside single
// quotes, keep blanks in an argument. Nothing else of a shell is supported: no variables, no
// patterns, no pipes.
func Words(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped := false, false
	var quote rune
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case strings.ContainsRune(" \t\r\n", c):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case escaped:
		return nil, errors.New("nothing follows the last backslash")
	case inWord:
		words = append(words, word.String())
	}
	return words, nil
}
