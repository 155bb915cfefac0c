package run

import (
	"os"
	"sync"
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
