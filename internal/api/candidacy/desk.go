// Package candidacy lets clients of an agent stand for named elections over HTTP, in any language.
//
// A client acknowledges a loss, and then leadership is given away. Each wait for a client has a bound.
package candidacy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/metric"
	"github.com/batuta-dev/batuta/internal/net/refusal"
)

// Bounds of candidacies.
const (
	Max          = 10_000          // candidacies of an agent at the same time
	MinTTL       = time.Second     // of a lease
	MaxTTL       = 5 * time.Minute // of a lease, and of a grace
	DefaultGrace = 5 * time.Second // for which a stream may leave a loss unacknowledged
	maxBody      = 4 << 10         // bytes of a request
	askTime      = 900 * time.Millisecond
	repeatEvery  = 15 * time.Second // of a line on which nothing changes
)

// Election is what a candidacy needs of a [batuta.Election].
type Election interface {
	Name() string
	Lead(ctx context.Context, fn func(ctx context.Context, l batuta.Leadership) error) error
	Leaders() []batuta.View
	Lease(ctx context.Context) (batuta.Lease, error)
}

// Config is what a [Desk] needs of its agent.
type Config struct {
	Member   batuta.ID                                                                         // of the agent
	Open     func(name string, o ...batuta.ElectionOption) (Election, error)                   // gives a named election; its error is the client's fault
	Reserved func(name string) bool                                                            // whether the agent itself is a candidate in it; nil: in none
	Permit   func(w http.ResponseWriter, r *http.Request, election string) (c Client, ok bool) // gives the client of a request; not ok: it has answered; nil: all are permitted
	Serves   func(election string, t batuta.Token)                                             // is called when the work of a leadership serves; nil: it is not
	Log      *slog.Logger                                                                      // default: none
}

// Client is the owner of candidacies.
type Client struct {
	Name   string // "": it has no identity, and no limit
	Limit  int    // of its candidacies at the same time
	Weighs bool   // a candidacy counts its weight, by which elections move
}

// State is the state of a candidacy.
type State string

// The states of a candidacy.
const (
	Waiting State = "waiting"
	Leading State = "leading"
	Lost    State = "lost" // until the client acknowledges that its work has stopped, or the bound has passed
)

// Turn is what a client receives about its candidacy.
type Turn struct {
	State     State   `json:"state"`
	Election  string  `json:"election"`
	Token     *string `json:"token"`    // "epoch:leader"; null while waiting
	ValidMS   int64   `json:"valid_ms"` // for how long the work may go on if no further answer arrives
	LeaseMS   int64   `json:"lease_ms"` // valid_ms after a renewal by the quorum; 0 with best effort
	Candidacy string  `json:"candidacy"`
	HeldBy    string  `json:"held_by,omitempty"` // while waiting with no seat free: a member that leads
	Cause     string  `json:"cause,omitempty"`   // of a loss
	Ready     bool    `json:"ready,omitempty"`   // while leading: the client has reported that its work serves
}

// Desk keeps the candidacies of an agent.
type Desk struct {
	cfg     Config
	ended   *metric.Counts
	bounded refusal.Log // of what clients cause: 16 lines a minute

	mu     sync.Mutex
	all    map[string]*candidacy // by id
	each   map[string]int        // what those of each client count
	queues map[string]*queue     // by the name of the election
}

