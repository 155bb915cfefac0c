package batuta

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
)

// Health is how a node checks by itself whether it is fit to lead. Without Check there is no such
// check, and a service reports its health by [Node.SetHealth].
//
// A node counts as unhealthy until Rise checks have succeeded. A check that does not return within
// Timeout has failed; the next begins only once it has returned.
type Health struct {
	Check   func(ctx context.Context) error // why this member is not fit to lead; nil: it is. ctx ends after Timeout
	Every   time.Duration                   // between the end of a check and the next; default 1 s, at least [MinTime]
	Timeout time.Duration                   // default 1 s, at least [MinTime]
	Rise    int                             // checks in a row that succeed until the member is healthy; default 1
	Fall    int                             // checks in a row that fail until it is unhealthy; default 1
}

// withDefaults fills in what is not given.
func (h Health) withDefaults() Health {
	h.Every, h.Timeout = cmp.Or(h.Every, time.Second), cmp.Or(h.Timeout, time.Second)
	h.Rise, h.Fall = cmp.Or(h.Rise, 1), cmp.Or(h.Fall, 1)
	return h
}

// faults are what is wrong with it.
func (h Health) faults() (faults []error) {
	if h.Check == nil && (h.Every != 0 || h.Timeout != 0 || h.Rise != 0 || h.Fall != 0) {
		faults = append(faults, config("Health without Check: set Check, or leave Every, Timeout, Rise and Fall out"))
	}
	h = h.withDefaults()
	if h.Every < MinTime || h.Every > MaxTime || h.Timeout < MinTime || h.Timeout > MaxTime {
		faults = append(faults, config("Health.Every %v, Timeout %v: give %v to %v for each", h.Every, h.Timeout, MinTime, MaxTime))
	}
	if h.Rise < 1 || h.Fall < 1 {
		faults = append(faults, config("Health.Rise %d, Fall %d: give 1 or more checks in a row for each", h.Rise, h.Fall))
	}
	return faults
}

// SetHealth reports whether this member is fit to lead: nil, as at first: it is; an
// error why it is not. Status, events and the log give the text of err as the reason. A member that is
// not fit gives up the lead, and is no candidate until it is fit again. With [Config].Health the next
// change that the check finds takes the place of err. SetHealth returns when that
// is decided here, with ctx's error, or with [ErrClosed].
func (n *Node) SetHealth(ctx context.Context, err error) error {
	words := ""
	if err != nil {
		words = err.Error()
	}
	return n.call(ctx, func() {
		n.healthError = words
		if !n.closing { // a member that leaves is not fit
			n.emit(election.Event{Kind: election.Health, On: err == nil})
		}
	})
}

// checkup runs a node's checks in turn.
type checkup struct {
	Health
	log    *slog.Logger
	report func(context.Context, error) error
	under  chan error // of a check that has not returned; nil: none is under way
	fit    bool       // until it has succeeded a member counts as unhealthy: it must not lead unfit, be it for a moment
	words  string     // the last reason reported
	told   bool       // one was
	row    int        // checks in a row that have come out against fit
}

// run checks until ctx ends.
func (c *checkup) run(ctx context.Context) {
	for {
		err := c.check(ctx)
		if ctx.Err() != nil || c.found(ctx, err) != nil {
			return
		}
		select {
		case <-time.After(c.Every):
		case <-ctx.Done():
			return
		}
	}
}

// found counts what a check has found, and reports a change.
func (c *checkup) found(ctx context.Context, err error) error {
	if c.row++; (err == nil) == c.fit {
		c.row = 0
	}
	switch {
	case err == nil && !c.fit && c.row < c.Rise:
		err = fmt.Errorf("its check has succeeded %d of %d times in a row", c.row, c.Rise)
	case err != nil && c.fit && c.row < c.Fall:
		c.log.Warn("a health check failed; this member is unhealthy if more fail in a row", "error", err, "failed", c.row, "fall", c.Fall)
		return nil
	}
	words := ""
	if err != nil {
		words = err.Error()
	}
	turned := c.fit != (err == nil)
	changed := turned || !c.told
	if !changed && words == c.words {
		return nil
	}
	c.fit, c.words, c.told = err == nil, words, true
	switch {
	case !changed: // the same state, reported differently
	case err != nil:
		c.log.Warn("this member is unhealthy", "error", err)
	default:
		c.log.Info("this member is healthy")
	}
	if turned {
		c.row = 0
	}
	return c.report(ctx, err)
}

