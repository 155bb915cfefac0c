package batuta

import (
	"context"
	"fmt"

	"github.com/batuta-dev/batuta/election"
)

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
