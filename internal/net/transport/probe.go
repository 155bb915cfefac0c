package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

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
