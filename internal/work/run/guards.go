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

// Guards are the guards of many runners of a process: each runner has a guard while its command
// runs, and a spare guard is kept ready.
type Guards struct {
	starter
	starts chan struct{}  // bounds how many are started at once
	out    sync.WaitGroup // guards of finished runs that are not back yet

	mu     sync.Mutex
	spare  *guarded // nil: none
	closed bool
}

// startsAtOnce bounds how many guards are started at once: a member that receives hundreds of
// elections also needs time for its own work.
const startsAtOnce = 4

// NewGuards makes guards of this program with that command line, and starts the first. The output
// of their commands goes to stdout (nil: this process's own) and standard error; they have no
// input. The caller must call Close when nothing runs any more.
func NewGuards(program string, argv []string, stdout *os.File) (*Guards, error) {
	g := &Guards{starter: starter{program: program, argv: argv, stdout: stdout}, starts: make(chan struct{}, startsAtOnce)}
	first, err := g.start()
	if err != nil {
		return nil, err
	}
	g.spare = first
	return g, nil
}

// take returns an idle guard.
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

// give returns a guard to the spares, or ends it.
func (p *Guards) give(g *guarded) {
	p.mu.Lock()
	keep := p.spare == nil && !p.closed && !g.killed.Load()
	if keep {
		p.spare = g
	}
	p.mu.Unlock()
	if !keep {
		g.end()
	}
}

// Close ends all guards.
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

// oaths is what a keeper's guards have to attest. It never makes its caller wait: a guard may be
// stuck. The zero value has nothing to attest.
type oaths struct {
	mu     sync.Mutex
	now    attest.Oath
	bars   string
	never  string        // why no guard can ever attest: the system does not allow it
	due    chan struct{} // an oath has to be handed on; nil: there was none yet
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
	k.oaths.bars = cmp.Or(k.oaths.bars, unsworn)
	k.oaths.again()
}

// again makes handOn send the oath again, also to a new guard. mu is held.
func (o *oaths) again() {
	if o.due == nil || o.closed {
		return
	}
	select {
	case o.due <- struct{}{}:
	default:
	}
}

// handOn sends oaths to the guard.
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

// Why no guard attests: it has not received its oath yet, or there is none.
const (
	unsworn   = "its guard has just started, or has yet to receive what to attest"
	guardDied = "the guard has died"
)

// handed records that the guard will read the oath, even if this process dies.
func (o *oaths) handed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bars == unsworn && len(o.due) == 0 {
		o.bars = ""
	}
}

// started makes a new guard receive the oath, and clears the reasons of the previous guard.
func (o *oaths) started() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bars = ""; o.due != nil {
		o.bars = unsworn
	}
	o.again()
}

// bar records why the guard attests nothing.
func (k *keeper) bar(why string) {
	k.oaths.mu.Lock()
	defer k.oaths.mu.Unlock()
	if k.oaths.closed || k.oaths.bars == why {
		return
	}
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

// shut ends handOn.
func (o *oaths) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.due != nil && !o.closed {
		close(o.due)
	}
	o.closed = true
}

// Guard returns the guard that attests the end of this process, and of the command.
func (r *Runner) Guard() attest.Guard {
	r.keeper.mayAttest()
	return &r.keeper
}

// mayAttest checks whether a guard can detect the end of this process.
func (k *keeper) mayAttest() {
	if err := seesDeaths(); err != nil {
		k.oaths.mu.Lock()
		defer k.oaths.mu.Unlock()
		k.oaths.never = fmt.Sprintf("the system does not let a guard see the end of its agent: %v", err)
	}
}

// Sentry is the guard of a process without a command.
type Sentry struct {
	keeper keeper
	ended  chan struct{}
	kept   sync.WaitGroup
}

// NewSentry starts a guard of this program with that command line, and replaces it when it dies.
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

// sentryPause is the time before a dead guard is replaced.
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
		select {
		case <-s.ended:
			continue
		case <-time.After(sentryPause):
		}
		var err error
		if g, err = s.keeper.ready(); err != nil {
			s.keeper.bar(err.Error())
		}
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
