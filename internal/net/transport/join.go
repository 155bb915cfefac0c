package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file is how this member joins as a newcomer, which only has an address.

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
			t.counters.Refused(string(wire.ReasonSecurity))
			t.refusals.Warn(t.log, hostIn(addr), string(wire.ReasonSecurity), "join refused", "address", addr, "reason", string(wire.ReasonSecurity), "detail", election.Shown(clamped(err.Error())))
			return &Answer{Later: true, Insecure: election.Shown(clamped(err.Error()))}
		}
		t.log.Debug("no answer to a join", "address", addr, "error", err)
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
	t.counters.Refused(string(why.Known()))
	t.refusals.Warn(t.log, hostIn(addr), string(why.Known()), "join refused", "address", addr, "reason", string(why.Known()), "detail", election.Shown(answer.Detail))
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
	c := &conn{bounds: t.bounds, live: &t.live, counters: t.counters}
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
	answer, err := t.answerOf(c, addr, until, wire.MaxFrame)
	switch {
	case err != nil:
		return nil, err
	case answer.Kind != wire.KindAdmitted && answer.Kind != wire.KindRefused:
		return nil, errors.New("it answers a join with a " + string(answer.Kind))
	}
	if err := t.proves(c, answer.From.ID); err != nil {
		return nil, &insecure{err, true}
	}
	return answer, nil
}
