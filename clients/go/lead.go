package batutaclient

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	margin = 0.2                    // part of the valid time that is left for the work to notice the end
	pause  = 200 * time.Millisecond // between two questions, at most
	atLast = 2 * time.Second        // for the candidacy to end
)

// Lead is a candidate in an election until ctx is done, and runs work each time that this program leads. The context of the
// work is cancelled when the leadership is over: the work must return soon then. Only after that the loss is
// acknowledged, and only then another member leads. If the agent dies or freezes, the context is cancelled before
// others may begin (with --algorithm quorum; with best effort they may begin earlier).
//
// If work returns while it leads, the election is given away, and Lead returns the same error. An error that work
// returns after a loss is ignored: it is mostly that of its context. Lead returns a [*RefusedError] if the agent
// refuses the candidacy, and the cause of ctx once that is done.
func (a *Agent) Lead(ctx context.Context, election string, work func(ctx context.Context, l *Leadership) error, o Options) error {
	c := &candidate{agent: a, path: path(election), election: election, work: work, o: o}
	defer c.end()
	for ctx.Err() == nil {
		next, err := c.turn(ctx)
		if err != nil {
			return err
		}
		var done <-chan struct{}
		if c.held != nil {
			done = c.held.done
		}
		wait(ctx, next, done)
		if l := c.held; l != nil && l.ended() {
			c.held, c.owed = nil, true
			if l.led {
				return l.err
			}
		}
	}
	return context.Cause(ctx)
}

// candidate is a candidacy for as long as Lead runs.
type candidate struct {
	agent          *Agent
	path, election string
	work           func(context.Context, *Leadership) error
	o              Options
	id             string
	owed           bool // an acknowledgement
	held           *Leadership
}

// request and turn are the bodies of PUT …/candidacy.
type request struct {
	TTL       string `json:"ttl"`
	Candidacy string `json:"candidacy,omitempty"`
	Released  bool   `json:"released,omitempty"`
	Weight    int    `json:"weight,omitempty"`
	Seats     int    `json:"seats,omitempty"`
	Prefer    bool   `json:"prefer,omitempty"`
}

type turn struct {
	State     string `json:"state"`
	Token     string `json:"token"`
	ValidMS   int64  `json:"valid_ms"`
	Candidacy string `json:"candidacy"`
	Cause     string `json:"cause"`
}

// turn asks the agent how the candidacy stands, and gives the time until the next question.
func (c *candidate) turn(ctx context.Context) (next time.Duration, err error) {
	ttl := cmp.Or(c.o.TTL, 10*time.Second)
	ask := request{TTL: ttl.String(), Candidacy: c.id, Released: c.owed && c.id != ""}
	if c.id == "" {
		ask.Weight, ask.Seats, ask.Prefer = c.o.Weight, c.o.Seats, c.o.Prefer
	}
	limit := ttl / 2
	if c.held != nil {
		limit = max(c.held.Left()/2, 50*time.Millisecond) // there is time to ask once more
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asked := time.Now()
	var t turn
	if err := c.agent.Call(within, http.MethodPut, c.path, ask, &t); err != nil {
		return pause, c.failed(err, within.Err() != nil)
	}
	c.id, c.owed = t.Candidacy, false
	if t.State == "waiting" {
		c.lose("waiting")
		return pause, nil
	}
	valid := time.Duration(t.ValidMS) * time.Millisecond
	until := asked.Add(time.Duration(float64(valid) * (1 - margin)))
	switch {
	case c.held != nil && t.Token == c.held.Token:
		c.held.extend(until)
	case c.held == nil && t.State == "leading" && time.Until(until) <= 0:
		return pause, nil // the answer has come too late to begin on it
	case c.held == nil && t.State == "leading":
		c.held = lead(c, t.Token, until)
	case c.held == nil:
		c.owed = true // of a leadership that has ended before it was seen
		return 0, nil
	}
	if t.State != "leading" || t.Token != c.held.Token {
		c.lose(cmp.Or(t.Cause, t.State))
	}
	return min(pause, valid/4), nil
}

// failed decides what a call that has failed means for the leadership; late: there was no answer in time.
func (c *candidate) failed(err error, late bool) error {
	refused, ok := errors.AsType[*RefusedError](err)
	switch {
	case ok && refused.Code == http.StatusNotFound: // it has ended
		c.id, c.owed = "", false
		c.lose(err.Error())
	case ok && refused.Code < 500 && refused.Code != http.StatusRequestTimeout:
		return err
	case !ok && !late:
		c.lose(err.Error())
	}
	return nil // what is valid stays so
}

func (c *candidate) lose(cause string) {
	if c.held != nil {
		c.held.cancel(&LostError{cause})
	}
}

// end ends the candidacy once its work has stopped. An agent that does not answer ends it with its ttl.
func (c *candidate) end() {
	if c.held != nil {
		c.lose("stopped")
		<-c.held.done
	}
	if c.id != "" {
		ctx, cancel := context.WithTimeout(context.Background(), atLast)
		defer cancel()
		var ended struct{}
		_ = c.agent.Call(ctx, http.MethodDelete, c.path+"?candidacy="+c.id, nil, &ended)
	}
}

// Leadership is a leadership, as the work sees it.
type Leadership struct {
	Election string
	Token    string // epoch:leader; a fencing token only with --algorithm quorum
	Epoch    uint64

	c      *candidate
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the work has returned
	err    error         // of the work
	led    bool          // whether it led when the work returned; a call may go on after that

	mu    sync.Mutex
	until time.Time
	timer *time.Timer
}

func lead(c *candidate, token string, until time.Time) *Leadership {
	l := &Leadership{Election: c.election, Token: token, c: c, id: c.id, done: make(chan struct{}), until: until}
	epoch, _, _ := strings.Cut(token, ":")
	l.Epoch, _ = strconv.ParseUint(epoch, 10, 64)
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.timer = time.AfterFunc(time.Until(until), func() {
		if l.Left() <= 0 {
			l.cancel(&LostError{"the agent does not answer"})
		}
	})
	go func() {
		defer close(l.done)
		defer l.timer.Stop()
		defer func() { l.led = l.ctx.Err() == nil }()
		l.err = c.work(l.ctx, l)
	}()
	return l
}

func (l *Leadership) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *Leadership) extend(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(l.until) {
		l.until = until
		l.timer.Reset(time.Until(until))
	}
}

// Left is for how long the work may go on without a further answer of the agent. After a loss: in which it must stop.
func (l *Leadership) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// Ready reports that the work serves: the agent's events have it.
func (l *Leadership) Ready(ctx context.Context) error {
	var t turn
	return l.c.agent.Call(ctx, http.MethodPost, strings.TrimSuffix(l.c.path, "candidacy")+"ready", map[string]string{"candidacy": l.id}, &t)
}
