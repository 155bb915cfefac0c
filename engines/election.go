package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/clock"
)

// Election is a candidate of an election on an engine. It is a [batuta.Elector]; its methods may be
// called from any goroutine. [Start] and [New] create it; the zero Election is of no use.
type Election struct {
	cfg     Config
	engine  Engine
	process string
	born    time.Time
	clock   *clock.Clock // counts what a leader may hold; see also observer
	history *history
	lasting atomic.Int64 // until when on clock our leadership lasts

	commands chan command
	looks    chan look
	answers  chan answer
	nudge    chan struct{}   // have the record looked at now
	begun    atomic.Bool     // Run was called, or what ends an election that never runs
	ctx      context.Context // is over when the election is to give leadership up and end
	stop     context.CancelFunc
	cut      context.Context // is over when it is to end although work runs
	abort    context.CancelFunc
	done     chan struct{}
	err      error          // valid once done is closed
	beside   sync.WaitGroup // goroutines but the loop

	// Used in the loop only.
	timer    *time.Timer
	observer observer
	mine     Record        // what we hold, or may hold; its Version is empty when we do not
	token    batuta.Token  // of our leadership; zero: we do not lead
	until    time.Duration // on clock: when the lease of mine ends
	renewAt  time.Duration // on clock
	retryAt  time.Duration // on clock: no call before; a call has failed
	asked    bool          // a call of the engine is under way
	callEnd  time.Duration // on clock: when the last call has ended
	working  map[*work]struct{}
	leads    int   // calls of Lead
	standing bool  // by StandAlways or Campaign
	unfit    error // why it is not fit to lead
	resigned bool
	freeFrom time.Time // since when there is no leader, after this candidate resigned
	closing  bool
	cutShort bool // work that goes on is not waited for
	lost     map[batuta.Cause]uint64
	trouble  trouble
}

// command is something to do on the loop; done is closed when all that it led
// to at once has been done too.
type command struct {
	do   func()
	done chan struct{}
}

// Start is [New], and [Election.Run] on a goroutine of its own. It does not wait for the engine to
// answer. ctx is for the start only: its end does not end an election that runs. The caller
// ends the election with [Election.Shutdown] or [Election.Close].
func Start(ctx context.Context, engine Engine, c Config) (*Election, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := New(engine, c)
	if err != nil {
		return nil, err
	}
	go e.Run(context.Background()) // its error is that of Err, Shutdown and Close
	return e, nil
}