// New makes a Desk without candidacies.
func New(c Config) *Desk {
	if c.Reserved == nil {
		c.Reserved = func(string) bool { return false }
	}
	if c.Permit == nil {
		c.Permit = func(http.ResponseWriter, *http.Request, string) (c Client, ok bool) { return c, true }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	ended := metric.NewCounts("batuta_candidacies_ended_total",
		"Candidacies of HTTP clients that have ended, by how: released, disconnected, expired, unacknowledged, failed; or refused.",
		"how", released, disconnected, expired, unacknowledged, failed, refused)
	return &Desk{cfg: c, ended: ended, all: map[string]*candidacy{}, each: map[string]int{}, queues: map[string]*queue{}}
}

// How a candidacy ends.
const (
	released       = "released"       // by DELETE
	disconnected   = "disconnected"   // the connection of a stream has ended
	expired        = "expired"        // a lease was not renewed
	unacknowledged = "unacknowledged" // the grace of a stream has passed after a loss
	failed         = "failed"         // the member cannot be a candidate, or has ended
	refused        = "refused"        // beyond Max, or the limit of a client
)

// Families is the [metric.Source] of the candidacies.
func (d *Desk) Families() []*metric.Family {
	l := metric.List(d.ended.Families())
	d.mu.Lock()
	defer d.mu.Unlock()
	l.Gauge("batuta_candidacies", "Candidacies of HTTP clients.").Add(float64(len(d.all)))
	return l
}

// Reserve changes which elections are the agent's own, and refused to clients. It must be called before the first
// request.
func (d *Desk) Reserve(reserved func(name string) bool) { d.cfg.Reserved = reserved }

// candidacy is a client that is a candidate of an election. The desk's lock guards it.
type candidacy struct {
	id     string
	client Client // that began it
	weight int    // that it asks for
	counts int    // of the client's limit
	queue  *queue
	stream bool
	bound  time.Duration // the ttl of a lease, the grace of a stream
	seats  int

	state State
	token batuta.Token // of the leadership that it has or had
	cause batuta.Cause // of the loss
	ready bool         // the work of this leadership serves
	until time.Time    // when it ends unless it is renewed; zero: a stream that has lost nothing
	timer *time.Timer  // of until

	changed chan struct{} // closed and replaced at each change of state
	gone    bool
	failure error // why it could not be a candidate
}

// Errors of a request.
var (
	errTooMany  = fmt.Errorf("this agent has %d candidacies already: end one, or ask the agent of another member", Max)
	errQuota    = errors.New("too many candidacies")
	errReserved = errors.New("it is an election of the agent itself: choose another name")
)

// stand begins a candidacy.
func (d *Desk) stand(e Election, c *candidacy) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[e.Name()]
	first := q == nil
	if first {
		q = &queue{desk: d, election: e, weight: c.weight}
	}
	if c.counts = 1; c.client.Weighs {
		c.counts = max(c.weight, q.weight) // with which the queue goes on when the earlier candidacies end
	}
	switch {
	case d.cfg.Reserved(e.Name()):
		return errReserved
	case len(d.all) >= Max:
		d.ended.Inc(refused)
		return errTooMany
	case c.client.Name != "" && d.each[c.client.Name]+c.counts > c.client.Limit:
		d.ended.Inc(refused)
		return fmt.Errorf("%w: those of this client count %d of %d, and this one %d: end one, or set limit=N after its role in the agent's --http-token-file",
			errQuota, d.each[c.client.Name], c.client.Limit, c.counts)
	}
	d.each[c.client.Name] += c.counts
	c.id, c.state, c.changed = rand.Text(), Waiting, make(chan struct{})
	d.all[c.id] = c
	if first {
		d.queues[e.Name()] = q
		go q.run()
	}
	c.queue, q.waiting = q, append(q.waiting, c)
	if !c.stream {
		d.expireAfter(c, c.bound, expired)
	}
	return nil
}

// find gives the candidacy of that id for that election; nil: there is none.
func (d *Desk) find(name, id string) *candidacy {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.all[id]; c != nil && c.queue.election.Name() == name {
		return c
	}
	return nil
}

// renew gives a lease that has lost nothing a new ttl.
func (d *Desk) renew(c *candidacy, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.gone && c.state != Lost {
		c.bound = ttl
		d.expireAfter(c, ttl, expired)
	}
}

// expireAfter ends a candidacy after that time, unless this is called again before.
func (d *Desk) expireAfter(c *candidacy, after time.Duration, how string) {
	if c.timer != nil {
		c.timer.Stop()
	}
	until := time.Now().Add(after)
	c.until = until
	c.timer = time.AfterFunc(after, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.until.Equal(until) {
			d.end(c, how)
		}
	})
}

