package batuta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// Why a change of the membership is refused.
var (
	ErrNotMember = election.ErrNotMember // there is no such member
	ErrRemoved   = election.ErrRemoved   // this member was removed by a request at a member
	ErrFull      = election.ErrFull      // the list holds as much as it can
	ErrMixedKind = election.ErrMixedKind // the kind of the id differs from that of the members' ids

	ErrTooFew     = election.ErrTooFew     // of a quorum, what is left could not lead: see [Node.ForceRemoveMember]
	ErrNoMajority = election.ErrNoMajority // of a quorum, no member leads that could change its members
)

// AddMember puts a member on the list, also a removed member; each member
// receives it. A member that joins by itself need not be added. Of a member that is
// known it changes the address, and the priority unless p.Priority is 0: then what
// is known stays, and [Node.SetPriority] sets 0. It refuses an address that is in use.
// It returns when this member has it on its list, with what is wrong with p, with [ErrFull],
// with [ErrRemoved] if it was removed itself, ctx's error, or [ErrClosed].
func (n *Node) AddMember(ctx context.Context, p Peer) error {
	id, err := parseID(p.ID)
	switch {
	case err != nil:
		return err
	case id.Kind() != n.id.Kind():
		return config("%w: %s is of kind %v, here they are of kind %v", election.ErrMixedKind, id, id.Kind(), n.id.Kind())
	case id == n.id:
		return config("%s is this member itself", id)
	}
	if err := election.CheckAddress(p.Addr); err != nil {
		return config("address %q of member %s: %w", p.Addr, id, err)
	}
	if everywhere(p.Addr) {
		return everyAddress(p.Addr, id)
	}
	p.ID = id
	e := p.member()
	if err := n.try(ctx, func() error {
		refused := n.machine.AdmitChange(false, id, false)
		if refused == nil && !n.machine.Fits(e) {
			refused = election.ErrFull
		}
		if refused != nil {
			return fmt.Errorf("add member %s: %w", id, refused)
		}
		if there := n.at(p.Addr); len(there) > 0 && !slices.Contains(there, id) {
			return config("members %s and %s would have one address %s: give each its own, or remove member %[1]s first", there[0], id, p.Addr)
		}
		n.emit(election.Event{Kind: election.MemberAdded, Member: e, On: e.Priority != 0})
		return nil
	}); err != nil {
		return err
	}
	return n.awaitChange(ctx, id, func() bool { return n.machine.Knows(id) && (p.Priority == 0 || n.ranks(id, p.Priority)) })
}

// at returns the members on the list that have the address.
func (g *ground) at(addr string) (ids []ID) {
	for _, m := range g.machine.Members() {
		if m.State != election.StateRemoved && plainAddress(m.Address) == plainAddress(addr) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// SetPriority sets what a member ranks by, at every member and at its own process,
// this member's too: if it outranks the leader then, it takes over. It holds until
// that process starts again, with a [Config.Priority] of its own. It returns when
// this member has it on its list, with what is wrong with id, [ErrNotMember], [ErrNoMajority], [ErrRemoved] if it was
// removed itself, ctx's error, or [ErrClosed].
func (n *Node) SetPriority(ctx context.Context, id ID, priority int) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	if err := n.try(ctx, func() error {
		if !n.machine.Knows(id) {
			return fmt.Errorf("member %s: %w", id, ErrNotMember)
		}
		if refused := n.machine.AdmitChange(false, id, false); refused != nil {
			return fmt.Errorf("priority of member %s: %w", id, refused)
		}
		n.emit(election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: Rank{Priority: priority, ID: id}}, On: true})
		return nil
	}); err != nil {
		return err
	}
	return n.awaitChange(ctx, id, func() bool { return n.ranks(id, priority) })
}

// ranks reports whether a member has that priority, as far as this member has received.
func (g *ground) ranks(id ID, priority int) bool {
	return slices.ContainsFunc(g.machine.Members(), func(m machine.MemberView) bool { return m.ID == id && m.Priority == priority })
}

// RemoveMember takes a member off the list for good: it receives that, loses leadership
// if it has it, and is refused until it is added again. A member that is away
// receives it when it returns. It returns when this member has removed it, with
// what is wrong with id, [ErrNotMember], [ErrRemoved] if this member was removed itself,
// ctx's error, or [ErrClosed].
//
// A quorum's majority decides on it. It is refused there with [ErrNoMajority] while no member
// leads, with [ErrTooFew] if too few of the voters that are left are reached to lead, and with
// [ErrUnfit] if it leads and no other member can.
func (n *Node) RemoveMember(ctx context.Context, id ID) error {
	return n.removeMember(ctx, id, false)
}

// ForceRemoveMember is [Node.RemoveMember], also where that is refused with [ErrTooFew]. If it
// would be, no member leads from then on, and the member is not off the list, until more than
// half of the remaining voters are back. It does not help a minority: that is refused all the same.
func (n *Node) ForceRemoveMember(ctx context.Context, id ID) error {
	return n.removeMember(ctx, id, true)
}

func (n *Node) removeMember(ctx context.Context, id ID, force bool) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	err = n.try(ctx, func() error {
		if refused := n.machine.AdmitChange(true, id, force); refused != nil {
			return fmt.Errorf("remove member %s: %w", id, refused)
		}
		known := n.machine.Knows(id)
		n.emit(election.Event{Kind: election.MemberRemoved, Peer: id, On: force})
		if !known {
			return fmt.Errorf("member %s: %w", id, ErrNotMember)
		}
		return nil
	})
	if err != nil || id == n.id {
		return err
	}
	if err = n.awaitChange(ctx, id, func() bool { return !n.machine.Knows(id) }); force && errors.Is(err, errUndecided) {
		return fmt.Errorf("member %s is on its way out: %w; that is done when more than half of the other voters are back, and no member leads until then", id, errUndecided)
	}
	return err
}

// errUndecided is a deadline that has passed: what was asked for may still come about.
var errUndecided error = undecided{}

type undecided struct{}

func (undecided) Error() string { return "no majority has decided on it" }

func (undecided) Is(target error) bool { return target == context.DeadlineExceeded }

// awaitChange waits until a change that a majority decides has come about here.
func (g *ground) awaitChange(ctx context.Context, id ID, done func() bool) error {
	if _, best := g.machine.(*machine.Machine); best {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*g.timeout, fmt.Errorf("member %s: %w within %v: look at batuta status, and ask again", id, errUndecided, 10*g.timeout))
	defer cancel()
	tick := time.NewTicker(g.cfg.Heartbeat / 4)
	defer tick.Stop()
	for {
		there := true
		if err := g.call(ctx, func() { there = done() }); err != nil || there {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Leave is [Node.Shutdown] for good: the other members remove this member from their lists,
// until it joins again.
func (n *Node) Leave(ctx context.Context) error {
	if ctx.Value(workKey{&n.ground}) != nil {
		return ErrInWork
	}
	n.departing.Store(true)
	return n.Shutdown(ctx)
}
