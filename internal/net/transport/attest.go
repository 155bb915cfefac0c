package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

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
