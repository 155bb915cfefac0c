// Package jobs makes a member a candidate of many elections of a cluster, and runs a command under
// each that it leads: for as long as it leads, or by a cron schedule. The elections are the lines
// of a file, which may change meanwhile.
package jobs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/work/run"
)

// Config sets up a [Crew].
type Config struct {
	Lines     []Line
	Grace     time.Duration // of each command, from SIGTERM to SIGKILL
	Finish    time.Duration // how long a run may continue once its election is to be handed over
	Heartbeat time.Duration // of the node
	T         time.Duration // silence after which the node is suspected
	Program   string        // path of this program
	Guard     []string      // arguments that make it a guard
	Stdout    *os.File      // of the commands; default this process's own
	Meta      map[string]string
	Logger    *slog.Logger
}

// Check reports what is wrong with the lines together; single lines were checked before.
func (c Config) Check() error {
	planned := 0
	for _, l := range c.Lines {
		if l.Plan != nil {
			planned++
		}
	}
	if planned == 0 {
		return nil
	}
	return checkTicks(c.Meta, planned)
}

// Crew makes a node a candidate of many elections, and runs their commands. Its methods may be
// called from any goroutine.
type Crew struct {
	cfg  Config
	book *Book

	mu     sync.Mutex
	guards *run.Guards // nil: there was no command yet
	ctx    context.Context
	node   *batuta.Node // nil: it has not begun
	hands  map[string]*hand
	all    map[*hand]bool // those of hands, and those that are being stopped
	past   sync.WaitGroup // of all
}

// hand is the work on a line.
type hand struct {
	line   Line
	runner *run.Runner // nil: it only leads
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when it is no candidate any more, and nothing runs
}

// New prepares a Crew, and a guard if there is a command. The caller must call Run or Close.
func New(c Config) (*Crew, error) {
	crew := &Crew{cfg: c, hands: map[string]*hand{}, all: map[*hand]bool{}, book: NewBook()}
	return crew, crew.equip(c.Lines)
}

// equip makes guards if lines need any. The caller holds the lock, or has the only reference.
func (c *Crew) equip(lines []Line) (err error) {
	for _, l := range lines {
		if l.Argv != nil && c.guards == nil {
			if c.guards, err = run.NewGuards(c.cfg.Program, c.cfg.Guard, c.cfg.Stdout); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends the guards. No command may run.
func (c *Crew) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guards != nil {
		c.guards.Close()
	}
}

// Run makes node a candidate of all elections until ctx or node ends. Commands are stopped by ctx's
// [run.StopSignal]. It returns when nothing of them is left: nil, or the error of node.
func (c *Crew) Run(ctx context.Context, node *batuta.Node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	c.ctx, c.node = ctx, node
	lines := c.cfg.Lines
	c.mu.Unlock()
	err := c.Change(lines)
	select {
	case <-ctx.Done():
	case <-node.Done():
		err = batuta.ErrClosed
		cancel(err)
	}
	c.mu.Lock() // no more are begun
	c.node = nil
	c.mu.Unlock()
	c.past.Wait()
	return err
}

// errLine is in the log of a command that a change of its line has stopped.
var errLine = errors.New("its line was changed or removed")

// Change replaces the lines. An unchanged line continues; for a changed or removed line the command
// is stopped first.
func (c *Crew) Change(lines []Line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.cfg
	changed.Lines = lines
	if err := errors.Join(changed.Check(), c.equip(lines)); err != nil {
		return err
	}
	c.cfg = changed
	if c.node == nil {
		return nil // Run begins with them
	}
	kept := map[string]bool{}
	for _, l := range lines {
		kept[l.Name] = true
	}
	c.book.write(lines)
	for name, h := range c.hands {
		if !kept[name] {
			h.cancel(errLine)
			delete(c.hands, name)
		}
	}
	for _, l := range lines {
		before := c.hands[l.Name]
		if before != nil && before.line.Text == l.Text {
			continue
		}
		c.begin(l, before)
	}
	return nil
}

// Book returns the book of this member. The caller must call [Book.Begin] before Run.
func (c *Crew) Book() *Book { return c.book }

// Has reports whether there is a line for an election.
func (c *Crew) Has(election string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.cfg.Lines, func(l Line) bool { return l.Name == election })
}

// begin starts the work on a line once the work on its previous version is over.
func (c *Crew) begin(l Line, before *hand) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	h := &hand{line: l, cancel: cancel, over: make(chan struct{})}
	c.hands[l.Name], c.all[h] = h, true
	if l.Argv != nil {
		h.runner = c.runner(l)
	}
	if before != nil {
		before.cancel(errLine)
	}
	node := c.node
	c.past.Go(func() {
		defer close(h.over)
		defer cancel(nil)
		if before != nil {
			<-before.over
		}
		c.work(ctx, node, h)
		c.mu.Lock()
		delete(c.all, h)
		c.mu.Unlock()
	})
}

// runner returns the runner of a line with a command. It never finishes by itself: there is always
// a next tick, or a next start.
func (c *Crew) runner(l Line) *run.Runner {
	plan := l.Plan
	if plan != nil {
		own := *plan
		own.Log = c.book.journal(l.Name)
		plan = &own
	}
	r, err := run.New(run.Config{Argv: l.Argv, Grace: c.cfg.Grace, Finish: c.cfg.Finish, Restart: plan == nil, Plan: plan, Heartbeat: c.cfg.Heartbeat, T: c.cfg.T,
		Guards: c.guards, Name: l.Name, Notice: run.NamedNotice, Logger: c.cfg.Logger.With("election", l.Name)})
	if err != nil {
		panic(err) // it starts nothing
	}
	return r
}

// fullPause is how long a member waits before it retries an election for which the cluster has no
// room.
const fullPause = 10 * time.Second

// work is a candidate of an election until ctx or node ends.
func (c *Crew) work(ctx context.Context, node *batuta.Node, h *hand) {
	how := []batuta.ElectionOption{batuta.Weight(h.line.How.Weight), batuta.Seats(h.line.How.Seats)}
	if h.line.How.Prefer {
		how = append(how, batuta.Prefer())
	}
	election := node.Election(h.line.Name, how...)
	for {
		var err error
		if h.runner != nil {
			err = h.runner.Run(ctx, run.Under(node, election))
		} else {
			err = election.Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
				<-ctx.Done()
				return nil
			})
		}
		if ctx.Err() != nil {
			return
		}
		c.cfg.Logger.Error("this member is not a candidate of an election", "election", h.line.Name, "error", err, "again", fullPause)
		select {
		case <-time.After(fullPause):
		case <-ctx.Done():
			return
		case <-node.Done():
			return
		}
	}
}

// Signal sends s to all running commands.
func (c *Crew) Signal(s syscall.Signal) { c.each(func(r *run.Runner) { r.Signal(s) }) }

// Kill kills all commands without further grace.
func (c *Crew) Kill() { c.each((*run.Runner).Kill) }

func (c *Crew) each(do func(*run.Runner)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range c.all {
		if h.runner != nil {
			do(h.runner)
		}
	}
}
