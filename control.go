package batuta

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
)

// SetHealth reports whether this member is fit to lead: nil, as at first: it is; an
// error why it is not. Status, events and the log give the text of err as the reason. A member that is
// not fit steps down, and is no candidate until it is fit again. With [Config].Health the
// check has to find it fit, too. SetHealth returns when that is decided here, with ctx's error, or
// with [ErrClosed].
func (n *Node) SetHealth(ctx context.Context, err error) error {
	return n.call(ctx, func() {
		n.stance.reported = err
		n.stance.judge()
	})
}

// checkup runs a node's checks in turn.
type checkup struct {
	Health
	bounded[struct{}]
	id     ID
	log    *slog.Logger
	report func(context.Context, error) error
	fit    bool   // until it has succeeded a member counts as unhealthy: it must not lead unfit, be it for a moment
	words  string // the last reason reported
	known  bool   // whether there was a report
	row    int    // checks in a row that have come out against fit
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
	changed := turned || !c.known
	if !changed && words == c.words {
		return nil
	}
	c.fit, c.words, c.known = err == nil, words, true
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

// checkGrace is how long a call may still take to return when its time is over.
const checkGrace = 200 * time.Millisecond

// check runs one check, unless the last has not returned yet.
func (c *checkup) check(ctx context.Context) error {
	_, err := c.call(ctx, "the check", c.Timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.named(ctx) })
	return err
}

// named calls Check. A panic goes on, as in any goroutine of the service, and names the member.
func (c *checkup) named(ctx context.Context) error {
	defer func() {
		if cause := recover(); cause != nil {
			panic(fmt.Errorf("batuta: Health.Check of member %s panics: %v", c.id, cause))
		}
	}()
	return c.Check(ctx)
}

// bounded calls a function of the service, one call at a time, and waits no longer than a timeout.
type bounded[T any] struct{ under chan func() (T, error) } // gives the result of the call; nil: none is under way

// call calls f, unless the last call has not returned yet: then it waits for that one.
func (b *bounded[T]) call(ctx context.Context, what string, timeout time.Duration, f func(context.Context) (T, error)) (none T, err error) {
	if b.under == nil {
		within, cancel := context.WithTimeout(ctx, timeout)
		under := make(chan func() (T, error), 1)
		b.under = under
		go func() {
			defer cancel()
			result, err := f(within)
			under <- func() (T, error) { return result, err }
		}()
	}
	late := time.NewTimer(timeout + checkGrace)
	defer late.Stop()
	select {
	case result := <-b.under:
		b.under = nil
		return result()
	case <-ctx.Done():
		select {
		case <-b.under:
			b.under = nil
		case <-time.After(checkGrace):
		}
		return none, ctx.Err()
	case <-late.C:
	}
	return none, fmt.Errorf("%s has not returned within %v: return when its context ends", what, timeout)
}

// SetMeta replaces the pairs that this member publishes; see
// [Config.Meta]. Keys that begin with "batuta." belong to batuta's packages, such as the times of
// batutacron: SetMeta keeps their pairs, and an empty value removes one. Each member that is reached receives them, and
// the rest once they are reached. They are not stored: the next process with this id publishes
// its own [Config.Meta]. It returns when this member has taken it up, with what is wrong
// with pairs, ctx's error, or [ErrClosed].
func (n *Node) SetMeta(ctx context.Context, pairs map[string]string) error {
	return n.links.setMeta(ctx, maps.Clone(pairs), false)
}

// MergeMeta adds pairs to those that this member publishes, and replaces those with the same keys. Its
// errors are those of [Node.SetMeta].
func (n *Node) MergeMeta(ctx context.Context, pairs map[string]string) error {
	return n.links.setMeta(ctx, maps.Clone(pairs), true)
}

func (l *links) setMeta(ctx context.Context, pairs map[string]string, merge bool) error {
	return l.try(ctx, func() error {
		present := l.metas[l.id]
		all := meta.OwnOf(present)
		if merge {
			maps.Copy(all, present)
		}
		maps.Copy(all, pairs)
		maps.DeleteFunc(all, meta.Removes)
		if err := l.cfg.checkMeta(all); err != nil {
			return err
		}
		if l.cfg.AwaitReady {
			all = withReady(all, present[readyKey])
		}
		l.emit(election.Event{Kind: election.Tells, Meta: all})
		return nil
	})
}

// Ready reports to all members that the work of this member's leadership t serves; t is the Token of [Leadership].
// With the zero Token it reports that the work serves no longer, as while it starts again, until the next call.
// It has an effect only with [Config.AwaitReady]. The error wraps [ErrNotLeading] if that leadership
// has ended; it is ctx's, or [ErrClosed], if the node has not received the call.
func (n *Node) Ready(ctx context.Context, t Token) error {
	return n.try(ctx, func() error {
		v := n.view()
		if v.Token.Leader.ID != n.id || t != v.Token && t != n.began && t != (Token{}) {
			return fmt.Errorf("%w: the leadership with epoch %d has ended", ErrNotLeading, t.Epoch)
		}
		if t != (Token{}) {
			t = v.Token
		}
		if n.cfg.AwaitReady {
			publishReady(n, t)
		}
		return nil
	})
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
// from it, unless [Config.NoPreempt] is set. A leader of a quorum also refuses it while a change of
// the members is not committed. Otherwise it returns ctx's error, an
// error with the member that leads instead (the target may die meanwhile), or [ErrClosed].
// As after [Node.Resign], this member is a candidate again when the target's leadership has ended.
func (n *Node) Transfer(ctx context.Context, id ID) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	var from Token
	if err := n.try(ctx, func() error {
		refused := n.machine.AdmitTransfer(id)
		if refused == nil {
			from = n.view().Token
			n.emit(election.Event{Kind: election.Transfer, Peer: id})
		}
		return refused
	}); err != nil || id == n.id {
		return err
	}
	return n.followed(ctx, from, id)
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
	return n.ended(ctx)
}

// Resign steps down, and the other members elect; no effect when not leading. It
// returns when the leadership has ended here, with ctx's error, or with
// [ErrClosed]. This member is a candidate again when a later leadership of at least 2·T
// has ended (with a quorum, of any length), when no member leads for 2·T, when the
// leadership is handed over to it, or by [Node.Campaign].
func (n *Node) Resign(ctx context.Context) error {
	return n.call(ctx, func() { n.emit(election.Event{Kind: election.Resigned}) })
}

// Campaign starts an election. A member that has resigned is a candidate again, and first asks the
// others which member leads. It returns when the member has received the request, with ctx's error,
// or with [ErrClosed].
func (n *Node) Campaign(ctx context.Context) error {
	return n.call(ctx, func() {
		n.duties.retired = false
		n.emit(election.Event{Kind: election.Campaign})
	})
}
