package batuta

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// findAgain is the pause before the addresses to join through are found again, when all of
// those found have answered: members that start later or move have new addresses.
const findAgain = 5 * time.Second

// join asks every address of Config.Join to be let into the cluster, round after round,
// until each has answered; what the answers mean is [machine.Newcomer]'s. It asks them
// all once more when the Machine has it that this member must join again.
func (n *Node) join(ctx context.Context) {
	var answered []string
	fixed, failing := !slices.ContainsFunc(n.cfg.Join, func(s string) bool { return !discovery.Fixed(s) }), false
	for {
		found, fault := n.lookup(ctx)
		if fault != nil && !failing && ctx.Err() == nil {
			n.cfg.Logger.Warn("cannot find all addresses to join through; trying again", "error", fault)
		}
		failing = fault != nil
		left := slices.DeleteFunc(slices.Clone(found), func(addr string) bool { return slices.Contains(answered, addr) })
		var asked []string
		if n.locate(ctx, left) {
			asked = left
		}
		answers := n.askAll(ctx, asked)
		var heard []string
		var pause time.Duration
		if n.call(ctx, func() {
			heard = n.letIn(asked, answers)
			switch alone := !n.met && !n.newcomer.Admitted(); {
			case failing, len(found) == 0, len(heard) < len(left), alone && !fixed:
				pause = n.newcomer.Pause(n.cfg.timing())
			case !fixed:
				pause = findAgain
			}
		}) != nil {
			return // the node closes
		}
		answered = slices.DeleteFunc(append(answered, heard...), func(addr string) bool { return !slices.Contains(found, addr) })
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

// letIn steps the Machine with what a round of asking has brought, and returns the addresses that need not be
// asked again.
func (n *Node) letIn(asked []string, answers []*transport.Answer) (heard []string) {
	n.newcomer.BeginRound()
	n.insecure = ""
	for i, a := range answers {
		if a != nil && a.Holder != "" {
			n.sameID(a.Holder, a.By)
		}
		if a != nil && a.Insecure != "" {
			n.insecure = fmt.Sprintf("it cannot join through %s: %s", asked[i], a.Insecure)
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

// admission is the content of an answer to a newcomer, nil if it refuses.
func admission(a *transport.Answer) *machine.Admission {
	if !a.Admitted {
		return nil
	}
	return &machine.Admission{List: a.List, Token: a.Token, Age: a.Age}
}

// refusal is the member that has refused a newcomer, and the reason.
func refusal(by string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRemoved):
		return fmt.Errorf("join through %s: %w", by, err)
	}
	return config("join through %s: %w", by, err)
}

// joinAgain asks a member to admit this member, or all addresses through which it joins.
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

// lookup gives the addresses to ask, as Config.Join stands for them now.
func (n *Node) lookup(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	return discovery.Addresses(ctx, n.cfg.Join)
}

// askAll asks every address at once; an address without an answer gives nil.
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

// This file has what a member waits for that founds no cluster.

// How soon a member that waits logs that, and how often again.
const (
	firstWord = 2 * time.Second
	nextWord  = 10 * time.Second
)

// newcomer reports whether this member has addresses to ask and no list of members:
// it founds no cluster then, unless Bootstrap is set.
func (c Config) newcomer() bool {
	listed := slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID != c.ID })
	return len(c.Join) > 0 && !listed && !c.Bootstrap && c.Wire == nil
}

// checkFounding returns settings that contradict each other, or can never come true.
func (c Config) checkFounding() error {
	count := len(c.Peers)
	if !slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID == c.ID }) {
		count++
	}
	_, own := c.Algorithm.(machine.CoreMaker)
	switch {
	case own && (c.Bootstrap || c.Expect > 0):
		return config("bootstrap and expect: algorithm %s creates a cluster only from its list of members; name them all, the same everywhere, or start the first with itself as the only one, and have the others join it", c.Algorithm.Name())
	case c.Witness && !own:
		return config("witness: algorithm %s has no votes: leave it out, or use quorum; Config.Observer follows and never leads", c.Algorithm.Name())
	case c.Witness && count < 2 && len(c.Join) == 0:
		return config("witness: it never leads, and no other member is named: set Config.Peers to the first list of all members, or Config.Join to one of them")
	case c.Observer && !c.Witness && own && len(c.Join) == 0:
		return config("observer: it does not vote, and each member of the first list of a quorum does: set Config.Join to the members that it follows; a witness votes and never leads")
	case c.MinMembers != 0 && (own || c.Wire != nil):
		return config("min-members %d: algorithm %s, or the protocol of Wire, has no such rule; leave it out (a quorum has no leader without a majority)", c.MinMembers, c.Algorithm.Name())
	case c.MinMembers < 0 || c.MinMembers > election.MaxMembers:
		return config("min-members %d: give 1 to %d, or leave it out", c.MinMembers, election.MaxMembers)
	case c.MinMembers > count && len(c.Peers) > 0 && len(c.Join) == 0:
		return config("min-members %d, and the list has %d: no member would ever lead; lower it, or correct the list", c.MinMembers, count)
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

// awaited is what this member waits for before it is a candidate; "": nothing.
func (n *Node) awaited() string {
	switch aside := n.machine.Standing(); {
	case aside == election.IneligibleUnfounded:
	case aside == election.IneligibleJoining && len(n.cfg.Join) > 0 && n.machine.Highest() == 0:
		if _, best := n.machine.(*machine.Machine); !best {
			return fmt.Sprintf("it joins through %s, and has learned of no leader: this algorithm creates a cluster only from a list of members, on members without Config.Join", strings.Join(n.cfg.Join, ", "))
		} else if !n.cfg.newcomer() {
			return ""
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
		return fmt.Sprintf("waits until %d members know each other (Config.Expect): by now it knows %d, itself included", n.cfg.Expect, known)
	case known == 1 && n.insecure != "":
		return n.insecure
	case known == 1:
		return fmt.Sprintf("no member answers at %s, and it creates no cluster by itself: start a member there, or this one with Config.Bootstrap, once", strings.Join(n.cfg.Join, ", "))
	}
	return fmt.Sprintf("%d members know each other, none of them has learned of a leader, and none creates a cluster by itself: start one of them with Config.Bootstrap, once, or all with Config.Expect", known)
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

// This file finds the address that a member which listens everywhere publishes.

// everywhere reports whether to listen on addr is to listen on every address of the
// machine: no member elsewhere reaches that.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// settleAddress sets the address that this member publishes, before it does. It
// stays open while no route to a member is found: see locate.
func (n *Node) settleAddress(saved []election.Member) {
	switch {
	case n.cfg.Advertise != "":
		return
	case n.cfg.Wire != nil || !everywhere(n.addr):
		n.cfg.Advertise = n.addr
		for _, p := range n.cfg.Peers {
			if p.ID == n.id && elsewhere(p.Addr, n.addr) {
				n.cfg.Logger.Warn("the member list has this member where it does not listen, and the others dial it there: correct the list, or set Config.Advertise if that leads here", "list", p.Addr, "listen", n.addr)
			}
		}
		return
	}
	for _, p := range n.cfg.Peers {
		if p.ID == n.id && !everywhere(p.Addr) {
			n.cfg.Advertise = p.Addr
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	if n.cfg.Advertise = n.route(n.contacts(ctx)); n.cfg.Advertise != "" {
		return
	}
	for _, e := range saved {
		if e.ID == n.id {
			n.cfg.Advertise = e.Address
		}
	}
}

// elsewhere reports that two addresses are plainly different: their ports differ, or their
// hosts are two IP addresses. What a name stands for is not looked up.
func elsewhere(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return false
	}
	ipA, errA := netip.ParseAddr(hostA)
	ipB, errB := netip.ParseAddr(hostB)
	return portA != portB || errA == nil && errB == nil && ipA.Unmap() != ipB.Unmap()
}

// contacts are the addresses that this member is to reach.
func (n *Node) contacts(ctx context.Context) []string {
	addrs, _ := n.lookup(ctx) // join reports what fails
	for _, p := range n.cfg.Peers {
		if p.ID != n.id {
			addrs = append(addrs, p.Addr)
		}
	}
	return addrs
}

// route gives the address of this machine from which it reaches any of addrs, with
// the port on which this member listens; "" if it reaches none. Nothing is sent.
func (n *Node) route(addrs []string) string {
	_, port, err := net.SplitHostPort(n.addr)
	if err != nil {
		return ""
	}
	loopback := ""
	for _, addr := range addrs {
		c, err := net.DialTimeout("udp", addr, lookupTime)
		if err != nil {
			continue
		}
		local, _, err := net.SplitHostPort(c.LocalAddr().String())
		c.Close()
		ip, errIP := netip.ParseAddr(local)
		switch at := net.JoinHostPort(local, port); {
		case err != nil || errIP != nil || ip.IsLinkLocalUnicast():
		case ip.IsLoopback():
			loopback = at // where all of them are on this machine
		default:
			return at
		}
	}
	return loopback
}

// locate finds the address that settleAddress has left open, as soon as one of the members
// that it is to reach can be reached, and steps the Machine with it. It reports
// whether the address is known.
func (n *Node) locate(ctx context.Context, addrs []string) bool {
	known := false
	if n.call(ctx, func() { known = n.cfg.Advertise != "" }) != nil || known {
		return known
	}
	addr := n.route(addrs)
	if addr == "" {
		return false
	}
	return n.call(ctx, func() {
		n.cfg.Advertise = addr
		n.transport.Advertise(addr)
		n.cfg.Logger.Warn("the others reach this member here, as its connections show; Config.Advertise sets another", "address", addr)
		n.emit(election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: n.machine.Self(), Address: addr}})
	}) == nil
}

// keepLocating locates this member in a cluster whose members are all configured.
func (n *Node) keepLocating(ctx context.Context) {
	for !n.locate(ctx, n.contacts(ctx)) {
		select {
		case <-time.After(machine.JoinBackoff):
		case <-ctx.Done():
			return
		}
	}
}

// checkReach returns the fault of a member whose address no member could reach.
func (c Config) checkReach() error {
	if c.Wire != nil || c.Advertise != "" || !everywhere(c.Listen) || len(c.Join) > 0 {
		return nil
	}
	if slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID != c.ID || !everywhere(p.Addr) }) {
		return nil
	}
	return config("listen address %q is every address of this machine, and no other member is named that could report which of them it reaches: set Config.Advertise to HOST:PORT, or listen on one address", c.Listen)
}

// duplicateID notes that members refuse this member because its id is in use.
type duplicateID struct{ since, last time.Time }

// sameID ends the node when a process elsewhere, at holder, has its id, not only seems to
// have it for the moment that members need to detect the end of an earlier process. Where holder is
// empty that process has started later and has this member's place: no member receives from this one.
func (n *Node) sameID(holder string, by ID) {
	now := time.Now()
	if now.Sub(n.duplicate.last) > 2*n.timeout+duplicatePause {
		n.duplicate.since = now
	}
	n.duplicate.last = now
	if now.Sub(n.duplicate.since) <= 2*n.timeout {
		return
	}
	where := "the process at " + election.Shown(holder)
	if holder == "" {
		where = "a process that has started later"
	}
	n.fail(config("id %s is in use by %s, as member %s reports: give each process its own id", n.id, where, by))
}

// duplicatePause is longer than a Machine waits between two dials.
const duplicatePause = 2 * time.Second
