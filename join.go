package batuta

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/network"
	"github.com/batuta-dev/batuta/internal/transport"
)

// joinBackoff bounds the pause between two rounds of asking to be let in.
const joinBackoff = time.Second

// join asks every address of Config.Join to be let into the cluster, until each
// has answered. The Machine starts after the first round, knowing what that has
// brought: a newcomer to a running cluster so never claims before it has heard of
// its leader, and the first member of all waits for nobody. It asks them all once
// more when the Machine has it that this member must join again.
func (n *Node) join(ctx context.Context) {
	var answered []string
	pause := n.cfg.Heartbeat
	for started := false; ; started = true {
		left := slices.DeleteFunc(n.lookup(ctx), func(addr string) bool { return slices.Contains(answered, addr) })
		var asked []string
		if n.locate(ctx, left) {
			asked = left
		}
		answer, heard, err := n.askAll(ctx, asked)
		answered = append(answered, heard...)
		kind := election.Welcomed
		if !started {
			kind = election.Started
		}
		if n.call(ctx, func() { n.letIn(kind, answer, err) }) != nil {
			return // the node closes
		}
		var again <-chan time.Time
		if len(left) == 0 || len(heard) < len(left) { // a name that stands for fewer may stand for more again
			again = time.After(pause)
			pause = min(2*pause, joinBackoff)
		}
		select {
		case <-again:
		case <-n.rejoin:
			answered, pause = nil, n.cfg.Heartbeat
		case <-ctx.Done():
			return
		}
	}
}

// letIn tells the Machine what a round of asking has brought. A refusal that only a
// person can mend ends a member that nobody has let in, nor has known without that.
func (n *Node) letIn(kind election.EventKind, answer *transport.Answer, err error) {
	n.admitted = n.admitted || answer != nil
	if err != nil && !n.admitted && !n.met {
		n.fail(err)
		return
	}
	ev := election.Event{Kind: kind}
	if answer != nil {
		ev.List, ev.Token, ev.Age = answer.List, answer.Token, answer.Age
	}
	if kind == election.Started || answer != nil {
		n.emit(ev)
	}
}

// joinAgain asks one member to let this one in, or everyone through whom it joins.
func (n *Node) joinAgain(to ID) {
	switch {
	case n.transport == nil || n.closing: // a wire of its own has its own ways
	case to == election.None:
		select {
		case n.rejoin <- struct{}{}:
		default: // it is to be done already
		}
	case !n.returning:
		n.returning = true
		addr := n.address(to)
		n.background(func(ctx context.Context) {
			answer := n.transport.Ask(ctx, addr, n.newcomer)
			n.call(ctx, func() {
				n.returning = false
				if answer != nil && answer.Admitted {
					n.letIn(election.Welcomed, answer, nil)
				}
			})
		})
	}
}

// lookup gives the addresses to ask, each name with all that it stands for.
func (n *Node) lookup(ctx context.Context) (addrs []string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	for _, addr := range n.cfg.Join {
		host, port, _ := net.SplitHostPort(addr) // Validate has seen it
		hosts, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			n.cfg.Logger.Warn("cannot resolve a name to join through", "name", host, "error", err)
			addrs = append(addrs, addr) // so that it counts as not answered
			continue
		}
		for _, h := range hosts {
			addrs = append(addrs, net.JoinHostPort(h, port))
		}
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// askAll asks every address at once. It gives the admission that knows the most,
// who has answered, and a refusal that nothing but a person can mend.
func (n *Node) askAll(ctx context.Context, addrs []string) (best *transport.Answer, heard []string, fatal error) {
	answers := make([]*transport.Answer, len(addrs))
	var wait sync.WaitGroup
	for i, addr := range addrs {
		wait.Go(func() { answers[i] = n.transport.Ask(ctx, addr, n.newcomer) })
	}
	wait.Wait()
	for i, a := range answers {
		switch {
		case a == nil || a.Later:
			continue
		case a.Admitted && best == nil:
			best = a
		case a.Admitted && a.Token.Above(best.Token):
			a.List = slices.Concat(a.List, best.List)
			best = a
		case a.Admitted:
			best.List = append(best.List, a.List...)
		case errors.Is(a.Refused, ErrRemoved):
			fatal = fmt.Errorf("join through %s: %w", addrs[i], a.Refused)
		case a.Refused != nil:
			fatal = config("join through %s: %w", addrs[i], a.Refused)
		}
		heard = append(heard, addrs[i])
	}
	return best, heard, fatal
}

// newcomer is this member as it asks to be let in.
func (n *Node) newcomer(ctx context.Context) (me transport.Newcomer, err error) {
	err = n.call(ctx, func() {
		me = transport.Newcomer{Rank: n.machine.Self(), Address: n.cfg.Advertise, List: n.ownEntry(), Token: n.machine.Held()}
	})
	return me, err
}

// ownEntry is this member's entry on its own list, as a list.
func (n *Node) ownEntry() []election.Member {
	if e, ok := n.machine.Entry(n.id); ok {
		return []election.Member{e}
	}
	return nil
}

// enter puts a newcomer on the list and gives what it should know.
func (n *Node) enter(e election.Member, holds Token) (entry network.Entry) {
	n.step(election.Event{Kind: election.Joined, Member: e, Token: holds})
	entry.Token, entry.Age = n.machine.Vouch()
	entry.List = n.machine.List()
	return entry
}
