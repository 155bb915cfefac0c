package boss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/refusal"
)

// dialAttempts is how often an exchange is tried on a connection that is made and then reset:
// the process at the remote end is ending, and refuses in a moment.
const dialAttempts = 3

// dialer makes connections to members, without a list of them. It may be used on any goroutine.
type dialer struct {
	ctx     context.Context // ends all
	from    string          // this member's own IP address
	timeout time.Duration   // of a dial, and of a frame with its reply
	log     *slog.Logger
	faults  *faults
}

// run does an exchange, and returns the reply to its last frame; nil: there was none.
func (d *dialer) run(x *exchange) (f *frame, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, cmp.Or(x.wait, d.timeout))
	defer cancel()
	for i, out := range x.frames {
		last := i == len(x.frames)-1
		for attempt := 1; ; attempt++ {
			f, err = d.once(ctx, x.addr, out, !last || x.mute)
			if err == io.EOF && x.silent && last {
				return nil, nil
			}
			if attempt == dialAttempts || !wasReset(err) {
				break
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// once sends a frame and reads the reply, unless mute is set.
func (d *dialer) once(ctx context.Context, addr string, out []byte, mute bool) (*frame, error) {
	nc, err := d.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if _, err := nc.Write(out); err != nil || mute {
		return nil, err
	}
	f, err := readFrame(nc, func() {})
	if err != nil {
		d.faults.connection(nc, err)
		return nil, err
	}
	if err = f.from(hostOf(nc)); err != nil {
		d.faults.connection(nc, err)
	}
	return f, err
}

// present makes a persistent connection, and reads the identification of the remote end.
func (d *dialer) present(addr string, out []byte) (net.Conn, *frame, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	nc, err := d.dial(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if _, err = nc.Write(out); err == nil {
		var f *frame
		if f, err = readFrame(nc, func() {}); err == nil {
			if err = f.from(hostOf(nc)); err == nil && f.Type == typeIdentification {
				return nc, f, nil
			}
			err = cmp.Or(err, bad("id", "a %s for an answer", f.Type))
		}
		d.faults.connection(nc, err)
	}
	nc.Close()
	return nil, nil, err
}

// dial connects from this member's own address.
func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	from := net.Dialer{KeepAlive: -1}
	if a, err := netip.ParseAddr(d.from); err == nil {
		from.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	}
	nc, err := from.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		d.log.Error("this member's id is no address of this machine: give it one as its id", "id", d.from, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return nc, nil
}

func hostOf(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

func wasReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// faults counts and logs what is dropped. It may be used on any goroutine.
type faults struct {
	log      *slog.Logger
	counters *network.Counters
	refusals refusal.Log
}

// drop counts what was dropped for a reason, and logs it unless that was logged for the host
// recently.
func (f *faults) drop(host, reason, text string, args ...any) {
	f.counters.Bad(reason)
	f.refusals.Warn(f.log, host, reason, text, args...)
}

// connection counts and logs an invalid frame. The end of a connection is no fault.
func (f *faults) connection(nc net.Conn, err error) {
	var b *badFrame
	reason := ""
	switch {
	case errors.As(err, &b):
		reason = b.reason
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "cut"
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = "slow"
	case errors.Is(err, syscall.ETIMEDOUT): // no frame at all: the kernel gave the connection up
		f.refusals.Warn(f.log, hostOf(nc).String(), "silent", "the other end's machine does not answer; the connection is closed", "peer", nc.RemoteAddr(), "error", err)
		return
	default:
		return
	}
	f.drop(hostOf(nc).String(), reason, "bad frame; its connection is closed", "from", nc.RemoteAddr(), "reason", reason, "error", err)
}
