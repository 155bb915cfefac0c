package batuta

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// This file tells of a member that founds no cluster, and for what it waits.

// How soon a member that waits says so, and how often again.
const (
	firstWord = 2 * time.Second
	nextWord  = 10 * time.Second
)

// newcomer reports whether this member knows the others by nothing but where to ask:
// it founds no cluster then, unless it is told to.
func (c Config) newcomer() bool {
	listed := slices.ContainsFunc(c.Peers, func(p Peer) bool { return string(p.ID) != c.ID })
	return len(c.Join) > 0 && !listed && !c.Bootstrap && c.Wire == nil
}

// checkFounding finds settings that contradict each other, or can never come true.
func (c Config) checkFounding() error {
	count := len(c.Peers)
	if !slices.ContainsFunc(c.Peers, func(p Peer) bool { return string(p.ID) == c.ID }) {
		count++
	}
	_, own := c.Algorithm.(machine.CoreMaker)
	switch {
	case own && (c.Bootstrap || c.Expect > 0):
		return config("bootstrap and expect: algorithm %s founds a cluster by its list of members alone; name them all, the same everywhere, or start the first with itself as the only one, and have the others join it", c.Algorithm.Name())
	case c.Expect < 0:
		return config("expect %d members: give a number above zero, or leave it out", c.Expect)
	case c.Bootstrap && c.Expect > 1:
		return config("bootstrap founds a cluster at once, and expect %d awaits others first: leave one of them out", c.Expect)
	case c.Bootstrap && c.Observer:
		return config("bootstrap: an observer never leads, and so founds nothing: leave one of them out")
	case c.Expect > count && len(c.Peers) > 0 && len(c.Join) == 0:
		return config("expect %d members, and the list has %d: lower it, or correct the list", c.Expect, count)
	}
	return nil
}

// awaited says for what this member waits before it stands; "" when it does not.
func (n *Node) awaited() string {
	switch aside := n.machine.Standing(); {
	case aside == election.IneligibleUnfounded:
	case aside == election.IneligibleJoining && n.cfg.newcomer() && n.machine.Highest() == 0:
		if _, own := n.machine.(*machine.Machine); !own {
			return fmt.Sprintf("it joins through %s, and has heard of no leader: this algorithm founds a cluster by a --member list alone", strings.Join(n.cfg.Join, ", "))
		}
	default:
		return ""
	}
	known := 1
	for _, m := range n.machine.Members() {
		if m.ID != n.id && !m.Heard.IsZero() {
			known++
		}
	}
	switch {
	case n.cfg.Expect > 0:
		return fmt.Sprintf("waits until %d members know each other (--expect): by now it knows %d, itself included", n.cfg.Expect, known)
	case known == 1:
		return fmt.Sprintf("nobody answers at %s, and it founds no cluster by itself: start a member there, or this one with --bootstrap, once", strings.Join(n.cfg.Join, ", "))
	}
	return fmt.Sprintf("%d members know each other, none of them has heard of a leader, and none founds a cluster by itself: start one of them with --bootstrap, once, or all with --expect N", known)
}

// sayAwaited logs for what this member waits, again and again until it does not.
func (n *Node) sayAwaited(ctx context.Context) {
	for pause := firstWord; ; pause = nextWord {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		words := ""
		if n.call(ctx, func() { words = n.awaited() }) != nil || words == "" {
			return
		}
		n.cfg.Logger.Warn("this member leads nothing yet", "why", words)
	}
}
