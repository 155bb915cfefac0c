package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file is the join: the answers to a newcomer that only has an address, and how this member
// joins as a newcomer.

// maxJoinList is how many entries an admission carries, so that it fits a frame.
const maxJoinList = 1024

// handleJoin answers a newcomer that asks to be put on the list.
func (t *Transport) handleJoin(c *conn, hello *wire.Handshake) {
	if why, detail := t.judge(c, hello); why != "" {
		t.refuse(c, hello, why, detail)
		return
	}
	answer := t.answer(wire.KindAdmitted)
	entry := t.site.Enter(newcomer(hello), hello.Token)
	answer.List, answer.Token, answer.Age = entry.List, entry.Token, entry.Age
	if len(answer.List) > maxJoinList {
		answer.List = answer.List[:maxJoinList] // the rest follows in messages
	}
	t.say(c, &answer)
	c.finish(t.trip)
}

func newcomer(hello *wire.Handshake) election.Member {
	e := election.Member{Rank: hello.From, Address: hello.Address, Observer: hello.Observer}
	if len(hello.List) == 1 && hello.List[0].ID == e.ID {
		own := &hello.List[0]
		e.Version, e.Number, e.Disk = own.Version, own.Number, own.Disk
	}
	return e
}

// mayJoin returns why a newcomer may not be put on the list, if it may not.
func (t *Transport) mayJoin(hello *wire.Handshake) (why wire.Reason, detail string) {
	switch err := t.site.AdmitJoin(newcomer(hello), hello.Incarnation); {
	case hello.From.ID == t.self.From.ID && hello.Incarnation == t.self.Incarnation:
		return wire.ReasonItself, "this is the same process"
	case errors.Is(err, election.ErrTooManyJoins):
		return wire.ReasonManyJoins, err.Error()
	case errors.Is(err, election.ErrMixedKind), errors.Is(err, election.ErrFull), errors.Is(err, election.ErrWornOut):
		return wire.ReasonJoin, err.Error()
	case election.CheckAddress(hello.Address) != nil:
		return wire.ReasonJoin, fmt.Sprintf("address %q: the others must be able to reach the newcomer there", hello.Address)
	default:
		return t.admission(hello.From, err)
	}
}

// Newcomer is what a member reports of itself when it asks to be added to the list.
type Newcomer struct {
	Rank    election.Rank
	Address string            // where members reach it
	List    []election.Member // its entry on its own list, or empty
	Token   election.Token    // the highest that it holds
}

// Answer is the answer to a newcomer.
type Answer struct {
	Admitted      bool
	network.Entry             // of an admission
	Later         bool        // refused for now: ask again
	Holder        string      // with Later: the address of a live process that has its id; "" for a different reason
	By            election.ID // with Later: the member that reports it
	Insecure      string      // with Later: how the two ends' security differs
	Refused       error       // refused until a user fixes the cause; wraps [election.ErrRemoved] if it was removed
}

// Ask asks the member at addr to add this member to its list. It returns nil if no answer arrives
// before ctx ends, nor in the time that a dial and the handling of a message take. It may be called
// from any goroutine. self is called once there is a connection.
func (t *Transport) Ask(ctx context.Context, addr string, self func(context.Context) (Newcomer, error)) *Answer {
	ctx, cancel := context.WithTimeout(ctx, t.connectTime+t.trip+t.site.Timing.TProcess)
	defer cancel()
	answer, err := t.ask(ctx, addr, self)
	if err != nil {
		if errors.As(err, new(*insecure)) {
			t.site.Counters.Refused(string(wire.ReasonSecurity))
			t.refusals.Warn(t.site.Log, hostIn(addr), string(wire.ReasonSecurity), "join refused", "address", addr, "reason", string(wire.ReasonSecurity), "detail", election.Shown(clamped(err.Error())))
			return &Answer{Later: true, Insecure: election.Shown(clamped(err.Error()))}
		}
		t.site.Log.Debug("no answer to a join", "address", addr, "error", err)
		return nil
	}
	if answer.Kind == wire.KindAdmitted {
		return &Answer{Admitted: true, Entry: network.Entry{List: answer.List, Token: answer.Token, Age: answer.Age}}
	}
	why := answer.Reason
	if why == wire.ReasonItself {
		return &Answer{}
	}
	if here, words := t.differs(answer); here == why {
		answer.Detail = words // complete, with this member first
	}
	t.site.Counters.Refused(string(why.Known()))
	t.refusals.Warn(t.site.Log, hostIn(addr), string(why.Known()), "join refused", "address", addr, "reason", string(why.Known()), "detail", election.Shown(answer.Detail))
	switch why {
	case wire.ReasonSameID:
		later := &Answer{Later: true, By: answer.From.ID} // the list may still have an earlier process with this id
		if election.CheckAddress(answer.Detail) == nil {
			later.Holder = answer.Detail
		}
		return later
	case wire.ReasonOldIncarnation, wire.ReasonClosing, wire.ReasonManyJoins:
		return &Answer{Later: true} // as above, or there are many newcomers
	case wire.ReasonRemoved:
		return &Answer{Refused: election.ErrRemoved}
	}
	return &Answer{Refused: fmt.Errorf("refused (%s): %s", why.Known(), election.Shown(answer.Detail))}
}

func (t *Transport) ask(ctx context.Context, addr string, self func(context.Context) (Newcomer, error)) (*wire.Handshake, error) {
	c := &conn{bounds: t.bounds, live: &t.live, counters: t.site.Counters}
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	defer c.close()
	if err := t.reach(ctx, c, addr); err != nil {
		return nil, err
	}
	c.release()
	me, err := self(ctx)
	if err != nil {
		return nil, err
	}
	hello := t.self
	hello.Kind, hello.Observer = wire.KindJoin, t.site.Observer
	hello.From, hello.Address, hello.List, hello.Token = me.Rank, me.Address, me.List, me.Token
	frame, err := new(wire.Encoder).Handshake(&hello)
	if err != nil {
		return nil, err
	}
	if err := c.send(frame); err != nil {
		return nil, err
	}
	return t.admitted(ctx, c, addr)
}

// admitted receives the answer to a join.
func (t *Transport) admitted(ctx context.Context, c *conn, addr string) (*wire.Handshake, error) {
	until, _ := ctx.Deadline()
	if err := c.await(until); err != nil {
		return nil, err
	}
	body, err := t.firstAnswer(c, wire.MaxFrame)
	if err != nil {
		return nil, t.toldInsecure(c, addr, err)
	}
	answer, err := wire.DecodeHandshake(body)
	switch {
	case err != nil:
		return nil, err
	case answer.Kind != wire.KindAdmitted && answer.Kind != wire.KindRefused:
		return nil, errors.New("it answers a join with a " + string(answer.Kind))
	}
	if why, detail := t.unproven(c, answer.From.ID); why != "" {
		return nil, &insecure{errors.New(detail), true}
	}
	return answer, nil
}
