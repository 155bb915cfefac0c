package batuta

import (
	"context"
	"maps"
	"time"

	"github.com/batuta-dev/batuta/election"
)

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
