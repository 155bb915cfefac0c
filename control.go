package batuta

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// SetHealthy says whether this member is fit to lead; it is at first. One that is
// not gives up the lead and does not stand until it is fit again. It is for a service
// without a [Config].Healthy, whose answer takes its place whenever that changes. It returns when
// that is decided here, with ctx's error, or with [ErrClosed].
func (n *Node) SetHealthy(ctx context.Context, fit bool) error {
	return n.setHealthy(ctx, fit, "SetHealthy(false) was called")
}

// SetUnhealthy is [Node.SetHealthy] of false, with the reason that [Status], events
// and the log give.
func (n *Node) SetUnhealthy(ctx context.Context, why string) error {
	return n.setHealthy(ctx, false, why)
}

// setHealthy does that; words say what is wrong.
func (n *Node) setHealthy(ctx context.Context, fit bool, words string) error {
	return n.call(ctx, func() {
		n.healthError = words
		if !n.closing { // who leaves is fit for nothing any more
			n.emit(election.Event{Kind: election.Health, On: fit})
		}
	})
}

// healthInterval is the time between two checks of a member's health, and what a
// check may take.
const healthInterval = time.Second

// checkHealth tells the Machine what Config.Healthy finds. Until its first check a
// member counts as unhealthy: it must not lead unfit, be it for a moment.
func (n *Node) checkHealth(ctx context.Context) {
	fit, words := false, ""
	for first := true; ; first = false {
		err := n.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if now := err == nil; now != fit || first || err != nil && err.Error() != words {
			changed := now != fit || first
			if fit, words = now, ""; err != nil {
				words = err.Error()
			}
			switch {
			case !changed: // the same, in other words
			case err != nil:
				n.cfg.Logger.Warn("this member is unhealthy", "error", err)
			default:
				n.cfg.Logger.Info("this member is healthy")
			}
			if n.setHealthy(ctx, fit, words) != nil {
				return
			}
		}
		select {
		case <-time.After(healthInterval):
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthInterval)
	defer cancel()
	return n.cfg.Healthy(ctx)
}

// SetMeta has this member tell other pairs of itself from now on, in place of all that
// it told before; see [Config.Meta]. Every member learns of it that is reached, and
// those that are not once they are. It is not kept: the next process with this id tells
// its own [Config.Meta]. It returns when this member has taken it up, with what is wrong
// with pairs, ctx's error, or [ErrClosed].
func (n *Node) SetMeta(ctx context.Context, pairs map[string]string) error {
	if err := n.cfg.checkMeta(pairs); err != nil {
		return err
	}
	pairs = maps.Clone(pairs)
	return n.call(ctx, func() { n.emit(election.Event{Kind: election.Tells, Meta: pairs}) })
}

// checkMeta finds what is wrong with what a member is to tell of itself.
func (c Config) checkMeta(pairs map[string]string) error {
	if err := election.CheckMeta(pairs); err != nil {
		return config("meta: %w", err)
	}
	if len(pairs) > 0 && c.Wire != nil {
		return config("meta: another protocol than batuta's own has no place for what a member tells of itself: leave out Wire, or Meta")
	}
	return nil
}

// learn takes up what a member tells of itself.
func (n *Node) learn(id ID, pairs map[string]string, now time.Time) {
	v := n.view()
	if id == v.Token.Leader.ID {
		v.Meta = pairs
	}
	n.metas[id] = pairs
	n.cfg.Logger.Info("meta", "member", id, "pairs", len(pairs))
	n.history.add(Event{Time: now, Kind: EventMeta, View: v, Member: id, Meta: pairs})
}

// Why a transfer is refused.
var (
	ErrNotLeading = election.ErrNotLeading // this member does not lead
	ErrUnfit      = election.ErrUnfit      // the other cannot take the lead, or would lose it again at once
)

// Transfer hands the lead over to one other member, which claims it as soon as the
// functions that [Node.Lead] runs have returned: do not call it from within one. It
// returns when that member leads, as this one sees it, and at once when id is this
// member's own and it leads.
//
// It is refused, and this member goes on leading, with [ErrNotMember], [ErrNotLeading],
// or [ErrUnfit]: the other is not reached, does not stand for election (see [Standing]; one
// that has resigned will do), or is outranked by one that stands and would take the lead
// from it, unless [Config.NoPreempt] is set. Otherwise it returns ctx's error, an
// error that says who leads instead (the other may die meanwhile), or [ErrClosed].
// Like one that resigns, this member stands again when the other's time has ended.
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
			return fmt.Errorf("member %s leads instead of %s, which has not claimed the lead in time", v.Token.Leader.ID, id)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return n.closed()
}
