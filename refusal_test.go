package batuta

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// A refusal without a reason, from the address of member 1 and under its certificate, is no
// connection: nothing that comes behind it counts.
func TestARefusalWithoutAReasonIsNoWelcome(t *testing.T) {
	b := besiege(t)
	leader, addr := b.nodes["3"], b.nodes["1"].Addr()
	b.nodes["1"].Close()
	within(t, "the process is gone", func() bool { return statusOf(leader).Links == 1 })
	b.kill("1")
	var l net.Listener
	within(t, "the port is free", func() (free bool) {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	defer l.Close()
	config := &tls.Config{Certificates: []tls.Certificate{*issue(t, b.ca, member("1"))}, NextProtos: []string{"batuta/1"}, ClientAuth: tls.RequestClientCert}
	var answered atomic.Int32
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go refuseAndSpeak(tls.Server(nc, config), b.token, &answered)
		}
	}()
	within(t, "it is dialed again, or taken for a member", func() bool {
		return answered.Load() >= 3 || leader.Leader().Token != b.token || b.nodes["2"].Leader().Token != b.token
	})
	b.unmoved()
}

// refuseAndSpeak answers a hello with a refusal that gives no reason, and then speaks as
// member 2, which leads under a higher epoch.
func refuseAndSpeak(c *tls.Conn, token Token, answered *atomic.Int32) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	head := make([]byte, wire.LengthSize)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))); err != nil {
		return
	}
	frame, err := new(wire.Encoder).Handshake(&wire.Handshake{Kind: wire.KindRefused, Version: wire.ProtocolVersion,
		From: Rank{ID: "2"}, Incarnation: math.MaxUint64})
	if err != nil {
		panic(err)
	}
	c.Write(slices.Clone(frame))
	m := &election.Message{Kind: election.Coordinator, Election: DefaultElection, From: "2", To: "3",
		Token: Token{Epoch: token.Epoch + 7, Leader: Rank{ID: "2"}}, Highest: token.Epoch + 7}
	if frame, err = new(wire.Encoder).Message(m); err != nil {
		panic(err)
	}
	c.Write(frame)
	answered.Add(1)
	io.Copy(io.Discard, c)
}

// What is asked of the loop and no longer awaited is not written into what its caller reads:
// the race detector looks.
func TestAnAnswerThatCameTooLateIsNotWritten(t *testing.T) {
	c := newCluster(t, 1)
	n := c.start("1")
	c.agree("1")
	for range 3000 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if l, err := n.Lease(ctx); err != nil && l.Left != 0 {
			t.Fatalf("%v, and %v", l.Left, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go cancel()
		if ids, err := n.Drained(ctx); err != nil && ids != nil {
			t.Fatalf("%v, and %v", ids, err)
		}
	}
}