// release acknowledges that the client's work has stopped: leadership is given away, and the candidacy waits again.
func (d *Desk) release(c *candidacy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.gone || c.state == Waiting {
		return
	}
	if c.stream && c.timer != nil {
		c.timer.Stop()
		c.until = time.Time{}
	}
	c.turn(Waiting, batuta.Token{})
}

// serve reports that the work of a candidacy serves; false: it does not lead.
func (d *Desk) serve(c *candidacy) bool {
	d.mu.Lock()
	token, leads, first := c.token, c.state == Leading, !c.ready
	c.ready = leads
	d.mu.Unlock()
	if leads && first && d.cfg.Serves != nil {
		d.cfg.Serves(c.queue.election.Name(), token)
	}
	return leads
}

// Serves reports whether the client that leads an election here under a token has reported that its work serves.
func (d *Desk) Serves(election string, t batuta.Token) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[election]
	return q != nil && q.holder != nil && q.holder.ready && q.holder.token == t
}

// finish ends a candidacy by itself.
func (d *Desk) finish(c *candidacy, how string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(c, how)
}

// end ends a candidacy; whatever it leads is given away. The lock is held.
func (d *Desk) end(c *candidacy, how string) {
	if c.gone {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	delete(d.all, c.id)
	if d.each[c.client.Name] -= c.counts; d.each[c.client.Name] == 0 {
		delete(d.each, c.client.Name)
	}
	d.ended.Inc(how)
	if name := c.queue.election.Name(); how == expired || how == unacknowledged {
		d.bounded.Warn(d.cfg.Log, "", how+name, "a client's candidacy has ended at its bound", "election", name, "state", c.state, "how", how, "token", c.token.String())
	}
	c.gone = true
	c.queue.waiting = slices.DeleteFunc(c.queue.waiting, func(o *candidacy) bool { return o == c })
	c.turn(Waiting, batuta.Token{})
	c.queue.stopIfEmpty()
}

// turn changes the state; readers wake up, and on Waiting the work under a leadership has stopped.
func (c *candidacy) turn(s State, t batuta.Token) {
	c.state, c.token, c.ready = s, t, false
	if s != Lost {
		c.cause = ""
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// answer gives the state of a candidacy, and a channel that is closed when that changes. over: it has ended.
func (d *Desk) answer(ctx context.Context, c *candidacy) (a Turn, changed <-chan struct{}, over bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	d.mu.Lock()
	waits := c.state == Waiting
	d.mu.Unlock()
	var lease batuta.Lease
	asked := time.Now()
	if !waits { // asked before the state is read: what has begun since is valid for longer
		if lease, err = c.queue.election.Lease(ctx); err != nil {
			return a, nil, false, err
		}
	}
	leaders := c.queue.election.Leaders()
	d.mu.Lock()
	defer d.mu.Unlock()
	a = Turn{State: c.state, Election: c.queue.election.Name(), Candidacy: c.id, Cause: string(c.cause), Ready: c.ready}
	if c.state == Waiting {
		a.HeldBy = d.heldBy(c, leaders)
		return a, c.changed, c.gone, nil
	}
	a.Token, a.LeaseMS = new(c.token.String()), lease.Whole.Milliseconds()
	left := lease.Left - time.Since(asked)
	if !c.until.IsZero() {
		left = min(left, time.Until(c.until))
	}
	a.ValidMS = max(left, 0).Milliseconds()
	return a, c.changed, c.gone, nil
}

// heldBy returns a member that leads while no seat is free for a candidacy. If this member leads and no
// candidacy holds that leadership, the first that waits gets it.
func (d *Desk) heldBy(c *candidacy, leaders []batuta.View) string {
	own := func(v batuta.View) bool { return v.Token.Leader.ID == d.cfg.Member }
	switch q := c.queue; {
	case q.holder != nil && q.holder.state != Waiting || len(q.waiting) > 0 && q.waiting[0] != c:
		return string(d.cfg.Member)
	case len(leaders) >= c.seats && len(leaders) > 0 && !slices.ContainsFunc(leaders, own):
		return string(leaders[0].Token.Leader.ID)
	}
	return ""
}

// queue has the candidacies of an agent for an election: each leads under a token of its own, in order.
// The desk's lock guards it.
type queue struct {
	desk     *Desk
	election Election
	weight   int          // of the election here: its first candidacy's, also when that has ended
	waiting  []*candidacy // the first leads next
	holder   *candidacy   // that leads, or whose work has still to stop
	cancel   context.CancelFunc
}

// run makes the member a candidate of the election until no candidacy is left.
func (q *queue) run() {
	for {
		ctx, ok := q.more()
		if !ok {
			return
		}
		if err := q.election.Lead(ctx, q.lead); err != nil && ctx.Err() == nil {
			q.fail(err)
		}
	}
}

// more gives the context of the next candidacies; false: there are none, and the queue is gone.
func (q *queue) more() (context.Context, bool) {
	d := q.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.cancel != nil {
		q.cancel()
	}
	if len(q.waiting) == 0 {
		delete(d.queues, q.election.Name())
		return nil, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	return ctx, true
}

// fail ends all candidacies: the member cannot be a candidate.
func (q *queue) fail(err error) {
	d := q.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, batuta.ErrClosed) {
		d.bounded.Warn(d.cfg.Log, "", "failed"+q.election.Name(), "this member cannot stand for an election of its clients", "election", q.election.Name(), "error", err)
	}
	for len(q.waiting) > 0 {
		q.waiting[0].failure = err
		d.end(q.waiting[0], failed)
	}
}

// lead is the work of a leadership: it returns when the client's work has stopped.
func (q *queue) lead(ctx context.Context, l batuta.Leadership) error {
	c, stopped := q.next(ctx, l.Token)
	if c == nil {
		return nil
	}
	defer q.free(c)
	select {
	case <-ctx.Done():
		<-cmp.Or(q.lose(c, ctx), stopped)
	case <-stopped:
	}
	return nil
}

// next gives the leadership to the first that waits, and a channel that is closed when its work has stopped, unless
// the leadership is lost before; nil: none waits, or the leadership is over.
func (q *queue) next(ctx context.Context, token batuta.Token) (c *candidacy, stopped <-chan struct{}) {
	q.desk.mu.Lock()
	defer q.desk.mu.Unlock()
	if len(q.waiting) == 0 || ctx.Err() != nil {
		return nil, nil
	}
	c = q.waiting[0]
	q.holder, q.waiting = c, q.waiting[1:]
	c.turn(Leading, token)
	return c, c.changed
}

// lose reports a loss to the client. From now on nothing extends its bound. The channel is closed when the work has
// stopped; nil: it already has.
func (q *queue) lose(c *candidacy, ctx context.Context) (stopped <-chan struct{}) {
	d := q.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.gone || c.state != Leading {
		return nil
	}
	if lost, ok := errors.AsType[*batuta.LostError](context.Cause(ctx)); ok {
		c.cause = lost.Cause
	}
	if c.stream {
		d.expireAfter(c, c.bound, unacknowledged)
	}
	c.turn(Lost, c.token)
	return c.changed
}

// free ends a leadership: its candidacy waits again, unless it has ended.
func (q *queue) free(c *candidacy) {
	q.desk.mu.Lock()
	defer q.desk.mu.Unlock()
	q.holder = nil
	if !c.gone {
		q.waiting = append(q.waiting, c)
	}
	q.stopIfEmpty()
}

// stopIfEmpty ends the member's own candidacy if no candidacy of a client is left.
func (q *queue) stopIfEmpty() {
	if len(q.waiting) == 0 && q.holder == nil && q.cancel != nil {
		q.cancel()
	}
}
