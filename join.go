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
	"github.com/batuta-dev/batuta/internal/wire"
)

// joinBackoff bounds the pause between two rounds of asking to be let in;
// lookupTime the wait for a name server.
const (
	joinBackoff = time.Second
	lookupTime  = 2 * time.Second
)

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
		welcome, heard, err := n.askAll(ctx, left)
		answered = append(answered, heard...)
		kind := election.Welcomed
		if !started {
			kind = election.Started
		}
		if n.call(ctx, func() { n.letIn(kind, welcome, err) }) != nil {
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
func (n *Node) letIn(kind election.EventKind, welcome *wire.Handshake, err error) {
	n.let = n.let || welcome != nil
	if err != nil && !n.let && !n.links.met() {
		n.fail(err)
		return
	}
	ev := election.Event{Kind: kind}
	if welcome != nil {
		ev.List, ev.Token, ev.Age = welcome.List, welcome.Token, welcome.Age
	}
	if kind == election.Started || welcome != nil {
		n.emit(ev)
	}
}

// joinAgain asks one member to let this one in, or everyone through whom it joins.
func (n *Node) joinAgain(to ID) {
	switch {
	case n.links == nil || n.closing: // a wire of its own has its own ways
	case to == election.None:
		select {
		case n.rejoin <- struct{}{}:
		default: // it is to be done already
		}
	case !n.returning:
		n.returning = true
		addr := n.links.address(to)
		n.links.background(func(ctx context.Context) {
			answer := n.ask(ctx, addr)
			n.call(ctx, func() {
				n.returning = false
				if answer != nil && answer.Kind == wire.KindAdmitted {
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
func (n *Node) askAll(ctx context.Context, addrs []string) (welcome *wire.Handshake, heard []string, fatal error) {
	answers := make([]*wire.Handshake, len(addrs))
	var wait sync.WaitGroup
	for i, addr := range addrs {
		wait.Go(func() { answers[i] = n.ask(ctx, addr) })
	}
	wait.Wait()
	for i, a := range answers {
		switch {
		case a == nil:
			continue
		case a.Kind == wire.KindAdmitted:
			if welcome == nil || a.Token.Above(welcome.Token) {
				a.List = slices.Concat(a.List, list(welcome))
				welcome = a
			} else {
				welcome.List = append(welcome.List, a.List...)
			}
		case a.Reason == wire.ReasonSameID, a.Reason == wire.ReasonOldIncarnation, a.Reason == wire.ReasonClosing, a.Reason == wire.ReasonManyJoins:
			continue // an earlier process with this id is not forgotten yet: ask again
		case a.Reason == wire.ReasonRemoved:
			fatal = fmt.Errorf("join through %s: %w", addrs[i], election.ErrRemoved)
		case a.Reason != wire.ReasonItself:
			fatal = config("join through %s: refused (%s): %s", addrs[i], a.Reason.Known(), shown(a.Detail))
		}
		heard = append(heard, addrs[i])
	}
	return welcome, heard, fatal
}

func list(h *wire.Handshake) []election.Member {
	if h == nil {
		return nil
	}
	return h.List
}

// ask asks one address; nil when nobody answers.
func (n *Node) ask(ctx context.Context, addr string) *wire.Handshake {
	ctx, cancel := context.WithTimeout(ctx, 2*n.links.dialTime+n.cfg.TProcess)
	defer cancel()
	answer, err := n.askAt(ctx, addr)
	if err != nil {
		n.cfg.Logger.Debug("no answer to a join", "address", addr, "error", err)
		return nil
	}
	if answer.Kind == wire.KindRefused && answer.Reason != wire.ReasonItself {
		if here, words := n.links.differs(answer); here == answer.Reason {
			answer.Detail = words // in full, and this member first
		}
		n.tally.refused(answer.Reason.Known())
		n.cfg.Logger.Warn("join refused", "address", addr, "reason", string(answer.Reason.Known()), "detail", shown(answer.Detail))
	}
	return answer
}

func (n *Node) askAt(ctx context.Context, addr string) (*wire.Handshake, error) {
	nc, err := dialWithin(ctx, n.links.dialTime, n.cfg.Transport, addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	until, _ := ctx.Deadline()
	c := &conn{bounds: n.links.bounds, live: &n.links.live}
	if err := c.connect(nc, until); err != nil {
		return nil, err
	}
	hello := n.links.self
	hello.Kind, hello.Observer = wire.KindJoin, n.cfg.Observer
	if err := n.call(ctx, func() { hello.From, hello.List, hello.Token = n.machine.Self(), n.ownEntry(), n.machine.Held() }); err != nil {
		return nil, err
	}
	frame, err := new(wire.Encoder).Handshake(&hello)
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(frame); err != nil {
		return nil, err
	}
	body, err := c.read(wire.MaxFrame)
	if err != nil {
		return nil, err
	}
	answer, err := wire.DecodeHandshake(body)
	if err == nil && answer.Kind != wire.KindAdmitted && answer.Kind != wire.KindRefused {
		err = errors.New("it answers a join with a " + string(answer.Kind))
	}
	return answer, err
}

// joining answers a newcomer that asks to be put on the list.
func (l *links) joining(c *conn, hello *wire.Handshake) {
	if why, detail := l.judge(hello); why != "" {
		l.refuse(c, hello, why, detail)
		return
	}
	answer := l.answer(wire.KindAdmitted)
	answer.List, answer.Token, answer.Age = l.enter(newcomer(hello), hello.Token)
	if len(answer.List) > maxJoinList {
		answer.List = answer.List[:maxJoinList] // the rest follows as members talk
	}
	l.say(c, &answer)
	c.finish(l.dialTime)
}

// maxJoinList is how many entries an admission carries, so that it fits a frame.
const maxJoinList = 1024

func newcomer(hello *wire.Handshake) election.Member {
	e := election.Member{Rank: hello.From, Address: hello.Address, Observer: hello.Observer}
	if len(hello.List) == 1 && hello.List[0].ID == e.ID {
		e.Version = hello.List[0].Version
	}
	return e
}

// ownEntry is this member's entry on its own list, as a list.
func (n *Node) ownEntry() []election.Member {
	if e, ok := n.machine.Entry(n.id); ok {
		return []election.Member{e}
	}
	return nil
}

// mayJoin says why a newcomer may not be put on the list, if it may not.
func (l *links) mayJoin(hello *wire.Handshake) (why wire.Reason, detail string) {
	switch err := l.admitJoin(newcomer(hello), hello.Incarnation); {
	case hello.From.ID == l.self.From.ID && hello.Incarnation == l.self.Incarnation:
		return wire.ReasonItself, "this is the same process"
	case errors.Is(err, election.ErrTooManyJoins):
		return wire.ReasonManyJoins, err.Error()
	case errors.Is(err, election.ErrMixedKind), errors.Is(err, election.ErrFull), errors.Is(err, election.ErrWornOut):
		return wire.ReasonJoin, err.Error()
	case checkAddress(hello.Address, false) != nil:
		return wire.ReasonJoin, fmt.Sprintf("address %q: the others must be able to reach the newcomer there", hello.Address)
	default:
		return l.admission(hello.From, err)
	}
}

// enter puts a newcomer on the list and gives what it should know.
func (n *Node) enter(e election.Member, holds Token) (list []election.Member, t Token, age time.Duration) {
	n.step(election.Event{Kind: election.Joined, Member: e, Token: holds})
	t, age = n.machine.Vouch()
	return n.machine.List(), t, age
}
