package batuta

import (
	"cmp"
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
	"github.com/batuta-dev/batuta/internal/core/newcomer"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// joiner has the cluster admit this member, and goes on asking until it has.
type joiner struct {
	*links
	newcomer  newcomer.Newcomer               // what asking has brought
	refused   string                          // why a member that it joins through refuses it, until a user fixes that; "": none does
	rejoin    chan struct{}                   // all addresses through which it joins are to be asked again
	returning bool                            // a member is being asked to admit this member again
	duplicate struct{ since, last time.Time } // members refuse this member because its id is in use
}

// findAgain is the pause before the addresses to join through are found again, when all of
// those found have answered: members that start later or move have new addresses.
const findAgain = 5 * time.Second

// join asks every address of Config.Join to be let into the cluster, round after round,
// until each has answered; what the answers mean is [newcomer.Newcomer]'s. It asks them
// all once more when the Machine has it that this member must join again.
func (j *joiner) join(ctx context.Context) {
	var answered []string
	fixed, failing := !slices.ContainsFunc(j.cfg.Join, func(s string) bool { return !discovery.Fixed(s) }), false
	for {
		found, fault := j.lookup(ctx)
		if fault != nil && !failing && ctx.Err() == nil {
			j.cfg.Logger.Warn("cannot find all addresses to join through; trying again", "error", fault)
		}
		failing = fault != nil
		left := slices.DeleteFunc(slices.Clone(found), func(addr string) bool { return slices.Contains(answered, addr) })
		var asked []string
		if j.locate(ctx, left) {
			asked = left
		}
		answers := j.askAll(ctx, asked)
		var heard []string
		var pause time.Duration
		if j.call(ctx, func() {
			heard = j.letIn(asked, answers)
			switch alone := !j.met && !j.newcomer.Admitted(); {
			case failing, len(found) == 0, len(heard) < len(left), alone && !fixed:
				pause = j.newcomer.Pause(j.cfg.timing())
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
		case <-j.rejoin:
			answered = nil
			if j.call(ctx, j.newcomer.Again) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// letIn steps the Machine with what a round of asking has brought, and returns the addresses that need not be
// asked again.
func (j *joiner) letIn(asked []string, answers []*transport.Answer) (heard []string) {
	j.newcomer.BeginRound()
	j.refused = ""
	for i, a := range answers {
		if a != nil && a.Holder != "" {
			j.sameID(a.Holder, a.By)
		}
		if a != nil && a.Why != "" {
			j.refused = fmt.Sprintf("it cannot join through %s: %s", asked[i], a.Why)
		}
		if a == nil || a.Later {
			continue
		}
		itself := !a.Admitted && a.Refused == nil // it has dialed its own address
		if itself || j.newcomer.Answered(admission(a), refusal(asked[i], a.Refused)) {
			heard = append(heard, asked[i])
		}
	}
	ev, tell, fatal := j.newcomer.RoundOver(j.met)
	switch {
	case fatal != nil:
		j.fail(fatal)
	case tell:
		j.emit(ev)
	}
	return heard
}

// admission is the content of an answer to a newcomer, nil if it refuses.
func admission(a *transport.Answer) *newcomer.Admission {
	if !a.Admitted {
		return nil
	}
	return &newcomer.Admission{List: a.List, Token: a.Token, Age: a.Age}
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
func (j *joiner) joinAgain(to ID) {
	switch {
	case j.transport == nil || j.closing: // a wire of its own has its own ways
	case to == election.None:
		select {
		case j.rejoin <- struct{}{}:
		default: // it is to be done already
		}
	case !j.returning:
		j.returning = true
		addr := j.address(to)
		j.background(func(ctx context.Context) {
			answer := j.transport.Ask(ctx, addr, j.introduce)
			j.call(ctx, func() {
				j.returning = false
				if answer != nil && answer.Admitted {
					j.emit(j.newcomer.Returned(admission(answer)))
				}
			})
		})
	}
}

// lookup gives the addresses to ask, as Config.Join stands for them now.
func (l *links) lookup(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	return discovery.Addresses(ctx, l.cfg.Join)
}

// askAll asks every address at once; an address without an answer gives nil.
func (l *links) askAll(ctx context.Context, addrs []string) []*transport.Answer {
	answers := make([]*transport.Answer, len(addrs))
	var wait sync.WaitGroup
	for i, addr := range addrs {
		wait.Go(func() { answers[i] = l.transport.Ask(ctx, addr, l.introduce) })
	}
	wait.Wait()
	return answers
}

// introduce is this member as it asks to be let in.
func (l *links) introduce(ctx context.Context) (transport.Newcomer, error) {
	return ask(ctx, &l.calls, func() transport.Newcomer {
		it := transport.Newcomer{Rank: l.machine.Self(), Address: l.cfg.Advertise, Token: l.machine.Held()}
		if own, ok := l.machine.Entry(l.id); ok {
			it.List = []election.Member{own}
		}
		return it
	})
}

// awaited is what this member waits for before it is a candidate; "": nothing.
func (j *joiner) awaited() string {
	_, best := j.machine.(*machine.Machine)
	switch aside := j.machine.Standing(); {
	case aside == election.IneligibleUnfounded:
	case aside == election.IneligibleJoining && !best && j.refused != "" && !j.newcomer.Admitted():
		return j.refused // also if a member that knows its id has sent it an epoch
	case aside == election.IneligibleJoining && len(j.cfg.Join) > 0 && j.machine.Highest() == 0:
		if !best {
			return fmt.Sprintf("it joins through %s, and has learned of no leader: this algorithm creates a cluster only from a list of members, on members without Config.Join", strings.Join(j.cfg.Join, ", "))
		} else if !j.cfg.newcomer() {
			return ""
		}
	default:
		return ""
	}
	known := 1
	for _, m := range j.machine.Members() {
		if m.ID != j.id && !m.Heard.IsZero() {
			known++
		}
	}
	switch {
	case j.cfg.Expect > 0:
		return fmt.Sprintf("waits until %d members know each other (Config.Expect): by now it knows %d, itself included", j.cfg.Expect, known)
	case known == 1 && j.refused != "":
		return j.refused
	case known == 1:
		return fmt.Sprintf("no member answers at %s, and it creates no cluster by itself: start a member there, or this one with Config.Bootstrap, once", strings.Join(j.cfg.Join, ", "))
	}
	return fmt.Sprintf("%d members know each other, none of them has learned of a leader, and none creates a cluster by itself: start one of them with Config.Bootstrap, once, or all with Config.Expect", known)
}

// sayAwaited logs for what this member waits, again and again until it does not.
func (j *joiner) sayAwaited(ctx context.Context) {
	for pause := 2 * time.Second; ; pause = 10 * time.Second {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		words, err := ask(ctx, &j.calls, j.awaited)
		if err != nil || words == "" {
			return
		}
		j.cfg.Logger.Warn("this member leads nothing yet", "why", words)
	}
}

// settleAddress sets the address that this member publishes, before it does. It
// stays open while no route to a member is found: see locate.
func (l *links) settleAddress(ctx context.Context, saved []election.Member) {
	switch {
	case l.cfg.Advertise != "":
		return
	case l.cfg.Wire != nil || !everywhere(l.addr):
		l.cfg.Advertise = l.addr
		for _, p := range l.cfg.Peers {
			if p.ID == l.id && elsewhere(p.Addr, l.addr) {
				l.cfg.Logger.Warn("the member list has this member where it does not listen, and the others dial it there: correct the list, or set Config.Advertise if that leads here", "list", p.Addr, "listen", l.addr)
			}
		}
		return
	}
	for _, p := range l.cfg.Peers {
		if p.ID == l.id && !everywhere(p.Addr) {
			l.cfg.Advertise = p.Addr
			return
		}
	}
	if l.cfg.Advertise = l.route(ctx, l.contacts(ctx)); l.cfg.Advertise != "" {
		return
	}
	for _, e := range saved {
		if e.ID == l.id {
			l.cfg.Advertise = e.Address
		}
	}
}

// contacts are the addresses that this member is to reach.
func (l *links) contacts(ctx context.Context) []string {
	addrs, _ := l.lookup(ctx) // join reports what fails
	for _, p := range l.cfg.Peers {
		if p.ID != l.id {
			addrs = append(addrs, p.Addr)
		}
	}
	return addrs
}

// route gives the address of this machine from which it reaches the first of addrs that it can reach,
// with the port on which this member listens; "" if it reaches none before ctx ends, or within [lookupTime].
// Nothing is sent.
func (l *links) route(ctx context.Context, addrs []string) string {
	_, port, err := net.SplitHostPort(l.addr)
	if err != nil {
		return ""
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found := make([]chan netip.Addr, len(addrs))
	for i, addr := range addrs { // at once: a name server may answer for some only
		found[i] = make(chan netip.Addr, 1)
		asked.Go(func() { found[i] <- routeTo(ctx, addr) })
	}
	loopback := ""
	for _, first := range found { // in order: a machine of several addresses publishes the same one again
		switch ip := <-first; {
		case !ip.IsValid() || ip.IsLinkLocalUnicast():
		case ip.IsLoopback():
			loopback = cmp.Or(loopback, net.JoinHostPort(ip.String(), port)) // where all of them are on this machine
		default:
			return net.JoinHostPort(ip.String(), port)
		}
	}
	return loopback
}

// routeTo gives the address from which this machine reaches addr; the zero Addr if it does not.
func routeTo(ctx context.Context, addr string) (from netip.Addr) {
	c, err := new(net.Dialer).DialContext(ctx, "udp", addr)
	if err != nil {
		return from
	}
	defer c.Close()
	local, _, err := net.SplitHostPort(c.LocalAddr().String())
	if err == nil {
		from, _ = netip.ParseAddr(local)
	}
	return from
}

// locate finds the address that settleAddress has left open, as soon as one of the members
// that it is to reach can be reached, and steps the Machine with it. It reports
// whether the address is known.
func (l *links) locate(ctx context.Context, addrs []string) bool {
	known := false
	if l.call(ctx, func() { known = l.cfg.Advertise != "" }) != nil || known {
		return known
	}
	addr := l.route(ctx, addrs)
	if addr == "" {
		return false
	}
	return l.call(ctx, func() {
		l.cfg.Advertise = addr
		l.transport.Advertise(addr)
		l.cfg.Logger.Warn("the others reach this member here, as its connections show; Config.Advertise sets another", "address", addr)
		l.emit(election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: l.machine.Self(), Address: addr}})
	}) == nil
}

// keepLocating locates this member in a cluster whose members are all configured.
func (l *links) keepLocating(ctx context.Context) {
	for !l.locate(ctx, l.contacts(ctx)) {
		select {
		case <-time.After(newcomer.Backoff):
		case <-ctx.Done():
			return
		}
	}
}

// sameID ends the node when a process elsewhere, at holder, has its id, not only seems to
// have it for the moment that members need to detect the end of an earlier process. Where holder is
// empty that process has started later and has this member's place: no member receives from this one.
func (j *joiner) sameID(holder string, by ID) {
	now := time.Now()
	if now.Sub(j.duplicate.last) > 2*j.timeout+duplicatePause {
		j.duplicate.since = now
	}
	j.duplicate.last = now
	if now.Sub(j.duplicate.since) <= 2*j.timeout {
		return
	}
	where := "the process at " + election.Shown(holder)
	if holder == "" {
		where = "a process that has started later"
	}
	j.fail(config("id %s is in use by %s, as member %s reports: give each process its own id", j.id, where, by))
}

// duplicatePause is longer than a Machine waits between two dials.
const duplicatePause = 2 * time.Second
