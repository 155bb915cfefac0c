package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
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
	Why           string      // with Later: the reason, if only a user can fix it: the two ends' security, or the disk of an earlier process
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
			return &Answer{Later: true, Why: election.Shown(clamped(err.Error()))}
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
		} else {
			later.Why = election.Shown(answer.Detail)
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

// Probed is the answer of a member to [Probe].
type Probed struct {
	*wire.Handshake
	Proof     *tls.ConnectionState // of the member; nil without TLS
	RoundTrip time.Duration        // of question and answer, on a connection that existed
	Ahead     time.Duration        // the member's wall clock minus this process's, with an error of at most RoundTrip/2; 0 if Clock is 0
}

// nameless is the receiver of a check, and no member: a release without checks refuses it as meant
// for a different member.
const nameless election.ID = "batuta-check"

// Probe asks the process at addr for its settings, by a hello of the member self. It takes part in
// no election, and does not change the receiver's list. The answer arrives within limit, or an
// error does. Reason is why it was refused.
func Probe(ctx context.Context, addr string, by Security, self wire.Handshake, limit time.Duration) (Probed, error) {
	return Dialer(Dial).probe(ctx, addr, by, self, limit)
}

// Check is [Probe] by a member. It may be called from any goroutine.
func (t *Transport) Check(ctx context.Context, addr string, limit time.Duration) (Probed, error) {
	return t.dialer.probe(ctx, addr, t.security, wire.Handshake{Cluster: t.self.Cluster, From: t.self.From}, limit)
}

func (d Dialer) probe(ctx context.Context, addr string, by Security, self wire.Handshake, limit time.Duration) (Probed, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	k := &connector{dialer: d, security: by, trip: limit, counters: new(network.Counters), bounds: bounds{frame: limit, write: limit}}
	self.Kind, self.Version, self.To, self.Check = wire.KindHello, wire.ProtocolVersion, nameless, true
	frame, err := new(wire.Encoder).Handshake(&self)
	if err != nil {
		return Probed{}, err
	}
	for attempt := 1; ; attempt++ {
		answer, err := k.probe(ctx, addr, frame)
		if ctx.Err() != nil && errors.Is(err, net.ErrClosed) { // by the end of ctx, before the connection's own deadline
			err = &net.OpError{Op: "read", Net: "tcp", Err: ctx.Err()}
		}
		if err == nil || attempt == dialAttempts || !wasReset(err) {
			return answer, err
		}
	}
}

func (k *connector) probe(ctx context.Context, addr string, hello []byte) (Probed, error) {
	c := &conn{dialed: true, bounds: k.bounds, live: &k.live, counters: k.counters}
	defer k.live.Wait()
	defer context.AfterFunc(ctx, c.close)()
	defer c.close()
	if err := k.reach(ctx, c, addr); err != nil {
		return Probed{}, err
	}
	c.release()
	sent := time.Now()
	if err := c.send(hello); err != nil {
		return Probed{}, err
	}
	h, err := k.answerOf(c, addr, k.soon(ctx), wire.MaxHandshake)
	trip := time.Since(sent)
	if err != nil {
		return Probed{}, err
	}
	if h.Kind != wire.KindRefused {
		return Probed{}, fmt.Errorf("a %s is no answer to a check", h.Kind)
	}
	answer := Probed{Handshake: h, Proof: c.proof(), RoundTrip: trip}
	if h.Clock != 0 {
		answer.Ahead = time.Unix(0, h.Clock).Sub(sent.Add(trip / 2).Round(0))
	}
	return answer, nil
}

// IsInsecure reports whether an error of [Probe] is a lack of trust between the two ends.
func IsInsecure(err error) bool { return errors.As(err, new(*insecure)) }

// This file sends the proof that a leader is dead.

// attestPause is how long a guard waits before it tries a member again.
const attestPause = 20 * time.Millisecond

// SendOath sends the secret of an oath to all its members at once, over separate connections, and
// retries those that did not accept it. It returns when all have accepted, or when ctx ends, with
// the error of each remaining member.
func SendOath(ctx context.Context, o attest.Oath) error {
	frame, err := new(wire.Encoder).Handshake(&wire.Handshake{Kind: wire.KindAttest, Version: wire.ProtocolVersion, From: o.Token.Leader, Token: o.Token, Secret: o.Secret})
	if err != nil {
		return err
	}
	faults := make([]error, len(o.Members))
	var all sync.WaitGroup
	for i, addr := range o.Members {
		all.Go(func() {
			for {
				if faults[i] = attestTo(ctx, addr, frame); faults[i] == nil {
					return
				}
				select {
				case <-time.After(attestPause):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

// attestTo sends a frame to a member, which closes the connection once it has accepted that.
func attestTo(ctx context.Context, addr string, frame []byte) error {
	nc, err := Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	if until, ok := ctx.Deadline(); ok {
		nc.SetDeadline(until)
	}
	if _, err := nc.Write(frame); err != nil {
		return fmt.Errorf("attest to %s: %w", addr, err)
	}
	if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("attest to %s: it did not close the connection (%v)", addr, err)
	}
	return nil
}