// checkGrace is how long a check may still take to return when its time is over.
const checkGrace = 200 * time.Millisecond

// check runs one check, unless the last has not returned yet.
func (c *checkup) check(ctx context.Context) error {
	if c.under == nil {
		within, cancel := context.WithTimeout(ctx, c.Timeout)
		under := make(chan error, 1)
		c.under = under
		go func() {
			defer cancel()
			under <- c.Check(within)
		}()
	}
	late := time.NewTimer(c.Timeout + checkGrace)
	defer late.Stop()
	select {
	case err := <-c.under:
		c.under = nil
		return err
	case <-ctx.Done():
		select {
		case <-c.under:
		case <-time.After(checkGrace):
		}
		return ctx.Err()
	case <-late.C:
	}
	return fmt.Errorf("the check has not returned within %v: return when its context ends", c.Timeout)
}

// SetMeta replaces the pairs that this member publishes; see
// [Config.Meta]. Each member that is reached receives them, and
// the rest once they are reached. They are not stored: the next process with this id publishes
// its own [Config.Meta]. It returns when this member has taken it up, with what is wrong
// with pairs, ctx's error, or [ErrClosed].
func (n *Node) SetMeta(ctx context.Context, pairs map[string]string) error {
	if err := n.cfg.checkMeta(pairs); err != nil {
		return err
	}
	pairs = maps.Clone(pairs)
	return n.call(ctx, func() {
		if n.cfg.AwaitReady {
			pairs = withReady(pairs, n.metas[n.id][readyKey])
		}
		n.emit(election.Event{Kind: election.Tells, Meta: pairs})
	})
}

// readyKey is the metadata key of a member with [Config.AwaitReady]. Its value is the epoch of its latest leadership that is ready.
const readyKey = "batuta.ready"

func withReady(pairs map[string]string, epoch string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, pairs)
	all[readyKey] = epoch
	return all
}

// waits reports whether the leader publishes that its work does not serve yet. A leader that is ready publishes a
// renewed epoch before its followers have that.
func (v View) waits() bool {
	ready, used := v.Meta[readyKey]
	epoch, err := strconv.ParseUint(ready, 10, 64)
	return used && (err != nil || epoch < v.Token.Epoch)
}

// Ready reports to all members that the work of this member's leadership t serves; t is the Token of [Leadership].
// With the zero Token it reports that the work serves no longer, as while it starts again, until the next call.
// It has an effect only with [Config.AwaitReady]. The error wraps [ErrNotLeading] if that leadership
// has ended; it is ctx's, or [ErrClosed], if the node has not received the call.
func (n *Node) Ready(ctx context.Context, t Token) error {
	leads := false
	err := n.call(ctx, func() {
		v := n.view()
		if leads = v.Token.Leader.ID == n.id && (t == v.Token || t == n.began || t == Token{}); leads && n.cfg.AwaitReady {
			if t != (Token{}) {
				t = v.Token
			}
			publishReady(n, t)
		}
	})
	if err == nil && !leads {
		err = fmt.Errorf("%w: the leadership with epoch %d has ended", ErrNotLeading, t.Epoch)
	}
	return err
}

func publishReady(n *Node, t Token) {
	n.emit(election.Event{Kind: election.Tells, Meta: withReady(n.metas[n.id], strconv.FormatUint(t.Epoch, 10))})
}

// checkMeta returns what is wrong with metadata.
func (c Config) checkMeta(pairs map[string]string) error {
	if c.AwaitReady {
		pairs = withReady(pairs, strconv.FormatUint(math.MaxUint64, 10))
	} else if _, taken := pairs[readyKey]; taken {
		return config("meta: key %s is batuta's own: set AwaitReady, and call Ready", readyKey)
	}
	if err := election.CheckMeta(pairs); err != nil {
		return config("meta: %w", err)
	}
	if len(pairs) > 0 && c.Wire != nil {
		return config("meta: only batuta's own protocol carries the metadata of a member: leave out Wire, or Meta and AwaitReady")
	}
	return nil
}

