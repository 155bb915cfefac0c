package stalltest

import (
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// prompt is how long it takes to start a process and to end it on a machine that does not hold it up.
const prompt = 200 * time.Millisecond

// Processes measures how long the machine holds up the start and the end of a process, until its test ends. Exec and
// exit wait for a lock on the program's file, which a process of low priority may hold for seconds. A [Watch] does not
// see that: the processors work meanwhile.
type Processes struct {
	mu    sync.Mutex
	began time.Time // of the present process
	held  []stall
}

// StartProcesses begins to measure, by processes that run until they are killed, with that pause between two.
func StartProcesses(t testing.TB, pause time.Duration, process func() *exec.Cmd) *Processes {
	p, done, over := &Processes{began: time.Now()}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			p.next(time.Now())
			if c := process(); c.Start() == nil {
				c.Process.Kill()
				c.Wait()
			}
			p.next(time.Now())
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
		}
	}()
	t.Cleanup(func() { close(done); <-over })
	return p
}

// next begins what follows the present process.
func (p *Processes) next(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from := p.began.Add(prompt); now.After(from) {
		p.held = append(p.held, stall{from, now})
	}
	p.began = now
}

// Held returns for how much of the time between two times a process waited to start or to end, beyond what is usual.
func (p *Processes) Held(from, to time.Time) (held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range append(slices.Clone(p.held), stall{p.began.Add(prompt), time.Now()}) {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		held += max(s.to.Sub(s.from), 0)
	}
	return held
}
