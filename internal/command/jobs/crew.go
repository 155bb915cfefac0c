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
	"github.com/batuta-dev/batuta/internal/command/run"
)

// Config sets up a [Crew].
type Config struct {
	Lines     []Line
	Grace     time.Duration // of each command, from SIGTERM to SIGKILL
	Finish    time.Duration // for which a run may go on once its election is to be handed over
	Heartbeat time.Duration // of the node
	T         time.Duration // silence after which the node is suspected
	Program   string        // path of this program
	Guard     []string      // command line by which it becomes a guard
	Stdout    *os.File      // of the commands; default this process's own
	Meta      map[string]string
	Logger    *slog.Logger
}

// Check reports what is wrong with the configuration that no single line shows.
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

// Crew has a node stand for many elections, and runs their commands. Its methods may be
// called from any goroutine.
type Crew struct {
	cfg  Config
	book *Book

	mu     sync.Mutex
	guards *run.Guards // nil: no command has been seen
	ctx    context.Context
	node   *batuta.Node // nil: it has not begun
	hands  map[string]*hand
	all    map[*hand]bool // those, and who is being stopped
	past   sync.WaitGroup // of all
}

// hand is one line at work.
type hand struct {
	line   Line
	runner *run.Runner // nil: it just leads
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when it is no candidate any more, and nothing runs
}

// New prepares a Crew, and a guard if there is a command. The caller must call Run or Close.
func New(c Config) (*Crew, error) {
	crew := &Crew{cfg: c, hands: map[string]*hand{}, all: map[*hand]bool{}, book: NewBook()}
	return crew, crew.equip(c.Lines)
}

// equip has guards for those lines. The caller holds the lock, or nobody else has the crew.
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

// Close ends the guards. Nothing must run any more.
func (c *Crew) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guards != nil {
		c.guards.Close()
	}
}

// Run has node stand for all elections until ctx or node ends. Commands are stopped by
// ctx's [run.StopSignal]. It returns when nothing of them is left: nil, or what has become of node.
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

// Change puts lines in place of those before. Where a line is as it was nothing happens;
// of one that has changed, or is gone, the command is stopped first.
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
		return nil // it begins with them
	}
	kept := map[string]bool{}
	for _, l := range lines {
		kept[l.Name] = true
	}
	c.book.write(lines)
	for name, h := range c.hands {
		if !kept[name] {
			h.cancel(nil)
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

// Book is what this member knows of its jobs. The caller must call [Book.Begin] before Run.
func (c *Crew) Book() *Book { return c.book }

// Has reports whether a line is of that election.
func (c *Crew) Has(election string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.cfg.Lines, func(l Line) bool { return l.Name == election })
}

// begin has a line at work once the one before it is over.
func (c *Crew) begin(l Line, before *hand) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	h := &hand{line: l, cancel: cancel, over: make(chan struct{})}
	c.hands[l.Name], c.all[h] = h, true
	if l.Argv != nil {
		h.runner = c.runner(l)
	}
	if before != nil {
		before.cancel(nil)
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

// runner is for a line with a command. It keeps going: there is always a next tick, or
// another beginning.
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

// fullPause is how long a member waits that the cluster has no room for.
const fullPause = 10 * time.Second

// work stands for one election until ctx or node ends.
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
		c.cfg.Logger.Error("this member does not stand for an election", "election", h.line.Name, "error", err, "again", fullPause)
		select {
		case <-time.After(fullPause):
		case <-ctx.Done():
			return
		case <-node.Done():
			return
		}
	}
}

// Signal passes s on to all commands that run.
func (c *Crew) Signal(s syscall.Signal) { c.each(func(r *run.Runner) { r.Signal(s) }) }

// Kill kills them without further grace.
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