// learn stores the metadata of a member.
func (n *Node) learn(id ID, pairs map[string]string, now time.Time) {
	v := n.view()
	waited := v.unready
	if id == v.Token.Leader.ID {
		v.Meta = pairs
		v.unready = v.waits()
	}
	n.metas[id] = pairs
	n.elections.learn(id, pairs)
	n.cfg.Logger.Info("metadata changed", "member", id, "pairs", len(pairs))
	n.history.add(Event{Time: now, Kind: EventMeta, View: v, Member: id, Meta: pairs})
	if waited && v.Ready() {
		n.cfg.Logger.Info("ready", "leader", id, "epoch", v.Token.Epoch)
		n.history.add(Event{Time: now, Kind: EventReady, View: v})
	}
}

// Why a transfer is refused.
var (
	ErrNotLeading = election.ErrNotLeading // this member does not lead
	ErrUnfit      = election.ErrUnfit      // the target cannot lead, or would lose leadership again at once
)

// Transfer hands leadership over to a member, which claims it as soon as the
// functions that [Node.Lead] runs have returned: do not call it from within such a function. It
// returns when this member has received that the target leads, and at once when id is this
// member's own and it leads.
//
// It is refused, and this member goes on leading, with [ErrNotMember], [ErrNotLeading],
// or [ErrUnfit]: the target is not reached, is no candidate (see [Standing]; a member
// that has resigned will do), or is outranked by a candidate that would take over
// from it, unless [Config.NoPreempt] is set. Otherwise it returns ctx's error, an
// error with the member that leads instead (the target may die meanwhile), or [ErrClosed].
// As after [Node.Resign], this member is a candidate again when the target's leadership has ended.
func (n *Node) Transfer(ctx context.Context, id ID) error {
	id, err := election.ParseID(string(id))
	if err != nil {
		return err
	}
	var refused error
	var from Token
	err = n.call(ctx, func() {
		if refused = n.machine.AdmitTransfer(id); refused == nil {
			from = n.view().Token
			n.emit(election.Event{Kind: election.Transfer, Peer: id})
		}
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case id == n.id:
		return nil
	}
	return n.followed(ctx, from, id)
}

// MaxPause bounds the length of [Node.Pause].
const MaxPause = election.MaxPause

// Pause keeps the leader of the cluster's own election for that long, or ends a pause with 0: meanwhile no member takes
// over, whether the leader lives or not. Any member may ask, and all members receive it. [Node.Resign],
// [Node.Transfer] and [Node.Leave] of the leader still hand leadership over, and the next leader keeps
// it for the rest of the pause. A leader that is unhealthy keeps it, too.
//
// It returns when this member goes by it. It is refused with an error that wraps [ErrNotLeading] if there is no leader; then only
// a pause that this member has received can be ended. Further errors are ctx's, and those of [Node.Drain].
// A pause is not on disk: it ends when every process that knows it has ended.
func (n *Node) Pause(ctx context.Context, length time.Duration) error {
	if length < 0 || length > MaxPause {
		return config("pause of %v: give at most %v, or 0 to end a pause", length, MaxPause)
	}
	until, err := ask(ctx, n, func() time.Time {
		until, _ := pausedBy(n)
		if length == 0 && !until.IsZero() && !n.view().Token.Defined() {
			n.emit(election.Event{Kind: election.Pausing})
			until = time.Time{}
		}
		return until
	})
	if err != nil || length == 0 && until.IsZero() {
		return err
	}
	err = n.Election(n.cfg.Election).askLeader(ctx, named.Request{Do: named.DoPause, Length: length})
	for err == nil && until.IsZero() == (length > 0) {
		select {
		case <-time.After(10 * time.Millisecond): // the leader has it; it arrives with the next heartbeat
		case <-ctx.Done():
			return ctx.Err()
		}
		until, err = ask(ctx, n, func() time.Time { until, _ := pausedBy(n); return until })
	}
	return err
}

// pausedBy is what the core of a node knows of a pause.
func pausedBy(n *Node) (until time.Time, leader ID) {
	if c, ok := n.machine.(interface{ Paused() (time.Time, ID) }); ok {
		until, leader = c.Paused()
	}
	if !until.After(n.now()) {
		return time.Time{}, ""
	}
	return time.Now().Add(until.Sub(n.now())).Round(0), leader
}

// followed waits for the next leadership, which is to be that member's.
func (n *Node) followed(ctx context.Context, from Token, id ID) error {
	for v, err := range n.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case !v.Token.Above(from):
		case v.Token.Leader.ID == id:
			return nil
		default:
			return fmt.Errorf("member %s leads instead of %s, which has not claimed leadership in time", v.Token.Leader.ID, id)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return n.closed()
}
