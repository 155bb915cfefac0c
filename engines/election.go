package engines

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/clock"
)

// Election is one candidate of an election on an engine. It is a [batuta.Elector]; its methods may be
// called from any goroutine. [Start] makes one; the zero Election is of no use.
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
	nudge    chan struct{} // have the record looked at now
	stop     context.CancelFunc
	done     chan struct{}
	beside   sync.WaitGroup // goroutines but the loop
	ctx      context.Context

	// The loop's alone.
	timer    *time.Timer
	observer observer
	mine     Record        // what we hold, or may hold; its Version is empty when we do not
	token    batuta.Token  // of our leadership; zero: we do not lead
	until    time.Duration // on clock: when the lease of mine ends
	renewAt  time.Duration // on clock
	claimAt  time.Duration // on clock: not before
	asked    bool          // a call of the engine is under way
	callEnd  time.Duration // on clock: when the last one has ended
	working  map[*work]struct{}
	leads    int  // calls of Lead
	standing bool // by StandAlways or Campaign
	unfit    bool
	resigned bool
	freeFrom time.Time // since when nobody leads and we have resigned
	closing  bool
	lost     map[batuta.Cause]uint64
	trouble  trouble
}

// command is something to do on the loop; done is closed when all that it led
// to at once has been done too.
type command struct {
	do   func()
	done chan struct{}
}

// Start has a candidate take part in the election that engine keeps. It does not wait
// for the engine to answer. The engine is closed with the election; ctx is for the start alone. Its error wraps [batuta.ErrConfig].
func Start(ctx context.Context, engine Engine, c Config) (*Election, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	e := &Election{cfg: c, engine: engine, process: rand.Text(), born: now,
		clock:    clock.New(clock.System(), c.Lease),
		history:  newHistory(batuta.View{Election: c.Election, Since: now}),
		commands: make(chan command), looks: make(chan look), answers: make(chan answer), nudge: make(chan struct{}, 1),
		done: make(chan struct{}), timer: time.NewTimer(0), working: map[*work]struct{}{}, standing: c.StandAlways, lost: map[batuta.Cause]uint64{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	go e.loop()
	return e, nil
}

// ID is this candidate's id.
func (e *Election) ID() batuta.ID { return batuta.ID(e.cfg.ID) }

// Process is the name under which the engine knows this candidate's process, for [Release].
func (e *Election) Process() string { return e.process }

// Leader is this candidate's present view. It names this candidate only while IsLeader does, and
// another for as long as that one's record may hold.
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

// awake is the time of the observer: it stands still in suspension, and is not slewed.
func (e *Election) awake() time.Time { return e.born.Add(e.clock.Awake()) }

// late is for how long the leadership has been over by the clock; negative while it is not.
func (e *Election) late() time.Duration {
	return e.clock.Now() - time.Duration(e.lasting.Load())
}

// Lease is for how long what this candidate's leadership has begun may still run if no renewal
// is confirmed from now on, and for how long at most. While its work stops the lease goes on;
// nobody else leads before it has ended. Without one left is 0 or less. Its error is ctx's, or [batuta.ErrClosed].
func (e *Election) Lease(ctx context.Context) (left, whole time.Duration, err error) {
	err = e.call(ctx, func() {
		if e.holds() {
			left = e.until - e.clock.Now()
		}
	})
	return left, e.cfg.whole(), err
}

// Resign steps down and lets others claim the lead; no effect when not leading. The record is given up when the
// work has returned. It returns when the leadership has ended here, with ctx's error, or with
// [batuta.ErrClosed]. This candidate stands again when a later leader's time has ended, when nobody
// has led for twice [Config.Renew], or by [Election.Campaign].
func (e *Election) Resign(ctx context.Context) error {
	return e.call(ctx, func() { e.resign() })
}

// Campaign has this candidate stand for election, whether Lead is called or not, also when it has resigned.
func (e *Election) Campaign(ctx context.Context) error {
	return e.call(ctx, func() { e.standing, e.resigned, e.claimAt = true, false, 0 })
}

// SetHealthy says whether this candidate is fit to lead; it is at first. One that is not gives
// up the lead and does not stand until it is fit again.
func (e *Election) SetHealthy(ctx context.Context, fit bool) error {
	return e.call(ctx, func() {
		if e.unfit = !fit; e.unfit {
			e.lose(batuta.CauseResigned)
		}
	})
}

// Close gives the lead up, if this candidate has it, and ends. It first tells the functions that
// [Election.Lead] runs, and waits for them: do not call it from within one. An
// engine that does not answer is waited for a fifth of the lease, and has then to see
// the lease end. Closing again does nothing.
func (e *Election) Close() error {
	e.stop()
	<-e.done
	return nil
}

// Done is closed when the election has been closed.
func (e *Election) Done() <-chan struct{} { return e.done }

// Err is why an election has ended by itself, which none does: nil.
func (e *Election) Err() error { return nil }

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