// New checks c and makes a candidate of the election that engine keeps, which does not ask the
// engine before [Election.Run]. [Election.Watch] and [Election.Events] called before Run yield
// everything from the beginning; methods with a context wait for Run. The engine is closed with the
// election. The error wraps [batuta.ErrConfig].
func New(engine Engine, c Config) (*Election, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	e := &Election{cfg: c, engine: engine, process: rand.Text(), born: now,
		clock:    clock.New(clock.System(), c.Lease),
		history:  newHistory(batuta.View{Election: c.Election, Since: now}),
		commands: make(chan command), looks: make(chan look), answers: make(chan answer), nudge: make(chan struct{}, 1),
		done: make(chan struct{}), timer: time.NewTimer(0), working: map[*work]struct{}{}, standing: c.StandAlways, lost: map[batuta.Cause]uint64{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.cut, e.abort = context.WithCancel(context.Background())
	return e, nil
}

// Run takes part in the election until ctx ends, then gives leadership up and returns. Like
// [Election.Shutdown] it waits for the functions that [Election.Lead] runs, without a limit of its
// own. It returns nil after an orderly end, else what [Election.Err] does.
//
// An election runs once: a second Run returns an error, and Run after Close returns [batuta.ErrClosed].
func (e *Election) Run(ctx context.Context) error {
	if !e.begun.CompareAndSwap(false, true) {
		select {
		case <-e.done:
			return batuta.ErrClosed
		default:
			return fmt.Errorf("candidate %s runs already: call Run once, and not after Start", e.ID())
		}
	}
	defer context.AfterFunc(ctx, e.stop)()
	e.loop()
	return e.err
}

// ID is this candidate's id.
func (e *Election) ID() batuta.ID { return e.cfg.ID }

// Process is the name under which the engine knows this candidate's process, for [Release].
func (e *Election) Process() string { return e.process }

// Leader is this candidate's present view. It names this candidate only while IsLeader is true, and
// a different candidate for as long as the record of that candidate may hold.
func (e *Election) Leader() batuta.View {
	v := e.history.view()
	if late := e.late(); v.Token.Leader.ID == e.ID() && late >= 0 {
		return batuta.View{Election: v.Election, Since: time.Now().Add(-late), Lost: v.Token, Cause: batuta.CauseStalled}
	}
	return v
}

// IsLeader reports whether this candidate leads right now. It compares clocks: when the engine
// has confirmed no renewal for [Config.Lease] less [Config.Stop], or the process was
// stopped for so long, it is false at once.
func (e *Election) IsLeader() bool {
	return e.history.view().Token.Leader.ID == e.ID() && e.late() < 0
}

// awake is the time of the observer: it does not advance in suspension, and is not slewed.
func (e *Election) awake() time.Time { return e.born.Add(e.clock.Awake()) }

// late is for how long the leadership has been over by the clock; negative while it is not.
func (e *Election) late() time.Duration {
	return e.clock.Now() - time.Duration(e.lasting.Load())
}

// Lease returns the lease of this candidate's leadership. While its work stops the lease goes on; no other
// candidate leads before it has ended. Its error is ctx's, or [batuta.ErrClosed].
func (e *Election) Lease(ctx context.Context) (batuta.Lease, error) {
	left := make(chan time.Duration, 1)
	err := e.call(ctx, func() {
		if e.holds() {
			left <- e.until - e.clock.Now()
		} else {
			left <- 0
		}
	})
	l := batuta.Lease{Whole: e.cfg.whole()}
	if err == nil {
		l.Left = <-left
	}
	return l, err
}

// Resign steps down, so other candidates can claim leadership; no effect when not leading. The record
// is released when the work has returned. Resign returns when the leadership has ended here, with ctx's
// error, or with [batuta.ErrClosed]. This process is a candidate again when a later leadership has
// ended, when there was no leader for twice [Config.Renew], or by [Election.Campaign].
func (e *Election) Resign(ctx context.Context) error {
	return e.call(ctx, func() { e.resign() })
}

// Campaign makes this process a candidate, whether Lead is called or not, also when it has resigned.
func (e *Election) Campaign(ctx context.Context) error {
	return e.call(ctx, func() { e.standing, e.resigned, e.retryAt = true, false, 0 })
}

// SetHealth reports whether this process is healthy: nil if it is, as at first, else an error with the
// reason, which [Election.Status] shows. An unhealthy process hands leadership over, and is a
// candidate again when it is healthy.
func (e *Election) SetHealth(ctx context.Context, err error) error {
	return e.call(ctx, func() {
		if e.unfit = err; err != nil {
			e.lose(batuta.CauseResigned)
		}
	})
}

// Shutdown gives leadership up, if this candidate has it, and ends the election. It cancels the
// contexts of the functions that [Election.Lead] runs, and waits for the functions: no other
// candidate leads before they have returned. For an engine that does not answer it waits half the lease
// at most, with the default times; the lease then ends by itself.
//
// If ctx ends while functions run, Shutdown ends the election without them, as [Election.Close] does,
// and returns ctx's error joined with that of Close. Called with the context of a function of Lead
// it returns [batuta.ErrInWork] and does nothing.
func (e *Election) Shutdown(ctx context.Context) error {
	if ctx.Value(workKey{e}) != nil {
		return batuta.ErrInWork
	}
	e.stop()
	if e.begun.CompareAndSwap(false, true) { // it never ran
		e.end()
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	e.abort()
	<-e.done
	if e.err != nil {
		return errors.Join(ctx.Err(), e.err)
	}
	return nil
}

// Close is [Election.Shutdown] that waits [Config.Stop], a fifth of the lease by default, for the functions
// that [Election.Lead] runs, and for a function that calls it too. If a function runs longer, the
// election ends without releasing the record, and the next candidate can lead when the lease has
// ended, also if the function runs on. The error then wraps [batuta.ErrClosed]. Closing again
// does nothing.
func (e *Election) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Stop)
	defer cancel()
	e.Shutdown(ctx)
	return e.err
}

// Done is closed when the election has been closed.
func (e *Election) Done() <-chan struct{} { return e.done }

// Err is that the election ended before its work; nil while it runs and after an orderly end.
func (e *Election) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// call does f on the loop, and waits until all that comes of it at once is done.
func (e *Election) call(ctx context.Context, f func()) error {
	c := command{f, make(chan struct{})}
	select {
	case e.commands <- c:
	case <-e.done:
		return batuta.ErrClosed
	case <-ctx.Done():
		select {
		case <-e.done:
			return batuta.ErrClosed
		default:
			return ctx.Err()
		}
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
