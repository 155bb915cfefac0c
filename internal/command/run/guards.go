package run

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/internal/core/attest"
)

// Guards are the guards of many runners of one process: each has one while its command
// runs, and one more is kept ahead of need.
type Guards struct {
	starter
	starts chan struct{}  // bounds how many are started at once
	out    sync.WaitGroup // of those whose run is over, and who are not back yet

	mu     sync.Mutex
	spare  *guarded // nil: none
	closed bool
}

// startsAtOnce bounds how many guards are started at once: a member that is given hundreds
// of elections needs time for its own work, too.
const startsAtOnce = 4

// NewGuards makes guards of this program by that command line, and starts the first. What
// their commands say goes to stdout (nil: this process's own) and standard error; they
// read nothing. The caller must call Close when nothing runs any more.
func NewGuards(program string, argv []string, stdout *os.File) (*Guards, error) {
	g := &Guards{starter: starter{program: program, argv: argv, stdout: stdout}, starts: make(chan struct{}, startsAtOnce)}
	first, err := g.start()
	if err != nil {
		return nil, err
	}
	g.spare = first
	return g, nil
}

// take gives a guard that has nothing to do.
func (p *Guards) take() (*guarded, error) {
	p.mu.Lock()
	g := p.spare
	p.spare = nil
	p.mu.Unlock()
	if g != nil && !g.dead() {
		return g, nil
	} else if g != nil {
		g.end()
	}
	p.starts <- struct{}{}
	defer func() { <-p.starts }()
	return p.start()
}

// give takes one back, or ends it.
func (p *Guards) give(g *guarded) {
	p.mu.Lock()
	keep := p.spare == nil && !p.closed
	if keep {
		p.spare = g
	}
	p.mu.Unlock()
	if !keep {
		g.end()
	}
}

// Close ends them.
func (p *Guards) Close() {
	p.mu.Lock()
	g := p.spare
	p.spare, p.closed = nil, true
	p.mu.Unlock()
	if g != nil {
		g.end()
	}
	p.out.Wait()
}

// oaths is what a keeper's guards are to attest. It never makes its caller wait: a guard may be
// stuck. The zero value has nothing to attest.
type oaths struct {
	mu     sync.Mutex
	now    attest.Oath
	bars   string
	never  string        // why none of them ever attests: the system does not let it
	due    chan struct{} // there is an oath to hand on; nil: nobody has sworn yet
	closed bool
}

// Swear implements [attest.Guard].
func (k *keeper) Swear(o attest.Oath) {
	k.oaths.mu.Lock()
	defer k.oaths.mu.Unlock()
	if k.oaths.closed {
		return
	}
	if k.oaths.now = o; k.oaths.due == nil {
		k.oaths.due = make(chan struct{}, 1)
		go k.handOn(k.oaths.due)
	}
	k.oaths.again()
}

// again has the oath handed on, to a guard that has just started, too. mu is held.
func (o *oaths) again() {
	if o.due == nil || o.closed {
		return
	}
	select {
	case o.due <- struct{}{}:
	default:
	}
}

// handOn hands oaths to the guard.
func (k *keeper) handOn(due <-chan struct{}) {
	for range due {
		k.mu.Lock()
		g := k.guard
		k.mu.Unlock()
		k.oaths.mu.Lock()
		o := k.oaths.now
		k.oaths.mu.Unlock()
		if g != nil && g.tell(order{Do: orderOath, Oath: &o, Agent: os.Getpid()}) == nil {
			k.oaths.handed()
		}
	}
}

// justStarted is why a guard attests nothing that has yet to be handed the oath.
const justStarted = "its guard has just started"

// handed notes that the guard will read the oath, whatever becomes of this process.
func (o *oaths) handed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bars == justStarted {
		o.bars = ""
	}
}

// started hands the oath to a guard that is new, and bars nothing any more.
func (o *oaths) started() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bars = ""; o.due != nil {
		o.bars = justStarted
	}
	o.again()
}

// bar notes why the guard attests nothing.
func (k *keeper) bar(why string) {
	k.oaths.mu.Lock()
	defer k.oaths.mu.Unlock()
	if k.oaths.bars = why; k.oaths.due != nil && k.log != nil {
		k.log.Warn("the guard does not attest the end of this process: should it die, the next leader comes when the lease has ended", "why", why)
	}
}

// Bars implements [attest.Guard].
func (k *keeper) Bars() string {
	k.oaths.mu.Lock()
	defer k.oaths.mu.Unlock()
	return cmp.Or(k.oaths.never, k.oaths.bars)
}

// shut ends what hands oaths on.
func (o *oaths) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.due != nil && !o.closed {
		close(o.due)
	}
	o.closed = true
}

// Guard attests the end of this process, and of the command.
func (r *Runner) Guard() attest.Guard {
	r.keeper.mayAttest()
	return &r.keeper
}

// mayAttest finds whether a guard can see the end of this process.
func (k *keeper) mayAttest() {
	if err := seesDeaths(); err != nil {
		k.oaths.mu.Lock()
		defer k.oaths.mu.Unlock()
		k.oaths.never = fmt.Sprintf("the system does not let a guard see the end of its agent: %v", err)
	}
}

// Sentry is the guard of a process that runs no command under it.
type Sentry struct {
	keeper keeper
	ended  chan struct{}
	kept   sync.WaitGroup
}

// NewSentry starts a guard of this program by that command line, and another when that has died.
// The caller must call Close once.
func NewSentry(program string, argv []string, log *slog.Logger) (*Sentry, error) {
	s := &Sentry{keeper: keeper{starter: starter{program: program, argv: argv, bare: true}, log: log}, ended: make(chan struct{})}
	g, err := s.keeper.ready()
	if err != nil {
		return nil, err
	}
	s.keeper.mayAttest()
	s.kept.Go(func() { s.keep(g) })
	return s, nil
}

// sentryPause is how long a sentry waits before it starts another guard.
const sentryPause = time.Second

// keep replaces guards that die, until the sentry is closed.
func (s *Sentry) keep(g *guarded) {
	for {
		if g != nil && !s.over() {
			for range g.reports { // until it has died
			}
		}
		s.keeper.lost()
		if s.over() {
			return
		}
		s.keeper.bar("the guard has died")
		select {
		case <-s.ended:
		case <-time.After(sentryPause):
		}
		g, _ = s.keeper.ready()
	}
}

// over reports whether the sentry is closed.
func (s *Sentry) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Swear implements [attest.Guard].
func (s *Sentry) Swear(o attest.Oath) { s.keeper.Swear(o) }

// Bars implements [attest.Guard].
func (s *Sentry) Bars() string { return s.keeper.Bars() }

// Close ends the guard.
func (s *Sentry) Close() {
	close(s.ended)
	s.keeper.close()
	s.kept.Wait()
}
