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
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// join asks every address of Config.Join to be let into the cluster, round after round,
// until each has answered; what the answers mean is [machine.Newcomer]'s. It asks them
// all once more when the Machine has it that this member must join again.
func (n *Node) join(ctx context.Context) {
	var answered []string
	for {
		left := slices.DeleteFunc(n.lookup(ctx), func(addr string) bool { return slices.Contains(answered, addr) })
		var asked []string
		if n.locate(ctx, left) {
			asked = left
		}
		answers := n.askAll(ctx, asked)
		var heard []string
		var pause time.Duration
		if n.call(ctx, func() {
			heard = n.letIn(asked, answers)
			if len(left) == 0 || len(heard) < len(left) { // a name that stands for fewer may stand for more again
				pause = n.newcomer.Pause(n.cfg.timing())
			}
		}) != nil {
			return // the node closes
		}
		answered = append(answered, heard...)
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-again:
		case <-n.rejoin:
			answered = nil
			if n.call(ctx, n.newcomer.Again) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// letIn tells the Machine what a round of asking has brought, and gives who need not be
// asked again.
func (n *Node) letIn(asked []string, answers []*transport.Answer) (heard []string) {
	n.newcomer.BeginRound()
	for i, a := range answers {
		if a != nil && a.Holder != "" {
			n.sameID(a.Holder, a.By)
		}
		if a == nil || a.Later {
			continue
		}
		itself := !a.Admitted && a.Refused == nil // it has dialed its own address
		if itself || n.newcomer.Answered(admission(a), refusal(asked[i], a.Refused)) {
			heard = append(heard, asked[i])
		}
	}
	ev, tell, fatal := n.newcomer.RoundOver(n.met)
	switch {
	case fatal != nil:
		n.fail(fatal)
	case tell:
		n.emit(ev)
	}
	return heard
}

// admission is what an answer tells a newcomer, nil if it refuses.
func admission(a *transport.Answer) *machine.Admission {
	if !a.Admitted {
		return nil
	}
	return &machine.Admission{List: a.List, Token: a.Token, Age: a.Age}
}

// refusal names who has refused a newcomer, and why.
func refusal(by string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRemoved):
		return fmt.Errorf("join through %s: %w", by, err)
	}
	return config("join through %s: %w", by, err)
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
			answer := n.transport.Ask(ctx, addr, n.introduce)
			n.call(ctx, func() {
				n.returning = false
				if answer != nil && answer.Admitted {
					n.emit(n.newcomer.Returned(admission(answer)))
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

// askAll asks every address at once; who does not answer gives nil.
func (n *Node) askAll(ctx context.Context, addrs []string) []*transport.Answer {
	answers := make([]*transport.Answer, len(addrs))
	var wait sync.WaitGroup
	for i, addr := range addrs {
		wait.Go(func() { answers[i] = n.transport.Ask(ctx, addr, n.introduce) })
	}
	wait.Wait()
	return answers
}

// introduce is this member as it asks to be let in.
func (n *Node) introduce(ctx context.Context) (transport.Newcomer, error) {
	return ask(ctx, n, func() transport.Newcomer {
		return transport.Newcomer{Rank: n.machine.Self(), Address: n.cfg.Advertise, List: n.ownEntry(), Token: n.machine.Held()}
	})
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
	n.step(election.Event{Kind: election.JoinRequested, Member: e, Token: holds})
	entry.Token, entry.Age = n.machine.Vouch()
	entry.List = n.machine.List()
	return entry
}
